"""Runs that somebody else calls off: ``spec.cancels`` of a step that is entered, and joins that cancel what they do not need any more."""

from __future__ import annotations

from collections.abc import Callable

from noetl.domain.facts.facts import StepSkipped
from noetl.domain.state import Token
from noetl.dsl.program import EVERY_STEP, Step
from noetl.engine.decision import Decider


def withdraw_for(d: Decider, step: Step, run: int) -> None:
    """``run`` of ``step`` was entered: all other live runs of the steps it cancels go."""
    if not step.cancels:
        return
    every = EVERY_STEP in step.cancels
    _withdraw(
        d,
        lambda token: token.run != run and (every or token.step in step.cancels),
        f"cancelled by step {step.name} (run {run})",
    )


def withdraw_feeders(d: Decider, step: Step) -> None:
    """The join at ``step`` has fired and cancels the rest: live runs that lead nowhere else go, however they wait."""
    feeders = frozenset(step.feeders)
    _withdraw(d, lambda token: token.step in feeders, f"the join at {step.name} has fired without it")


def _withdraw(d: Decider, wanted: Callable[[Token], bool], reason: str) -> None:
    for token in [token for token in d.state.tokens.values() if wanted(token)]:
        withdraw(d, token, reason)


def withdraw(d: Decider, token: Token, reason: str) -> None:
    """One run goes: its timers, commands and loop with it, and the sub-executions it waits for. Nothing is routed.

    What this very decision began for it is never issued.
    """
    decision, run = d.decision, token.run
    d.clear_timers(run)
    decision.issue = [command for command in decision.issue if command.run != run]
    decision.waiting = [command for command in decision.waiting if command.run != run]
    decision.drop_runs.append(run)
    d.emit(StepSkipped(run, token.step, reason, withdrawn=True))
