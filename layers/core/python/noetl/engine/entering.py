"""A token fires its step: admission, arguments, ``step.enter`` cases, then the body: nothing, a loop, or a command."""

from __future__ import annotations

from typing import Any

from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.facts import CallDone, CommandIssued, StepEntered, StepParked, StepSkipped
from noetl.domain.listening import taken
from noetl.domain.patches import deep_merge
from noetl.domain.state import Token
from noetl.dsl.program import AdmitRule, Step
from noetl.engine import cases, outcomes
from noetl.engine.decision import Decider
from noetl.engine.loops import start_loop
from noetl.engine.routing import exit_step, fail_step
from noetl.engine.scope import freeze
from noetl.pipeline import run_inline
from noetl.templating import is_true


def fire(d: Decider, step: Step, tokens: tuple[Token, ...]) -> None:
    """``tokens`` become one step run (the lowest run number goes on)."""
    ordered = sorted(tokens, key=lambda token: (token.arc, token.run))
    payload: dict[str, Any] = {}
    for token in ordered:
        payload = deep_merge(payload, d.args_of(token.run))
    kept = min(tokens, key=lambda token: token.run)
    merged = tuple(sorted(token.run for token in tokens if token is not kept))
    _admit(d, step, kept, merged, payload)


def retry_parked(d: Decider) -> None:
    """The context changed: look at every parked token again."""
    for token in [token for token in d.state.tokens.values() if token.phase == "parked"]:
        if d.state.status == "running" and token.run in d.state.tokens:
            _admit(d, d.steps[token.step], token, (), d.args_of(token.run))


def _admit(d: Decider, step: Step, token: Token, merged: tuple[int, ...], payload: dict[str, Any]) -> None:
    try:
        rule = _admission(d, step, token, payload)
    except NoetlError as error:
        d.emit(StepEntered(token.run, step.name, merged, payload))
        fail_step(d, token, step, d.error_of(error))
        return
    if rule is not None and rule.allow == "park":
        _park(d, step, token, merged, payload)
        return
    _enter(d, step, token, merged, payload, skipped=rule is not None and rule.allow == "skip")


def _admission(d: Decider, step: Step, token: Token, payload: dict[str, Any]) -> AdmitRule | None:
    """The first admission rule that matches; None when the step has none (or none matches: it is admitted)."""
    if step.admit is None:
        return None
    scope = d.scope(token.run, args=payload)
    for rule in step.admit.rules:
        if rule.when is None or is_true(rule.when, scope):
            taken(rule)
            return rule
    return None


def _park(d: Decider, step: Step, token: Token, merged: tuple[int, ...], payload: dict[str, Any]) -> None:
    if token.phase == "parked":
        return
    d.emit(StepParked(token.run, step.name, merged=merged, args=payload))
    if step.admit is not None and step.admit.timeout is not None:
        seconds = d.number(step.admit.timeout, d.scope(token.run), "the admission timeout")
        d.set_timer(f"admit:{token.run}", seconds, token.run)


def _enter(
    d: Decider, step: Step, token: Token, merged: tuple[int, ...], payload: dict[str, Any], *, skipped: bool
) -> None:
    if token.phase == "parked":
        d.clear_timers(token.run)
    failure: NoetlError | None = None
    args = payload
    if step.args is not None and not skipped:
        try:
            own = d.value(step.args, d.scope(token.run, args=payload))
            args = deep_merge(payload, d.keep(own, step.name))
        except NoetlError as error:
            failure = error
    d.emit(StepEntered(token.run, step.name, merged, args))
    token = d.state.tokens[token.run]
    if failure is not None:
        fail_step(d, token, step, d.error_of(failure))
    elif skipped:
        d.emit(StepSkipped(token.run, step.name, "not admitted"))
        exit_step(d, token, step, skipped=True)
    else:
        _begin(d, step, token)


def _begin(d: Decider, step: Step, token: Token) -> None:
    try:
        if step.timeout is not None:
            seconds = d.number(step.timeout, d.scope(token.run), "the step's timeout")
            d.set_timer(f"step:{token.run}", seconds, token.run)
        held = cases.on_enter(d, step, token)
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return
    if not held:
        start_body(d, step, token)


def start_body(d: Decider, step: Step, token: Token) -> None:
    """Call the tool, once or for each item, or nothing when the step only routes."""
    if step.body is None:
        d.emit(CallDone(token.run, step.name, stage="route"))
        cases.after_call(d, step, token)
        return
    if step.loop is not None:
        if start_loop(d, step, token):
            cases.after_call(d, step, token)
        return
    scope = d.scope(token.run)
    frozen = freeze(scope, step.body.reads)
    command = Command(
        d.execution_id,
        ids.command_id(token.run),
        token.run,
        step.name,
        d.program.hash,
        step.body.pool,
        scope=frozen,
    )
    if step.body.pool == "control":
        outcome = run_inline(d.program, step, command, hydrate=d.view.load)
        d.emit(CommandIssued(token.run, step.name, command.command_id, "control"))
        outcomes.body_outcome(d, step, token, outcome)
        return
    d.emit(CommandIssued(token.run, step.name, command.command_id, command.pool))
    d.decision.issue.append(command)
