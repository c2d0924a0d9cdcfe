"""How a token fires its step: admission, arguments, ``step.enter`` cases, then the body.

The body is nothing, a loop, or a command.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.domain import ids
from noetl.domain.branch_coverage import taken
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.facts.facts import CallDone, CommandIssued, StepEntered, StepParked, StepSkipped
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.state import Token
from noetl.dsl.program import AdmitRule, Step
from noetl.engine import cases, outcomes
from noetl.engine.budget import used_up
from noetl.engine.cancel_tokens import withdraw_for
from noetl.engine.complete_execution import fail_execution
from noetl.engine.decision import Decider, worker_pool
from noetl.engine.inline_results import travels
from noetl.engine.limits import limits_of
from noetl.engine.loops import start_loop
from noetl.engine.mutex import ahead_of, last_place, lock_of
from noetl.engine.routing import exit_step, fail_step
from noetl.engine.scopes.large_values import arguments, merged_names
from noetl.engine.scopes.scope import freeze
from noetl.pipeline import run_inline
from noetl.templating import is_true


def fire(d: Decider, step: Step, tokens: tuple[Token, ...]) -> None:
    """Fire a step: ``tokens`` become one step run, under the lowest of their run numbers."""
    kept = min(tokens, key=lambda token: token.run)
    merged = tuple(sorted(token.run for token in tokens if token is not kept))
    try:
        payload = _payload(d, step, tokens)
    except NoetlError as error:
        _refuse(d, step, kept, merged, {}, error)
        return
    _admit(d, step, kept, merged, payload)


def _payload(d: Decider, step: Step, tokens: tuple[Token, ...]) -> dict[str, Any]:
    """Merge the arguments of tokens, in the order of their arcs. Raises TaskError."""
    found: dict[str, Any] = {}
    several = 0
    for token in sorted(tokens, key=lambda token: (token.arc, token.run)):
        if args := d.args_of(token.run):
            found = merged_names(d, found, args)
            several += 1
    return d.keep(found, step.name) if several > 1 else found


def retry_parked(d: Decider) -> None:
    """Check admission of every parked token again, after the context has changed."""
    for token in [token for token in d.state.tokens.values() if token.phase == "parked" and not token.lock]:
        if d.state.status == "running" and token.run in d.state.tokens:
            look_again(d, token)


def look_again(d: Decider, token: Token) -> None:
    """Check again whether a parked token is admitted and its lock is free."""
    _admit(d, d.steps[token.step], token, (), d.args_of(token.run))


def _admit(d: Decider, step: Step, token: Token, merged: tuple[int, ...], payload: dict[str, Any]) -> None:
    try:
        rule = _admission(d, step, token, payload)
        allow = rule.allow if rule is not None else "yes"
        lock = lock_of(d, step, token, payload) if allow == "yes" else ""
    except NoetlError as error:
        _refuse(d, step, token, merged, payload, error)
        return
    ahead = ahead_of(d, lock, token)
    if allow == "park" or ahead is not None:
        _park(d, step, token, merged, payload, lock, ahead)
        return
    _enter(d, step, token, merged, payload, lock, skipped=allow == "skip")


def _refuse(
    d: Decider, step: Step, token: Token, merged: tuple[int, ...], payload: dict[str, Any], error: NoetlError
) -> None:
    d.clear_timers(token.run)
    d.emit(StepEntered(token.run, step.name, merged, payload))
    fail_step(d, token, step, d.error_of(error))


def _admission(d: Decider, step: Step, token: Token, payload: dict[str, Any]) -> AdmitRule | None:
    """Return the first admission rule that matches; None admits the token.

    None: the step has no rules, or none of them matches.
    """
    if step.admit is None:
        return None
    scope = d.scope(token.run, args=payload)
    for rule in step.admit.rules:
        if rule.when is None or is_true(rule.when, scope):
            taken(rule)
            return rule
    return None


def _park(
    d: Decider,
    step: Step,
    token: Token,
    merged: tuple[int, ...],
    payload: dict[str, Any],
    lock: str,
    ahead: Token | None,
) -> None:
    """Park a token at its step, and set its timers.

    ``ahead``: the token that holds ``lock``, or waits for it before this one; None when an admission rule parks the token.
    """
    if token.phase == "parked" and token.lock == lock:
        return
    place, reason = 0, ""
    if ahead is not None:
        place = last_place(d, lock)
        reason = f"lock {lock!r} is {'waited for' if ahead.phase == 'parked' else 'held'} by step {ahead.step} (run {ahead.run})"
    fresh = f"admit:{token.run}" not in d.state.timers
    d.emit(
        StepParked(token.run, step.name, merged=merged, args=payload, lock=lock, place=place, reason=reason)
    )
    try:
        if fresh and step.admit is not None and step.admit.timeout is not None:
            seconds = d.seconds(step.admit.timeout, d.scope(token.run), "the admission timeout")
            d.set_timer(f"admit:{token.run}", seconds, token.run)
        if not _in_time(d, step, token):
            fail_step(d, token, step, past_deadline(step.name))
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))


def _enter(
    d: Decider,
    step: Step,
    token: Token,
    merged: tuple[int, ...],
    payload: dict[str, Any],
    lock: str,
    *,
    skipped: bool,
) -> None:
    if token.phase == "parked":
        d.clear_timers(token.run, ("admit",))
    failure: NoetlError | None = None
    args = payload
    if step.args is not None and not skipped:
        try:
            scope = d.scope(token.run, args=payload)
            own = arguments(d, step.args, scope, f"the args of step {step.name}")
            args = d.keep(merged_names(d, payload, own), step.name)
        except NoetlError as error:
            failure = error
    d.emit(StepEntered(token.run, step.name, merged, args, lock))
    token = d.state.tokens[token.run]
    if failure is not None:
        fail_step(d, token, step, d.error_of(failure))
    elif skipped:
        d.emit(StepSkipped(token.run, step.name, "not admitted"))
        exit_step(d, token, step, skipped=True)
    else:
        withdraw_for(d, step, token.run)
        _begin(d, step, token)


def _begin(d: Decider, step: Step, token: Token) -> None:
    try:
        overspent = used_up(d, step)
        if overspent is not None:
            fail_execution(d, overspent, step.name)
            return
        if step.timeout is not None:
            seconds = d.seconds(step.timeout, d.scope(token.run), "the step's timeout")
            d.set_timer(f"step:{token.run}", seconds, token.run)
        if not _in_time(d, step, token):
            fail_step(d, token, step, past_deadline(step.name))
            return
        held = cases.on_enter(d, step, token)
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return
    if not held:
        start_body(d, step, token)


def _in_time(d: Decider, step: Step, token: Token) -> bool:
    """Set the timer of the step's deadline; return False when the deadline is over.

    The deadline counts from the start of the execution. Raises TemplateError.
    """
    if step.deadline is None:
        return True
    timer = f"deadline:{token.run}"
    left = d.state.started + d.seconds(step.deadline, d.scope(token.run), "the step's deadline") - d.now
    if left > 0 and timer not in d.state.timers:
        d.set_timer(timer, left, token.run)
    return left > 0


def past_deadline(step: str) -> ErrorInfo:
    return timed_out(f"step {step} was not over by its deadline", "step_deadline")


def timed_out(message: str, code: str) -> ErrorInfo:
    return ErrorInfo(message=message, kind="timeout", code=code, retryable=False)


def start_body(d: Decider, step: Step, token: Token) -> None:
    """Call the tool, once or for each item; leave at once when the step only routes."""
    if step.body is None:
        d.emit(CallDone(token.run, step.name, stage="route"))
        cases.after_call(d, step, token)
        return
    if step.loop is not None:
        if start_loop(d, step, token):
            cases.after_call(d, step, token)
        return
    try:
        limits = limits_of(d, step, token)
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return
    scope = d.scope(token.run)
    frozen = freeze(scope, step.body.reads)
    pool = worker_pool(step.body.pool) if limits or _is_long(d, token) else step.body.pool
    command = Command(
        d.execution_id,
        ids.command_id(token.run),
        token.run,
        step.name,
        d.program.hash,
        pool,
        scope=frozen,
        limits=limits,
    )
    if pool == "control":
        outcome = run_inline(d.program, step, command, hydrate=d.view.load, taken=d.view.taken)
        if travels(outcome, step, d.view.limits.inline_bytes):
            d.emit(CommandIssued(token.run, step.name, command.command_id, "control"))
            outcomes.body_outcome(d, step, token, outcome)
            return
        command = msgspec.structs.replace(command, pool=worker_pool(pool))
    keys = tuple(limit.key for limit in limits)
    d.emit(CommandIssued(token.run, step.name, command.command_id, command.pool, limits=keys))
    d.decision.issue.append(command)


def _is_long(d: Decider, token: Token) -> bool:
    """Return whether a worker has to run what the engine could run itself.

    A decision that has taken many steps ends there, and the execution continues in another decision.
    """
    limits = d.view.limits
    return d.moves > limits.inline_moves // 2 and token.run <= limits.inline_runs
