"""Cases of the event form that the engine evaluates.

Their events are ``step.enter``, ``loop.done`` and ``step.exit``. For each boundary the entries are read from the top and the first true one
wins. Tasks inside an entry (sinks, inline tasks) leave as a command of their own; what follows in the entry waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from noetl.domain import ids
from noetl.domain.branch_coverage import taken
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError, TaskError
from noetl.domain.facts.facts import CaseApplied, CaseEvaluated, CommandIssued, StepSkipped
from noetl.domain.outcomes.outcomes import Patch, Target
from noetl.domain.state import Token
from noetl.dsl.program import (
    CollectAction,
    FailAction,
    NextAction,
    ResultAction,
    Rule,
    RunAction,
    SetAction,
    SinkAction,
    SkipAction,
    Step,
)
from noetl.engine.decision import Decider
from noetl.engine.routing import change_context, exit_step, fail_step, patch_context
from noetl.engine.scopes.boundary_scope import boundary_scope
from noetl.engine.scopes.large_values import arguments, value_to_write
from noetl.engine.scopes.scope import EngineScope, freeze
from noetl.pipeline.retry import holds
from noetl.templating import is_true, unwrap

BOUNDARIES = ("loop.done", "step.exit")
_EVIDENT = (SetAction, CollectAction, NextAction)
"""Actions that need no ``case.evaluated``: ``ctx.patched`` and ``next.evaluated`` tell of them, as they do in the canonical form."""
STAGE_NAMES = ("event", "result", "error")
"""Names of the moment that travel to tasks of an entry; the worker makes ``response``, ``this`` and ``outcome`` of them."""


def on_enter(d: Decider, step: Step, token: Token) -> bool:
    """Evaluate the ``step.enter`` entries; True when the body must not start now.

    A stage runs then, or the step is over. Raises TemplateError or TaskError: the step fails.
    """
    if not step.cases:
        return False
    return _boundary(d, step, token, "step.enter") is not None


def after_call(d: Decider, step: Step, token: Token, done: str = "") -> None:
    """Evaluate the boundaries after ``done`` once the result is known, then leave the step.

    ``done``: the boundary of a stage that has just ended.
    """
    try:
        if step.loop is not None and step.loop.vars and not done:
            change_context(
                d, token, step, step.loop.vars, d.scope(token.run, boundary_scope(d, token, "loop.done"))
            )
        pending = [event for event in BOUNDARIES if event == "step.exit" or step.loop is not None]
        if done:
            pending = pending[pending.index(done) + 1 :]
        for event in pending if step.cases else ():
            if _boundary(d, step, token, event) is not None:
                return
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return
    exit_step(d, token, step)


def _boundary(d: Decider, step: Step, token: Token, event: str) -> str | None:
    """Run the entry that matches a boundary.

    Returns None: continue; "stage": a command left; "over": the step has been left.
    """
    scope = d.scope(token.run, boundary_scope(d, token, event))
    for index, rule in enumerate(step.cases):
        if (rule.events and event not in rule.events) or not _matches(rule, scope):
            continue
        return _take(d, step, token, event, index, rule, scope)
    return None


def _matches(rule: Rule, scope: EngineScope) -> bool:
    """Return whether an entry answers the boundary.

    One that names no event was offered when the call failed, and is not offered again.
    """
    if rule.unnamed and "error" in scope.extra:
        return False
    if rule.when is None:
        return True
    evaluate = partial(is_true, scope=scope)
    return holds(evaluate, rule.when, ok=True) if rule.unnamed else evaluate(rule.when)


def _take(
    d: Decider, step: Step, token: Token, event: str, index: int, rule: Rule, scope: EngineScope
) -> str | None:
    taken(rule)
    if not all(isinstance(action, _EVIDENT) for action in rule.actions):
        d.emit(CaseEvaluated(token.run, step.name, event, index))
    if any(isinstance(action, (RunAction, SinkAction)) for action in rule.actions):
        _issue_stage(d, step, token, index, scope)
        return "stage"
    return finish_entry(d, step, token, event, rule, scope)


def _issue_stage(d: Decider, step: Step, token: Token, index: int, scope: EngineScope) -> None:
    frozen = freeze(scope, step.exit_reads, stage_names(scope.extra))
    command = Command(
        d.execution_id,
        ids.command_id(token.run, f"case.{index}.{token.event}"),
        token.run,
        step.name,
        d.program.hash,
        "io",
        stage="case",
        rule=index,
        scope=frozen,
    )
    d.emit(CommandIssued(token.run, step.name, command.command_id, command.pool, "case", index))
    d.decision.issue.append(command)


def stage_names(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event's names as a command carries them: plain, and the result only once."""
    found = {name: unwrap(extra[name]) for name in STAGE_NAMES if name in extra and name != "event"}
    event = extra["event"]
    meta = event.attribute("payload").attribute("meta")
    payload = {"meta": unwrap(meta)} if unwrap(meta) else {}
    name, step = str(event.attribute("name")), event.attribute("step")
    return {**found, "event": {"name": name, "step": step, "payload": payload}}


def finish_entry(
    d: Decider, step: Step, token: Token, event: str, rule: Rule, scope: EngineScope
) -> str | None:
    """Carry out everything of an entry but its tasks, in order.

    Raises TemplateError, or TaskError for ``fail``.
    """
    for action in rule.actions:
        if isinstance(action, SetAction):
            change_context(d, token, step, (action,), scope)
        elif isinstance(action, CollectAction):
            value = value_to_write(d, action.into, action.mode, d.value(action.source, scope), step.name)
            patch_context(d, [Patch("ctx", action.into, value, action.mode)], token.run, step.name)
        elif isinstance(action, ResultAction):
            d.emit(CaseApplied(token.run, step.name, has_result=True, result=_kept(d, step, action, scope)))
        elif isinstance(action, NextAction):
            _set_route(d, step, token, action, scope)
        elif isinstance(action, SkipAction):
            d.emit(
                StepSkipped(
                    token.run, step.name, str(d.whole(action.message, scope)) if action.message else ""
                )
            )
            exit_step(d, token, step, skipped=True)
            return "over"
        elif isinstance(action, FailAction):
            message = (
                str(d.whole(action.message, scope))
                if action.message
                else f"step {step.name} failed by its case"
            )
            raise TaskError(message, code="case_fail")
    if event == "step.enter" and token.route is not None:
        exit_step(d, token, step)
        return "over"
    return None


def _kept(d: Decider, step: Step, action: ResultAction, scope: EngineScope) -> Any:
    return d.keep({"result": d.value(action.value, scope)}, step.name)["result"]


def _set_route(d: Decider, step: Step, token: Token, action: NextAction, scope: EngineScope) -> None:
    """Set the token's route, unless a call already took a ``next``.

    The route of the entry replaces the structural ``next``.
    """
    if token.route is not None:
        return
    route = [
        Target(
            target.step,
            d.keep(arguments(d, target.args, scope, f"the args for step {target.step}"), target.step),
        )
        for target in action.targets
    ]
    d.emit(CaseApplied(token.run, step.name, route=route))
