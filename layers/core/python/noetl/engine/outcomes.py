"""Outcomes that workers report: results, failures and suspensions of a run, and late ones."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from noetl.domain import codec, ids
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.events import ChildDone, CommandDone, Parent, Start
from noetl.domain.facts.facts import (
    CallDone,
    CallFailed,
    ChildEnded,
    CommandIssued,
    StepSkipped,
    Superseded,
    Suspended,
    Waiting,
)
from noetl.domain.facts.waits import WaitStarted
from noetl.domain.outcomes.outcomes import CallbackRequest, ChildRequest, ErrorInfo, Outcome
from noetl.domain.state import Token
from noetl.dsl.program import Step
from noetl.engine import cases
from noetl.engine.budget import calls_of, calls_so_far, used_up
from noetl.engine.callbacks import begin_waiting, going_on
from noetl.engine.collections import reading
from noetl.engine.compensation import compensation, require
from noetl.engine.complete_execution import fail_execution
from noetl.engine.decision import Decider, Woken, worker_pool
from noetl.engine.routing import exit_step, fail_step, patch_context
from noetl.engine.scopes.boundary_scope import boundary_scope
from noetl.engine.scopes.scope import freeze

Value = TypeVar("Value")


def superseded(
    d: Decider, event_id: str, command: str = "", attempt: int = 0, turn: int = 0, status: str = ""
) -> None:
    event = d.event
    who, why = getattr(event, "principal", ""), getattr(event, "reason", "")
    correlation = getattr(event, "correlation_id", "")
    d.emit(Superseded(event_id, command, attempt, turn, status, who, why, correlation))


def waiting_token(d: Decider, event: CommandDone) -> Token | None:
    """Return the token that waits for this outcome's command and turn; None for a late one."""
    token = d.token(event.run)
    if token is None or token.command != event.command_id or token.turn != event.turn:
        return None
    return token


def body_outcome(d: Decider, step: Step, token: Token, outcome: Outcome) -> None:
    """Bind the result, then leave the step over its cases and arcs; or suspend; or fail."""
    if outcome.status == "suspended":
        suspend(d, step, token, outcome)
        return
    try:
        patch_context(d, outcome.patches, token.run, step.name)
    except NoetlError as error:
        _failed(d, step, token, d.error_of(error), outcome)
        return
    children = detached_children(d, token, outcome)
    if outcome.status == "error":
        _failed(d, step, token, outcome.error or ErrorInfo(message="the task failed"), outcome, children)
        return
    d.emit(
        CallDone(
            token.run,
            step.name,
            result=outcome.result,
            error=outcome.error,
            labels=outcome.labels,
            route=outcome.route,
            trace=outcome.trace,
            meta=outcome.meta,
            calls=calls_of(d, step, token, outcome.meta),
        )
    )
    start_detached(d, token, children)
    if outcome.status == "skipped":
        d.emit(StepSkipped(token.run, step.name, str(outcome.result or "")))
        exit_step(d, token, step, skipped=True)
    else:
        cases.after_call(d, step, token)


def _failed(
    d: Decider, step: Step, token: Token, error: ErrorInfo, outcome: Outcome, children: Sequence[Start] = ()
) -> None:
    if token.phase == "compensate":
        could_not(d, step, token, error, outcome)
        return
    d.emit(
        CallFailed(
            token.run,
            step.name,
            error,
            labels=outcome.labels,
            trace=outcome.trace,
            meta=outcome.meta,
            calls=calls_of(d, step, token, outcome.meta),
        )
    )
    start_detached(d, token, children)
    fail_step(d, token, step, error)


# --- a run that is being undone ---


def compensated(d: Decider, step: Step, token: Token, outcome: Outcome) -> None:
    """Handle the outcome of a compensation; when it suspended itself, issue its next turn."""
    if outcome.status == "suspended":
        suspend(d, step, token, outcome)
        return
    require(d, token.run)
    try:
        patch_context(d, outcome.patches, token.run, step.name)
    except NoetlError as problem:
        could_not(d, step, token, d.error_of(problem), outcome)
        return
    children = detached_children(d, token, outcome)
    if outcome.status == "error":
        could_not(d, step, token, outcome.error or ErrorInfo(message="the compensation failed"), outcome)
    else:
        d.emit(
            CallDone(
                token.run,
                step.name,
                stage="compensate",
                result=outcome.result,
                labels=outcome.labels,
                trace=outcome.trace,
                meta=outcome.meta,
            )
        )
    start_detached(d, token, children)


def could_not(d: Decider, step: Step, token: Token, error: ErrorInfo, outcome: Outcome) -> None:
    """Record that a compensation failed: its run stays done, and the next one is undone."""
    require(d, token.run)
    d.emit(
        CallFailed(
            token.run,
            step.name,
            error,
            stage="compensate",
            labels=outcome.labels,
            trace=outcome.trace,
            meta=outcome.meta,
        )
    )


# --- turns ---


def suspend(d: Decider, step: Step, token: Token, outcome: Outcome) -> None:
    """Issue the next turn: after a delay, or once a sub-execution or a callback ends the wait.

    No worker is held meanwhile.
    """
    reason = outcome.suspend
    if reason is None:
        _failed(
            d,
            step,
            token,
            ErrorInfo(message="suspended without a reason", kind="unknown", code="internal"),
            outcome,
        )
        return
    try:
        patch_context(d, outcome.patches, token.run, step.name)
    except NoetlError as error:
        _failed(d, step, token, d.error_of(error), outcome)
        return
    children = detached_children(d, token, outcome)
    calls = calls_so_far(d, step, token, outcome.meta)
    try:
        overspent = used_up(d, step, calls) if reason.spends else None
    except NoetlError as error:
        _failed(d, step, token, d.error_of(error), outcome, children)
        return
    if overspent is not None:
        _stopped(d, token, overspent, outcome, children, calls)
        return
    command = _next_turn(d, step, token, outcome)
    if reason.child is not None:
        _wait_for_child(d, token, command, reason.child, outcome, children, calls)
        return
    if reason.callback is not None:
        _wait_for_callback(d, token, command, reason.callback, outcome, children, calls)
        return
    delay = reason.delay or 0.0
    if reason.until is not None:
        delay = max(0.0, reason.until - d.now)
    command = msgspec.structs.replace(command, delay=delay)
    if reason.task:
        until = reason.deadline or (d.now + delay if reason.until is None else reason.until)
        remote, trace = reason.remote, outcome.trace
        d.emit(WaitStarted(token.run, step.name, command.turn, reason.task, delay, until, trace, remote))
    else:
        d.emit(Suspended(token.run, step.name, command.turn, delay, outcome.trace))
    start_detached(d, token, children)
    d.emit(_issued(command, token, delay=delay, calls=calls))
    d.decision.issue.append(command)


def _stopped(
    d: Decider, token: Token, error: ErrorInfo, outcome: Outcome, children: Sequence[Start], calls: int
) -> None:
    """Fail the execution before a call for which its budget has nothing left."""
    stage: Literal["body", "case"] = "case" if token.phase == "case" else "body"
    d.emit(CallFailed(token.run, token.step, error, stage, {}, outcome.trace, outcome.meta, calls))
    start_detached(d, token, children)
    fail_execution(d, error, token.step)


def _next_turn(d: Decider, step: Step, token: Token, outcome: Outcome) -> Command:
    """Build the command of the next turn, over the scope as it is now."""
    assert outcome.suspend is not None
    if token.phase == "compensate":
        again = compensation(d, step, token.run, token.turn + 1, outcome.suspend.machine)
        return msgspec.structs.replace(again, remote=outcome.suspend.remote)
    if token.phase == "collection":
        return reading(d, step, token, token.turn + 1, outcome.suspend.machine)
    stage = "case" if token.phase == "case" else "body"
    extra = {}
    if stage == "case":
        names = boundary_scope(d, token, token.event)
        extra = cases.stage_names(names)
    reads = step.exit_reads if stage == "case" or step.body is None else step.body.reads
    return Command(
        d.execution_id,
        token.command or ids.command_id(token.run),
        token.run,
        step.name,
        d.program.hash,
        "io" if stage == "case" or step.body is None else worker_pool(step.body.pool),
        stage=stage,  # type: ignore[arg-type]
        rule=token.rule if stage == "case" else -1,
        turn=token.turn + 1,
        scope=freeze(d.scope(token.run), reads, extra),
        machine=outcome.suspend.machine,
        remote=outcome.suspend.remote,
    )


def _issued(
    command: Command, token: Token, delay: float = 0.0, child: int | None = None, calls: int = 0
) -> CommandIssued:
    return CommandIssued(
        command.run,
        command.step,
        command.command_id,
        command.pool,
        command.stage,
        command.rule,
        command.turn,
        delay,
        child,
        calls=calls,
    )


def _wait_for_child(
    d: Decider,
    token: Token,
    command: Command,
    request: ChildRequest,
    outcome: Outcome,
    detached: Sequence[Start],
    calls: int,
) -> None:
    parent = Parent(
        d.execution_id, command.command_id, command.turn, token.run, return_step=request.return_step
    )
    start = child_start_event(parent, request, d.state.depth + 1, d.view.taken)
    d.emit(Waiting(token.run, token.step, command.turn, start.execution_id, request.path, outcome.trace))
    start_detached(d, token, detached)
    d.emit(_issued(command, token, child=start.execution_id, calls=calls))
    d.decision.waiting.append(command)
    d.decision.outbox.append(start)


def _wait_for_callback(
    d: Decider,
    token: Token,
    command: Command,
    request: CallbackRequest,
    outcome: Outcome,
    detached: Sequence[Start],
    calls: int,
) -> None:
    answered = begin_waiting(d, token, command, request, outcome.trace)
    start_detached(d, token, detached)
    d.emit(_issued(command, token, calls=calls))
    if answered is None:
        d.decision.waiting.append(command)
    else:
        d.decision.issue.append(answered)


def child_start_event(parent: Parent, request: ChildRequest, depth: int, taken: Container[int]) -> Start:
    """Make the Start of a sub-execution. Its ids are derived, so that asking twice starts one.

    ``taken``: execution ids that the store refused for it.
    """
    origin = ids.child_origin(parent.command_id, parent.turn, parent.index)
    child = ids.child_execution_id(parent.execution_id, origin, taken, parent.index)
    return _start(parent, request, depth, origin, child)


def _start(parent: Parent, request: ChildRequest, depth: int, origin: str, child: int) -> Start:
    return Start(
        child,
        ids.start_event(f"{parent.execution_id}/{origin}"),
        program="",
        path=request.path,
        version=request.version,
        payload=request.payload,
        parent=parent,
        depth=depth,
        no_cache=request.no_cache,
    )


def detached_children(d: Decider, token: Token, outcome: Outcome) -> list[Start]:
    """Build the Starts of sub-executions that the run does not wait for.

    Their ids come from the command whose outcome this is, so call it before that outcome is folded.
    """
    if not outcome.meta.get("children"):
        return []
    command = token.command or ids.command_id(token.run)
    parent = Parent(d.execution_id, command, token.turn, token.run, wait=False)
    return detached(parent, outcome, d.state.depth + 1, d.view.taken)


def start_detached(d: Decider, token: Token, children: Sequence[Start]) -> None:
    """Emit and publish the Starts of detached sub-executions.

    Call it after the outcome that asked for them is recorded.
    """
    for start in children:
        d.emit(Waiting(token.run, token.step, token.turn, start.execution_id, start.path))
        d.decision.outbox.append(start)


def detached(parent: Parent, outcome: Outcome, depth: int, taken: Container[int] = ()) -> list[Start]:
    """Build the Starts of ``wait: false`` sub-executions.

    The pipeline reports them in ``meta.children``; they are numbered from 1.
    """
    requests = _requests(outcome)
    command, turn, item = parent.command_id, parent.turn, parent.index
    passed = [request.passed for request in requests]
    children = ids.detached_execution_ids(parent.execution_id, command, turn, item, passed, taken)
    return [
        _start(parent, request, depth, ids.child_origin(command, turn, item, number), child)
        for number, (request, child) in enumerate(zip(requests, children, strict=True), start=1)
    ]


def _requests(outcome: Outcome) -> list[ChildRequest]:
    return [codec.convert(raw, ChildRequest) for raw in outcome.meta.get("children", ())]


def replaced_ids(
    execution_id: int, command: str, turn: int, item: int, outcome: Outcome, taken: Collection[int]
) -> dict[str, str]:
    """Map ids of ``wait: false`` sub-executions that the store refused to the ids they get.

    The worker derived and reported them before the store could refuse them. Without a refusal the map is empty.
    """
    if not taken:
        return {}
    passed = [request.passed for request in _requests(outcome)]
    before_ids, free = (
        ids.detached_execution_ids(execution_id, command, turn, item, passed, known) for known in ((), taken)
    )
    return {
        str(before): str(after) for before, after in zip(before_ids, free, strict=True) if before != after
    }


def with_ids(value: Value, shape: type[Value], names: Mapping[str, str]) -> Value:
    """Replace ids (``replaced_ids``) everywhere in ``value``.

    Without any, it returns ``value`` itself.
    """
    return codec.convert(_renamed(msgspec.to_builtins(value), names), shape) if names else value


def with_free_ids_of(event: CommandDone, taken: Collection[int]) -> CommandDone:
    """Replace refused ids of sub-executions in the outcome of a command that carries no items."""
    names = replaced_ids(event.execution_id, event.command_id, event.turn, -1, event.outcome, taken)
    whole = with_ids(event.outcome, Outcome, names)
    return event if whole is event.outcome else msgspec.structs.replace(event, outcome=whole)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, (list, tuple)) else value


def _placed(event: ChildDone) -> Outcome:
    """Return the outcome of a loop item's sub-execution; an error names its item.

    The message is the same in every run of a playbook: the id is in the details alone.
    """
    error, index = event.outcome.error, event.parent.index
    if error is None:
        return event.outcome
    placed = msgspec.structs.replace(
        error,
        message=f"item {index}: {error.message}",
        details={**error.details, "item": index, "execution_id": str(event.child_id)},
    )
    return msgspec.structs.replace(event.outcome, error=placed)


def child_done(d: Decider, event: ChildDone) -> None:
    """Handle the end of a sub-execution: the turn that waits for it continues.

    The turn of a loop item is fenced by its own row.
    """
    parent = event.parent
    token = waiting_for_child(d, event)
    if token is None:
        superseded(d, event.event_id, parent.command_id, 0, parent.turn, event.outcome.status)
        return
    outcome = event.outcome if parent.round < 0 else _placed(event)
    d.decision.wakes.append(Woken(parent.command_id, parent.turn, outcome))
    d.emit(ChildEnded(token.run, token.step, event.child_id, event.outcome.status, parent.index))
    if parent.round < 0:
        d.emit(going_on(d, token, parent.command_id, parent.turn))


def waiting_for_child(d: Decider, event: ChildDone) -> Token | None:
    """Return the token that waits for this sub-execution.

    Either its own turn waits for it, or an item of its loop does.
    """
    parent, token = event.parent, d.token(event.parent.run)
    if token is not None and parent.round >= 0:
        return token if token.phase == "loop" and token.round == parent.round else None
    fits = token is not None and token.command == parent.command_id and token.turn == parent.turn
    return token if fits else None
