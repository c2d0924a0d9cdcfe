"""The engine: ``handle_event`` turns one event into one decision, which is data.

It is pure: everything that it may know is an argument, and everything that it wants done is in the ``Decision``.

``handle_event`` = decide (evaluate guards and templates, emit facts) + apply (fold each fact, ``engine/folds/apply.py``). Read next
``activate_step`` (a token fires its step), ``outcomes`` (a worker reported), ``cases``, ``routing`` (tokens move), ``joins``, ``loops``,
``complete_execution``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.domain.errors import NoetlError
from noetl.domain.events import (
    Cancel,
    ChildDone,
    CommandDone,
    ContextPatched,
    LoopAlert,
    LoopDone,
    MainEvent,
    Pause,
    Redrive,
    Resume,
    Start,
    TimerFired,
    TokenInjected,
)
from noetl.domain.facts.facts import (
    Arrival,
    CallDone,
    CallFailed,
    ContextChanged,
    Initialized,
    JoinFired,
    TimerExpired,
    TokenAdded,
    TokensAbsorbed,
)
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.sizes.gate import CODE as SIZE_LIMIT
from noetl.domain.sizes.gate import check_document, check_names
from noetl.domain.state import TERMINAL, ExecutionState
from noetl.dsl.program import Map, Program
from noetl.engine import callbacks, cases
from noetl.engine.activate_step import fire, look_again, past_deadline, retry_parked, start_body, timed_out
from noetl.engine.budget import calls_of, calls_unfinished
from noetl.engine.cancel_tokens import withdraw_feeders
from noetl.engine.complete_execution import (
    cancel_execution,
    complete_if_done,
    endless,
    fail_execution,
    refuse_execution,
)
from noetl.engine.context_patch import context_patched
from noetl.engine.decision import Decider, Decision
from noetl.engine.joins import Firing, WaveEnded, next_ready, stuck
from noetl.engine.limits import priority_of
from noetl.engine.loops import collected, loop_alert, loop_done
from noetl.engine.mutex import next_in_line
from noetl.engine.outcomes import (
    body_outcome,
    child_done,
    compensated,
    detached_children,
    start_detached,
    superseded,
    suspend,
    waiting_token,
    with_free_ids_of,
)
from noetl.engine.pausing import pass_on, pause, release, resume
from noetl.engine.redriving import redrive
from noetl.engine.routing import fail_step, patch_context
from noetl.engine.scopes.boundary_scope import boundary_scope
from noetl.engine.scopes.large_values import merged_names, merged_value
from noetl.engine.scopes.scope import EngineScope, workload_scope
from noetl.engine.scopes.slot_view import View


def handle_event(
    program: Program, state: ExecutionState, event: MainEvent, now: float, view: View
) -> Decision:
    """Decide what ``event`` does to an execution.

    ``state`` stays as it is; ``Decision.state`` is the new one. ``now``: epoch seconds, the store's clock. For an event that does not fit
    (its execution has ended, its command moved on) the Decision has ``command.superseded`` as its only fact.
    Raises NeedSlots when the view lacks something: read it and call again.
    """
    d = Decider(program, state, event, now, view)
    if state.status in TERMINAL and not isinstance(event, Redrive):
        if not pass_on(d, event):
            superseded(d, event.event_id)
        return d.decision
    _HANDLERS[type(event)](d, event)
    settle(d)
    prioritise(d)
    if state.status == "paused" and d.state.status != "paused":
        release(d)
    return d.decision


def prioritise(d: Decider) -> None:
    """Set the execution's priority on every command that the decision issues or keeps waiting."""
    priority = d.state.priority
    if priority:
        d.decision.issue = [msgspec.structs.replace(one, priority=priority) for one in d.decision.issue]
        d.decision.waiting = [msgspec.structs.replace(one, priority=priority) for one in d.decision.waiting]


def settle(d: Decider) -> None:
    """Fire every token that may fire; complete the execution when no token is left.

    It returns when every live token waits for something. It checks parked tokens again whenever the context has changed.
    """
    seen = 0
    while d.state.status == "running":
        seen = _look_at_parked(d, seen)
        if _over(d):
            return
        waiting = next_in_line(d)
        if waiting is not None:
            look_again(d, waiting)
            continue
        ready = next_ready(d.program, d.state)
        if isinstance(ready, Firing):
            _fire(d, ready)
        elif isinstance(ready, WaveEnded):
            if ready.over:
                d.emit(JoinFired(ready.step.name, open=False))
            if ready.late:
                d.emit(TokensAbsorbed(ready.step.name, tuple(token.run for token in ready.late)))
        elif d.state.tokens:
            if not _fail_stuck(d):
                return
        else:
            complete_if_done(d)


def _over(d: Decider) -> bool:
    return d.state.status != "running"


def _look_at_parked(d: Decider, seen: int) -> int:
    facts = d.decision.facts
    changed = any(isinstance(fact, ContextChanged) for fact in facts[seen:])
    seen = len(facts)
    if changed:
        retry_parked(d)
    return seen


def _fire(d: Decider, ready: Firing) -> None:
    d.moves += 1
    if d.moves > d.view.limits.inline_moves * (1 if ready.step.body is None else 4):
        fail_execution(d, endless(ready.step.name), ready.step.name)
        return
    if ready.opens:
        d.emit(JoinFired(ready.step.name, open=True, arcs=ready.wave))
        if ready.step.join_rest == "cancel":
            withdraw_feeders(d, ready.step)
    fire(d, ready.step, ready.tokens)


def _fail_stuck(d: Decider) -> bool:
    """Fail the execution when its tokens wait at joins that can never be satisfied.

    False: what it waits for can still come. Its last tasks, or compensations, are due otherwise.
    """
    tokens = stuck(d.program, d.state)
    if not tokens:
        return False
    step = d.steps[tokens[0].step]
    message = f"the join at {step.name} (join: {step.join}) can never be satisfied: {len(tokens)} token(s) wait there"
    fail_execution(
        d,
        ErrorInfo(message=message, kind="schema", code="join_unsatisfied", hint="lower spec.join"),
        step.name,
    )
    return True


# --- one function per kind of event ---


def _start(d: Decider, event: Start) -> None:
    priority = 0
    try:
        check_document(event.payload, "payload")
        check_names(workload := workload_of(d, event), "workload")
        priority = priority_of(d, event, workload)
        failure = None
    except NoetlError as error:
        # What exceeds a limit cannot be kept: names are part of an index.
        workload, failure = {} if error.code == SIZE_LIMIT else dict(event.payload), error
    workload = d.keep(workload, "workload")
    d.emit(
        Initialized(
            d.program.hash,
            d.program.path,
            d.program.entry,
            1,
            workload,
            event.parent,
            event.depth,
            event.principal,
            d.now,
            priority,
            event.no_cache,
        )
    )
    if event.depth > d.view.limits.max_depth:
        message = f"sub-playbooks are nested more than {d.view.limits.max_depth} deep"
        # Its last tasks do not run either: they may start this playbook again, one level deeper, without end.
        refuse_execution(d, ErrorInfo(message=message, kind="schema", code="nesting_limit"))
    elif failure is not None:
        fail_execution(d, d.error_of(failure))
    elif d.program.timeout is not None:
        _execution_timer(d)


def _execution_timer(d: Decider) -> None:
    assert d.program.timeout is not None
    try:
        d.set_timer("execution", d.seconds(d.program.timeout, d.scope(0), "the execution's timeout"))
    except NoetlError as error:
        fail_execution(d, d.error_of(error))


def workload_of(d: Decider, event: Start) -> dict[str, Any]:
    """Build the workload: rendered defaults, with the payload of the start merged over them.

    Defaults are rendered from the top, and each sees the earlier ones. The payload wins.
    """
    node = d.program.workload
    done: dict[str, Any] = dict(event.payload)
    if not isinstance(node, Map):
        defaults = d.value(node, EngineScope(d.program, d.execution_id, d.slots, d.now)) or {}
        return merged_names(d, defaults, done) if isinstance(defaults, dict) else done
    for name, default in node.entries:
        if name in event.payload and not isinstance(event.payload[name], dict):
            continue
        scope = workload_scope(d.program, d.execution_id, d.slots, d.now, done)
        value = d.value(default, scope)
        done[name] = merged_value(d, value, event.payload[name]) if name in event.payload else value
    return done


def _command_done(d: Decider, event: CommandDone) -> None:
    token = waiting_token(d, event)
    if token is None:
        superseded(d, event.event_id, event.command_id, event.attempt, event.turn, event.outcome.status)
        return
    d.decision.close.append((event.command_id, event.attempt, event.turn))
    event = with_free_ids_of(event, d.view.taken)
    step = d.steps[token.step]
    if token.phase == "case":
        _stage_done(d, event)
    elif token.phase == "compensate":
        compensated(d, step, token, event.outcome)
    elif token.phase == "collection":
        if collected(d, step, token, event.outcome):
            cases.after_call(d, step, token)
    else:
        body_outcome(d, step, token, event.outcome)


def _stage_done(d: Decider, event: CommandDone) -> None:
    """Finish a case entry after its tasks are done, then continue from its boundary."""
    token = d.state.tokens[event.run]
    step, outcome = d.steps[token.step], event.outcome
    boundary, rule = token.event, step.cases[token.rule]
    if outcome.status == "suspended":
        suspend(d, step, token, outcome)
        return
    children = detached_children(d, token, outcome)
    calls = calls_of(d, step, token, outcome.meta)
    if outcome.status == "error":
        error = outcome.error or ErrorInfo(message="a task of the case failed")
        d.emit(
            CallFailed(
                token.run,
                step.name,
                error,
                stage="case",
                trace=outcome.trace,
                meta=outcome.meta,
                calls=calls,
            )
        )
        start_detached(d, token, children)
        fail_step(d, token, step, error)
        return
    try:
        patch_context(d, outcome.patches, token.run, step.name)
        labels = outcome.labels
        d.emit(
            CallDone(
                token.run,
                step.name,
                stage="case",
                labels=labels,
                trace=outcome.trace,
                meta=outcome.meta,
                calls=calls,
            )
        )
        start_detached(d, token, children)
        scope = d.scope(token.run, boundary_scope(d, token, boundary, labels))
        over = cases.finish_entry(d, step, token, boundary, rule, scope)
    except NoetlError as problem:
        fail_step(d, token, step, d.error_of(problem))
        return
    if over is not None:
        return
    if boundary == "step.enter":
        start_body(d, step, token)
    else:
        cases.after_call(d, step, token, done=boundary)


def _loop_alert(d: Decider, event: LoopAlert) -> None:
    if not loop_alert(d, event):
        superseded(d, event.event_id)


def _loop_done(d: Decider, event: LoopDone) -> None:
    before = len(d.decision.facts)
    left = loop_done(d, event)
    if left is not None:
        cases.after_call(d, *left)
    elif len(d.decision.facts) == before:
        superseded(d, event.event_id)


def _timer(d: Decider, event: TimerFired) -> None:
    if event.timer.startswith(f"{callbacks.TIMER}:"):
        callbacks.callback_late(d, event)
        return
    if d.state.timers.get(event.timer) != event.generation:
        superseded(d, event.event_id)
        return
    d.emit(TimerExpired(event.timer, event.generation))
    what, _, run = event.timer.partition(":")
    if what == "execution":
        fail_execution(d, timed_out("the execution took longer than its timeout", "execution_timeout"))
        return
    token = d.token(int(run))
    if token is None:
        return
    d.decision.drop_runs.append(token.run)
    if what == "admit":
        error = timed_out(f"step {token.step} was not admitted before its timeout", "admission_timeout")
    elif what == "deadline":
        error = past_deadline(token.step)
    else:
        error = timed_out(f"step {token.step} took longer than its timeout", "step_timeout")
    step = d.steps[token.step]
    fail_step(d, token, step, error, calls_unfinished(d, step, token))


def _token_injected(d: Decider, event: TokenInjected) -> None:
    if d.state.undoing:
        superseded(d, event.event_id, status="the execution is compensating")
        return
    if d.state.verdict is not None or event.step in d.program.last_steps:
        superseded(d, event.event_id, status="only the end of the execution leads to its last tasks")
        return
    arrival = Arrival(d.state.next_run, event.step, sync=False, args=event.args)
    d.emit(TokenAdded(arrival, event.principal, event.reason, event.correlation_id))


def _cancel(d: Decider, event: Cancel) -> None:
    cancel_execution(d, event.reason, event.principal, event.cascade, event.unreadable)


def _redrive(d: Decider, event: Redrive) -> None:
    if redrive(d, event) and d.program.timeout is not None:
        _execution_timer(d)


_HANDLERS: dict[type, Callable[[Decider, Any], None]] = {
    Start: _start,
    CommandDone: _command_done,
    LoopAlert: _loop_alert,
    LoopDone: _loop_done,
    TimerFired: _timer,
    ChildDone: child_done,
    **callbacks.HANDLERS,
    ContextPatched: context_patched,
    TokenInjected: _token_injected,
    Cancel: _cancel,
    Pause: pause,
    Resume: resume,
    Redrive: _redrive,
}
