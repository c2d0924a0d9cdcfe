"""Pipelines of control kinds, run by the engine itself: no worker, no message."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import msgspec

from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.loop_resume import Places
from noetl.domain.outcomes.outcomes import ChildRequest, ErrorInfo, Outcome
from noetl.domain.results.references import is_ref
from noetl.domain.wait_request import wait_request, within
from noetl.dsl.program import (
    LiteralNode,
    Map,
    Pipeline,
    Program,
    RunAction,
    SinkAction,
    Step,
    Task,
    aliases_of,
    calls_back_task,
    tasks_in,
)
from noetl.pipeline.children import ChildIds
from noetl.pipeline.errors import error_of
from noetl.pipeline.machine import PipelineRun
from noetl.pipeline.preview import call_input
from noetl.pipeline.requests import Op, RunTask, TaskOutcome
from noetl.pipeline.surroundings import Item, Surroundings
from noetl.templating.contract import Hydrate

_CHILD_FIELDS: dict[str, str] = {"args": "payload", "input": "payload", "with": "payload"}


PLAIN_KINDS = frozenset({"playbook", "wait"})
"""Kinds that only ask the engine for something.

What their parameters hold stays a reference (a sub-execution reads it itself), and no call takes long.
"""


def stage_pipeline(step: Step, command: Command) -> Pipeline:
    """Return the pipeline of a command: the step's body, its compensation, or one case.

    A case has tasks and sinks.     Raises LookupError when the program has no such stage.
    """
    if command.stage == "body":
        if step.body is None:
            raise LookupError(f"step {step.name} has nothing to run")
        return step.body
    if command.stage == "compensate":
        if step.compensate is None:
            raise LookupError(f"step {step.name} cannot be undone")
        return step.compensate
    if not 0 <= command.rule < len(step.cases):
        raise LookupError(f"step {step.name} has no case entry {command.rule}")
    actions = step.cases[command.rule].actions
    tasks: tuple[Task, ...] = ()
    for action in actions:
        if isinstance(action, RunAction):
            tasks += action.tasks
    sinks = tuple(action for action in actions if isinstance(action, SinkAction))
    every = tasks_in((tasks, sinks))
    meaning = max((task.meaning for task in every), default=1)
    return Pipeline(tasks, sinks=sinks, calls_back=any(map(calls_back_task, every)), meaning=meaning)


def declared_workload(program: Program) -> tuple[str, ...]:
    """Return the keys of a playbook's ``workload`` block."""
    if isinstance(program.workload, Map):
        return tuple(name for name, _ in program.workload.entries)
    value = program.workload.value if isinstance(program.workload, LiteralNode) else None
    return tuple(value) if isinstance(value, dict) else ()


def item_of(command: Command, index: int, stored: Sequence[Any] = ()) -> Item | None:
    """Return the iteration at place ``index`` of a command's loop slice.

    ``stored``: the whole collection, where the slice has a ``source``.
    """
    loop = command.loop
    if loop is None:
        return None
    place = index - loop.start
    called = loop.indexes[place] if loop.indexes else index
    if loop.called:
        called = Places(loop.called).index(place)
    total = loop.whole or loop.total
    value = loop.items[place] if loop.source is None else stored[called]
    return Item(called, value, loop.iterator, total, loop.parent, loop.iterator_vars, index)


def run_inline(
    program: Program,
    step: Step,
    command: Command,
    *,
    hydrate: Hydrate | None = None,
    taken: Container[int] = (),
) -> Outcome:
    """Run a command that has no items and whose tasks are all of control kinds.

    ``noop`` returns its input. ``playbook`` suspends the pipeline with the sub-execution to start (``Suspend.child``), ``wait`` with the
    event to wait for. A mistake in the playbook never raises: it is an outcome of status ``error``.
    """
    around = Surroundings(
        command.scope,
        command.execution_id,
        command.step,
        program.source_name,
        hydrate,
        child_id=ChildIds(command, taken),
        declared=declared_workload(program),
        aliases=aliases_of(program),
    )
    overlay = around.overlay()
    try:
        for patch in command.overlay:
            overlay.write(patch)
        run = PipelineRun(stage_pipeline(step, command), around, None, overlay)
        op: Op = run.begin() if command.machine is None else run.resume(command.machine, command.child)
        while isinstance(op, RunTask):
            op = run.feed(_control_call(op, hydrate, program.source_name))
    except NoetlError as error:
        return Outcome("error", error=error_of(error, program.source_name))
    except LookupError as error:
        return Outcome("error", error=ErrorInfo(str(error), "unknown", "no_such_stage"))
    return op.outcome


def _control_call(op: RunTask, hydrate: Hydrate | None, source_name: str) -> TaskOutcome:
    """Make a call. Rules see the failure of one whose parameters are not available."""
    try:
        op = with_whole_params(op, hydrate)
    except NoetlError as error:
        return TaskOutcome(error=error_of(error, source_name))
    handler = _CONTROL.get(op.kind)
    if handler is None:
        return TaskOutcome(
            error=ErrorInfo(f"{op.kind} does not run inside the engine", "schema", "kind_not_control")
        )
    return handler(op)


def with_whole_params(op: RunTask, hydrate: Hydrate | None) -> RunTask:
    """Load the large parameters of a sub-playbook or a wait, and the input of a sub-playbook.

    A reference would replace its workload instead of being merged over it. Raises TaskError for a value that is not available.
    """
    if op.kind not in PLAIN_KINDS or hydrate is None:
        return op
    params, given = op.params, op.input
    if isinstance(params, dict):
        params = {name: hydrate(value) if is_ref(value) else value for name, value in params.items()}
    if op.kind == "playbook" and is_ref(given):
        given = hydrate(given)
    return msgspec.structs.replace(op, params=params, input=given)


def _noop(op: RunTask) -> TaskOutcome:
    return TaskOutcome(dict(op.input) or None)


def _playbook(op: RunTask) -> TaskOutcome:
    params: dict[str, Any] = op.params if isinstance(op.params, dict) else {}
    fields: dict[str, Any] = {_CHILD_FIELDS.get(name, name): value for name, value in params.items()}
    problem = _child_problem(fields)
    if problem is not None:
        field, what = problem
        return TaskOutcome(
            error=ErrorInfo(
                f"playbook: {what}",
                "schema",
                "kind_params",
                hint="see the parameters of the kind playbook",
                details={"field": field, "input": call_input(params, op.input)},
            )
        )
    version = fields.get("version")
    return TaskOutcome(
        child=ChildRequest(
            path=fields["path"],
            version=int(version) if version not in (None, "latest") else None,
            payload={**(fields.get("payload") or {}), **op.input},
            return_step=fields.get("return_step"),
            wait=fields.get("wait", True),
        )
    )


def _child_problem(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """(parameter, what is wrong with it) of a ``playbook`` task's rendered parameters."""
    if not isinstance(fields.get("path"), str) or not fields["path"]:
        return "path", f"path must be the catalog path of a playbook, not {str(fields.get('path'))[:60]!r}"
    version = fields.get("version")
    digits = isinstance(version, int) and not isinstance(version, bool) and version > 0
    if not (version in (None, "latest") or digits or _is_version(version)):
        return "version", f"version must be a whole number or latest, not {str(version)[:40]!r}"
    if not isinstance(fields.get("payload") or {}, dict):
        return "payload", f"payload must be a mapping, not {str(fields['payload'])[:40]!r}"
    if not isinstance(fields.get("return_step"), (str, type(None))):
        return "return_step", "return_step must be the name of a step"
    if not isinstance(fields.get("wait", True), bool):
        return "wait", f"wait must be true or false, not {str(fields['wait'])[:40]!r}"
    unknown = sorted(fields.keys() - {"path", "version", "payload", "return_step", "wait"})
    return (unknown[0], f"unknown parameter {unknown[0]!r}") if unknown else None


_VERSION_DIGITS = 10


def _is_version(value: Any) -> bool:
    """Return whether a text is a version's number, of no more digits than versions have."""
    return isinstance(value, str) and value.isdecimal() and len(value) <= _VERSION_DIGITS


def _wait(op: RunTask) -> TaskOutcome:
    params: dict[str, Any] = op.params if isinstance(op.params, dict) else {}
    try:
        return TaskOutcome(wait=within(wait_request(params), op.timeout))
    except NoetlError as error:
        info = error_of(error)
        shown = {**info.details, "input": call_input(params, op.input)}
        return TaskOutcome(error=msgspec.structs.replace(info, details=shown))


_CONTROL: dict[str, Callable[[RunTask], TaskOutcome]] = {"noop": _noop, "playbook": _playbook, "wait": _wait}
