"""When an execution that has ended may run again, and from where."""

from __future__ import annotations

import re

import msgspec

from noetl.domain.errors import InvalidInputError
from noetl.domain.loop_resume import FAILED
from noetl.domain.state import TERMINAL, ExecutionState

LOCAL = "$step"
"""Where a run keeps its own scope beside its arguments: a new run begins without."""
_ADDRESS = re.compile(r"(?P<step>[^\[\]]+)(?P<items>(?:\[[^\[\]]*\])*)\Z")
_ITEM = re.compile(r"\[([^\[\]]*)\]")
MOST_DIGITS = 9


class Address(msgspec.Struct, frozen=True):
    """Where a redrive begins.

    ``step`` empty: at what was under way. ``items``: of its loop, then of the loop within that; FAILED: all that failed or never ran.
    """

    step: str = ""
    items: tuple[int, ...] = ()


def parse_address(text: str) -> Address:
    """``failure`` (or nothing), ``load``, ``load[3]``, ``load[failed]``, ``load[3][1]``.

    Raises InvalidInputError(code="invalid_redrive").
    """
    if text in ("", "failure"):
        return Address()
    found = _ADDRESS.match(text)
    inner = _ITEM.findall(found["items"]) if found else []
    if found is None or any(not _is_item(one) for one in inner):
        raise InvalidInputError(
            f"{text[:80]!r} is not where a redrive can begin",
            code="invalid_redrive",
            hint="write failure, a step (load), an item of its loop, counted from 0 (load[3]), or load[failed]",
        )
    return Address(found["step"], tuple(FAILED if one == "failed" else int(one) for one in inner))


def _is_item(text: str) -> bool:
    return text == "failed" or (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS)


def refusal(state: ExecutionState, step: str) -> str:
    """Return why an execution in this state cannot be redriven; empty when it can.

    ``step``: where the redrive begins (empty: from its failure)."""
    if state.status not in TERMINAL:
        return f"it is {state.status}"
    if not state.program:
        return "it never began: start its playbook again"
    if state.lost:
        return "its state and its history could not be read when it was cancelled: start its playbook again"
    if step:
        return ""
    if state.status == "completed":
        return "it completed: name the step to continue from"
    if not state.left:
        return "nothing was under way when it ended, or it was compensated: name the step to continue from"
    if any(token.run == 1 and token.phase == "arrived" for token in state.left):
        return "it failed before its first step: start its playbook again"
    return ""
