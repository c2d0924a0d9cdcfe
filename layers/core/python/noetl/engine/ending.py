"""The last steps of an execution: ``on_success``, ``on_failure`` and ``finally``.

They run once its outcome is decided. They are ordinary steps that no arc of the workflow leads to. The outcome waits in ``state.verdict``
until they are over, and no failure of theirs changes it.
"""

from __future__ import annotations

from typing import Any

from noetl.domain.facts.facts import Arrival, Ending, NextEvaluated, StepFailed, StepSkipped
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.redrive import LOCAL
from noetl.domain.state import Verdict
from noetl.engine.decision import Decider, Timer
from noetl.engine.folds.slots import error_view

NAME = "execution"
"""What the last tasks call the outcome."""


def drop_work(d: Decider, alone: bool = False) -> None:
    """Drop all that is under way: commands, loops, timers, and children that steps wait for.

    ``alone``: these children continue.
    """
    decision, live = d.decision, set(d.state.tokens)
    decision.issue = [command for command in decision.issue if command.run not in live]
    decision.waiting = [command for command in decision.waiting if command.run not in live]
    dropped = sorted(live - set(decision.drop_runs))
    decision.drop_runs += dropped
    if alone:
        decision.left_runs += dropped
    decision.timers += [Timer(timer, generation, None) for timer, generation in d.state.timers.items()]
    for run in sorted(live):
        d.clear_timers(run, ())


def begin(d: Decider, verdict: Verdict, result: Any, alone: bool = False) -> bool:
    """Run the last steps for ``verdict``.

    ``alone``: children that steps wait for continue. Returns False when the playbook has none for it, or the execution never began.
    """
    first = d.program.last.get(verdict.status)
    if first is None or not d.state.program:
        return False
    drop_work(d, alone)
    about = d.keep(_outcome(d, verdict, result), first)
    arrival = Arrival(d.state.next_run, first, sync=False, args={NAME: about})
    d.emit(
        Ending(
            verdict.status,
            arrival,
            verdict.error,
            verdict.step,
            verdict.steps,
            verdict.reason,
            verdict.principal,
        )
    )
    return True


def _outcome(d: Decider, verdict: Verdict, result: Any) -> dict[str, Any]:
    """Build ``execution``, as the templates of the last tasks read it."""
    return {
        "id": str(d.execution_id),
        "playbook": d.program.path,
        "status": verdict.status,
        "step": verdict.step,
        "error": None if verdict.error is None else error_view(verdict.error),
        "reason": verdict.reason,
        "result": result,
        "message": _message(d, verdict),
    }


def _message(d: Decider, verdict: Verdict) -> str:
    """Say the outcome in one line."""
    where = f" at step {verdict.step}" if verdict.step else ""
    why = verdict.error.message if verdict.error is not None else verdict.reason
    return f"{d.program.path} {verdict.status}{where}{f': {why}' if why else ''} (execution {d.execution_id})"


def go_past(d: Decider, error: ErrorInfo) -> None:
    """Record the failure of the current last step, and continue with the next one."""
    for token in list(d.state.tokens.values()):
        step = d.steps[token.step]
        if token.phase != "failed":
            d.decision.drop_runs.append(token.run)
            d.clear_timers(token.run)
            d.emit(StepFailed(token.run, step.name, d.at_step(error, step.name)))
        args = {name: value for name, value in d.args_of(token.run).items() if name != LOCAL}
        targets = tuple(
            Arrival(d.state.next_run + place, arc.target, arc.index, sync=False, args=args)
            for place, arc in enumerate(step.arcs)
        )
        d.emit(NextEvaluated(token.run, step.name, targets, ended=not targets))


def cut_short(d: Decider, reason: str, principal: str, alone: bool = False) -> None:
    """Withdraw the remaining last steps: a request ends the execution with its outcome.

    ``alone``: children that they wait for continue.
    """
    why = f"cancelled{f' by {principal}' if principal else ''}{f': {reason}' if reason else ''}"
    for token in list(d.state.tokens.values()):
        d.clear_timers(token.run)
        d.decision.drop_runs.append(token.run)
        if alone:
            d.decision.left_runs.append(token.run)
        d.emit(StepSkipped(token.run, token.step, why, withdrawn=True))
