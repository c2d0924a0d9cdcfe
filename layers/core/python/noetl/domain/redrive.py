"""When an execution that has ended may run again."""

from __future__ import annotations

from noetl.domain.state import TERMINAL, ExecutionState

LOCAL = "$step"
"""Where a run keeps its own scope beside its arguments: a new run begins without."""


def refusal(state: ExecutionState, step: str) -> str:
    """Why an execution in this state cannot be redriven from ``step`` (empty: from its failure); empty when it can."""
    if state.status not in TERMINAL:
        return f"it is {state.status}"
    if not state.program:
        return "it never began: start it anew"
    if step:
        return ""
    if state.status == "completed":
        return "it completed: name the step to go on from"
    if not state.left:
        return "nothing was under way when it ended, or it was compensated: name the step to go on from"
    if any(token.run == 1 and token.phase == "arrived" for token in state.left):
        return "it failed before its first step: start it anew"
    return ""
