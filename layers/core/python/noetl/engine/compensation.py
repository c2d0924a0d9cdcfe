"""Compensation: a failing execution undoes its completed step runs, the last one first.

One compensation runs at a time; then the execution fails.

The failure drops everything that is under way (``begin``). From then on ``settle`` finds no token and asks ``undo_next`` for the next
run to undo: its step's ``compensate`` pipeline leaves as a command of stage ``compensate``, under the number of the run it undoes.
Its outcome (``noetl.engine.compensated``) is recorded, and stops nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.domain import codec, ids
from noetl.domain.commands import Command, FrozenScope
from noetl.domain.facts.facts import CommandIssued, Compensating
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.dsl.program import Pipeline, Step
from noetl.engine.decision import Decider, worker_pool
from noetl.engine.ending import drop_work
from noetl.engine.folds.compensation import REPORT, UNDO
from noetl.engine.scopes.prefetch import undo_reads
from noetl.engine.scopes.scope import freeze

STAGE = "compensate"


def begin(d: Decider, error: ErrorInfo, step: str) -> None:
    """Begin to compensate: drop the execution's tokens, timers, commands and children."""
    drop_work(d)
    d.cancel_children()
    d.emit(Compensating(error, step))


def undo_next(d: Decider) -> bool:
    """Issue the compensation of the latest run not yet undone; False when none is left."""
    run = d.state.undo
    if not run:
        return False
    require(d, run)
    step = d.steps[d.slots.get((UNDO, str(run)))["step"]]
    command = compensation(d, step, run)
    d.emit(CommandIssued(run, step.name, command.command_id, command.pool, "compensate"))
    d.decision.issue.append(command)
    return True


def require(d: Decider, run: int) -> None:
    """Read everything that the compensation of ``run`` may use, in one more read."""
    names, scopes = undo_reads(d.program)
    d.slots.require((*names, str(run)), scopes)


def compensation(d: Decider, step: Step, run: int, turn: int = 0, machine: Any = None) -> Command:
    """Build the command that undoes ``run`` (or its next turn), over the scope as it is now."""
    pipeline = step.compensate
    assert pipeline is not None
    return Command(
        d.execution_id,
        ids.command_id(run, STAGE),
        run,
        step.name,
        d.program.hash,
        worker_pool(pipeline.pool),
        stage="compensate",
        turn=turn,
        scope=_frozen(d, step, run, pipeline),
        machine=machine,
    )


def _frozen(d: Decider, step: Step, run: int, pipeline: Pipeline) -> FrozenScope:
    """Freeze the scope of a compensation.

    It has the run's result (under ``result`` and its step's name), its arguments and its tasks as the run left them; the rest as it is now.
    """
    require(d, run)
    kept, report = d.slots.get((UNDO, str(run))), d.slots.get(REPORT)
    slot = kept["result"]
    extra = {**slot.get("labels", {}), "result": slot.get("data"), "error": report["error"]}
    if "$step" in kept["args"]:
        extra["step"] = kept["args"]["$step"]
    frozen = freeze(d.scope(run, args=kept["args"]), pipeline.reads, extra)
    return msgspec.structs.replace(frozen, steps={**frozen.steps, step.name: slot})


def failure_of(d: Decider, stopped: ErrorInfo | None = None) -> tuple[ErrorInfo, str]:
    """Return the error that the execution fails with, and its step.

    It is the original error, with the outcome of compensating in its details. ``stopped``: why not every run could be compensated.
    """
    report = d.slots.get(REPORT)
    error = codec.convert(report["error"], ErrorInfo)
    details: dict[str, Any] = {**error.details, "compensation": report["told"]}
    if report["more"]:
        details["compensation_more"] = report["more"]
    if stopped is not None:
        details["compensation_stopped"] = stopped.message
    return msgspec.structs.replace(error, details=details), report["step"]
