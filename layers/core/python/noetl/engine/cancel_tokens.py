"""Cancellation of step runs by other steps: ``spec.cancels``, and joins."""

from __future__ import annotations

from collections.abc import Callable

from noetl.domain.facts.facts import StepSkipped
from noetl.domain.state import Token
from noetl.dsl.program import EVERY_STEP, Step
from noetl.engine.decision import Decider


def withdraw_for(d: Decider, step: Step, run: int) -> None:
    """Withdraw all other live runs of the steps that ``step`` cancels when ``run`` enters it."""
    if not step.cancels:
        return
    every = EVERY_STEP in step.cancels
    _withdraw(
        d,
        lambda token: token.run != run and (every or token.step in step.cancels),
        f"cancelled by step {step.name} (run {run})",
    )


def withdraw_feeders(d: Decider, step: Step) -> None:
    """Withdraw live runs that lead only to the join at ``step``, which has fired.

    The join has ``cancel`` as its rest; it does not matter how these runs wait.
    """
    feeders = frozenset(step.feeders)
    _withdraw(d, lambda token: token.step in feeders, f"the join at {step.name} has fired without it")


def _withdraw(d: Decider, wanted: Callable[[Token], bool], reason: str) -> None:
    for token in [token for token in d.state.tokens.values() if wanted(token)]:
        withdraw(d, token, reason)


def withdraw(d: Decider, token: Token, reason: str) -> None:
    """Withdraw one run with its timers, commands, loop and awaited sub-executions.

    Nothing is routed. Commands that this same decision issued for the run are never issued.
    """
    decision, run = d.decision, token.run
    d.clear_timers(run)
    decision.issue = [command for command in decision.issue if command.run != run]
    decision.waiting = [command for command in decision.waiting if command.run != run]
    decision.drop_runs.append(run)
    d.emit(StepSkipped(run, token.step, reason, withdrawn=True))
