"""The end of an execution: one terminal fact, and a ``ChildDone`` to a waiting parent."""

from __future__ import annotations

from typing import Any

from noetl.domain import ids
from noetl.domain.events import ChildDone
from noetl.domain.facts.facts import Arrival, Cancelled, Completed, Failed, FinalFired
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.state import Verdict
from noetl.engine.compensation import begin as begin_undoing
from noetl.engine.compensation import failure_of, undo_next
from noetl.engine.decision import Decider
from noetl.engine.ending import begin, cut_short, go_past


def complete_if_done(d: Decider) -> None:
    """End the execution when no token is left: fire the final step once, then complete.

    A failing execution undoes its next run, and fails when all are undone. The last tasks of the playbook come after that.
    """
    if d.state.tokens or d.state.status != "running":
        return
    if d.state.verdict is not None:
        _close(d, d.state.verdict)
        return
    if d.state.undoing:
        if not undo_next(d):
            _fail(d, *failure_of(d))
        return
    final = d.program.final_step
    if final is not None and not d.state.final:
        d.emit(FinalFired(Arrival(d.state.next_run, final, sync=False)))
        return
    steps = (final,) if final is not None else tuple(d.state.ends)
    _decide(d, Verdict("completed", steps=steps))


def fail_execution(d: Decider, error: ErrorInfo, step: str = "") -> None:
    """Fail the execution: cancel what is queued, and its children.

    When runs can be compensated, compensation begins first. While the last steps run, the engine skips the one that cannot continue.
    """
    if d.state.verdict is not None:
        go_past(d, error)
    elif d.state.undoing:
        _fail(d, *failure_of(d, error))
    elif d.state.undo:
        begin_undoing(d, error, step)
    else:
        d.cancel_children()
        _fail(d, error, step)


def refuse_execution(d: Decider, error: ErrorInfo) -> None:
    """Fail an execution that cannot begin: no step of its playbook runs, not even a last one."""
    _close(d, Verdict("failed", error))


def _fail(d: Decider, error: ErrorInfo, step: str) -> None:
    _decide(d, Verdict("failed", d.at_step(error, step), step))


def cancel_execution(d: Decider, reason: str, principal: str, cascade: bool, unreadable: str = "") -> None:
    """Cancel the execution.

    An execution that runs its last steps ends with the outcome that it has. The last steps of one with unreadable state are unknown.
    """
    if cascade:
        d.cancel_children()
    if d.state.verdict is not None:
        cut_short(d, reason, principal, alone=not cascade)
        _close(d, d.state.verdict)
        return
    verdict = Verdict("cancelled", reason=reason, principal=principal)
    if unreadable:
        _close(d, verdict, unreadable)
    else:
        _decide(d, verdict, alone=not cascade)


def _decide(d: Decider, verdict: Verdict, alone: bool = False) -> None:
    """End the execution with ``verdict``, after the last tasks of its playbook.

    ``alone``: its children continue.
    """
    result = execution_result(d) if verdict.status == "completed" and d.program.last else None
    if not begin(d, verdict, result, alone):
        _close(d, verdict)


def _close(d: Decider, verdict: Verdict, unreadable: str = "") -> None:
    if verdict.status == "completed":
        d.emit(Completed(verdict.steps))
        _finish(d, Outcome("ok", result=None))
        return
    if verdict.status == "failed":
        error = verdict.error or ErrorInfo(message="the execution failed")
        d.emit(Failed(error, verdict.step))
    else:
        d.emit(Cancelled(verdict.reason, verdict.principal, unreadable))
        why = f": {verdict.reason}" if verdict.reason else ""
        message = f"execution {d.execution_id} was cancelled{why}"
        error = ErrorInfo(message=message, kind="cancelled", code="cancelled")
    _finish(d, Outcome("error", error=error))


def _finish(d: Decider, outcome: Outcome) -> None:
    d.decision.end = True
    parent = d.parent()
    if parent is None or not parent.wait:
        return
    if outcome.status == "ok":
        outcome = Outcome("ok", result=_result_for_parent(d))
    d.decision.outbox.append(
        ChildDone(
            parent.execution_id,
            ids.child_done_event(parent.command_id, parent.turn),
            program="",
            parent=parent,
            child_id=d.execution_id,
            outcome=outcome,
        )
    )


def _result_for_parent(d: Decider) -> Any:
    parent = d.parent()
    if parent is not None and parent.return_step:
        return step_result(d, parent.return_step)
    return execution_result(d)


def execution_result(d: Decider) -> Any:
    """Return the result of the execution.

    ``final_step``'s result, else that of the one step that ended without a successor; several: a mapping by name.
    """
    final = d.program.final_step
    names = [final] if final is not None else d.state.ends
    if len(names) == 1:
        return step_result(d, names[0])
    return {name: step_result(d, name) for name in names} or None


def step_result(d: Decider, name: str) -> Any:
    slot = d.slots.get(("step", name), MISSING)
    if slot is MISSING:
        return None
    data = slot.get("data")
    if isinstance(data, dict) and data.get("kind") == "loop_result":
        return data["results"]
    return data


def endless(step: str) -> ErrorInfo:
    """Build the error of an execution that runs in a cycle without calling anything."""
    return ErrorInfo(
        message=f"step {step} is part of a cycle in which nothing is ever called",
        kind="schema",
        code="endless_cycle",
        hint="let an arc leave it; a cycle that runs for long needs a step that calls something (`noop` does not)",
    )
