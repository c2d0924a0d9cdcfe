"""The run of one command: a step's pipeline, the tasks of a case, or a chunk of items.

To follow a run, start here: ``run_tasks`` drives ``noetl.pipeline`` and the kinds, ``run_items`` goes over a chunk, ``keep_results`` and
``secrecy`` guard the way out. Outcomes leave through ``emit``; nothing is written to the engine's tables.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.domain import ids
from noetl.domain.commands import Command, ItemOutcome
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.events import CommandDone, Event, ItemsDone
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.pipeline import stage_pipeline
from noetl.pipeline.errors import error_of
from noetl.services.results.stored_bytes import outages
from noetl.services.worker.run_items import run_items
from noetl.services.worker.run_tasks import TaskRunner
from noetl.services.worker.worker_deps import WorkerDeps

Emit = Callable[[Event], None]


def run_command(command: Command, deps: WorkerDeps, emit: Emit) -> None:
    """Run ``command`` and emit its outcome.

    It is one ``CommandDone``, or ``ItemsDone`` messages when the command carries items. What a playbook or a tool does wrong is an
    outcome. Raises InfrastructureError when the program or the result store cannot be reached: nothing is answered (but finished items), and
    the command has to be delivered again. Raises NotIssuedError when the command is not issued after all.
    """
    gate = deps.gate_of(command)

    def emit_issued(event: Event) -> None:
        if gate is not None:
            gate.enter()
        emit(event)

    with outages():
        _run(command, deps, emit_issued)


def _run(command: Command, deps: WorkerDeps, emit: Emit) -> None:
    try:
        if command.stage == "collection":
            from noetl.services.worker.read_collection import read_collection  # kinds come with it

            program = deps.programs(command.program)
            emit(CommandDone.of(command, read_collection(command, program, program.step(command.step), deps)))
            return
        runner = _prepare(command, deps)
    except InfrastructureError:
        raise
    except (NoetlError, LookupError) as error:
        emit(refused(command, Outcome("error", error=_unusable(command, error))))
        return

    def emit_last(event: Event) -> None:
        runner.flush_lines()
        emit(event)

    if command.loop is not None:
        run_items(runner, command.loop, emit_last)
        return
    if command.remote and deps.unwanted(command):
        runner.stop(None, command.machine)
        return
    overlay = runner.around.overlay()
    for patch in command.overlay:
        overlay.write(patch)
    done = CommandDone.of(command, runner.run(None, overlay, command.machine, command.child))
    if runner.unseen and deps.note_unseen is not None:
        deps.note_unseen(command, done)
    emit_last(done)


def _prepare(command: Command, deps: WorkerDeps) -> TaskRunner:
    program = deps.programs(command.program)
    step = program.step(command.step)
    return TaskRunner(command, program, step, stage_pipeline(step, command), deps)


def refused(command: Command, outcome: Outcome) -> Event:
    """Build the outcome of a command that cannot be run at all.

    Every item of it failed, when it carries items.
    """
    loop = command.loop
    if loop is None:
        return CommandDone.of(command, outcome)
    wanted = [index for index in range(loop.start, loop.stop) if index not in loop.skip]
    event_id = ids.items_event(command.command_id, command.attempt, command.turn, 1)
    return ItemsDone.of(
        command, event_id, loop.round, [ItemOutcome(index, outcome) for index in wanted], undone=0
    )


def _unusable(command: Command, error: Exception) -> ErrorInfo:
    if isinstance(error, NoetlError):
        return error_of(error)
    return ErrorInfo(
        f"program {command.program[:12]} has no {command.stage} for step {command.step!r}",
        "unknown",
        "no_such_stage",
        hint="the engine and this worker disagree about the program",
    )
