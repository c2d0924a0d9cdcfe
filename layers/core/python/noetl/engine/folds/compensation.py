"""Folds of compensation: the runs to undo when the execution fails, and their outcomes.

Slots of the scope ``undo``: one per registered run, by its number, holding what its compensation sees and the run that was registered
before it, so that neither registering nor undoing ever touches the others; and ``0``, the report of compensating so far.
"""

from __future__ import annotations

from typing import Any

from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.state import ExecutionState, Token
from noetl.engine.folds.run_results import result_of
from noetl.engine.folds.slots import SlotSpace, drop_callbacks, drop_scope, error_view

UNDO = "undo"
REPORT = (UNDO, "0")
MOST_REPORTED = 100
"""Compensations that the error of an execution lists; history has all of them."""
LONGEST = 200
"""Characters of a message in that list."""


def register(state: ExecutionState, slots: SlotSpace, token: Token) -> None:
    """Register a successful run as the first to undo, with its own result and arguments."""
    args = slots.get(("args", str(token.run)), MISSING)
    slots[(UNDO, str(token.run))] = {
        "step": token.step,
        "args": {} if args is MISSING else args,
        "result": result_of(slots, token),
        "before": state.undo,
    }
    state.undo = token.run


def begin_undoing(state: ExecutionState, slots: SlotSpace, error: ErrorInfo, step: str) -> None:
    """Fold the failure of an execution with ``error``, caused by ``step`` (empty: no step)."""
    state.undoing = True
    slots[REPORT] = {"error": error_view(error), "step": step, "told": [], "more": 0}


def undone(state: ExecutionState, slots: SlotSpace, run: int, step: str, error: ErrorInfo | None) -> None:
    """Fold that ``run`` was compensated, or could not be (``error``)."""
    drop_callbacks(slots, state.tokens.pop(run))
    slots.pop(("args", str(run)), None)
    slots.pop((UNDO, str(run)), None)
    report: dict[str, Any] = dict(slots.get(REPORT, MISSING))
    entries: list[dict[str, Any]] = list(report["told"])
    entry: dict[str, Any] = {"step": step, "run": run, "status": "done"}
    if error is not None:
        short = {"message": error.message[:LONGEST], "kind": error.kind, "code": error.code}
        entry = {**entry, "status": "failed", "error": short}
    if len(entries) < MOST_REPORTED:
        entries.append(entry)
    else:
        report["more"] += 1
        good = [place for place, one in enumerate(entries) if one["status"] == "done"]
        if error is not None and good:
            del entries[good[-1]]
            entries.append(entry)
    report["told"] = entries
    slots[REPORT] = report


def forget(state: ExecutionState, slots: SlotSpace) -> None:
    """Forget all runs to undo, because the execution is over.

    Stores drop the scope by themselves.
    """
    state.undo, state.undoing = 0, False
    drop_scope(slots, UNDO)
