"""Whose an outstanding command, event or timer is.

* A **process** that runs commands itself keeps a lease by heartbeats (``runtime`` rows).
* The **queue** has what was published; it is never taken back, because redelivery has one owner.
* An **invocation** lives too briefly for heartbeats: its name says until when what it committed is its own. What it has not published by
  then (it was killed) belongs to nobody, and is published by whoever sweeps.
* What a **paused** execution has to wait with is held, until it is resumed.
* Nobody: the empty text.
"""

from __future__ import annotations

QUEUE = "queue"
HELD = "held"
_UNTIL = "until:"


def invocation(until: float, who: str) -> str:
    """The owner name of an invocation that is over by ``until`` (epoch seconds)."""
    return f"{_UNTIL}{int(until) + 1}:{who}"


def later(at: float) -> str:
    """The owner name of what nobody is to touch before ``at`` (epoch seconds), and whoever sweeps takes up then."""
    return invocation(at - 1, "later")


def holds(owner: str, now: float) -> bool | None:
    """Whether the name alone says that it is alive; None when its lease has to be looked up."""
    if owner in (QUEUE, HELD):
        return True
    if owner.startswith(_UNTIL):
        until = owner.removeprefix(_UNTIL).partition(":")[0]
        return until.isdigit() and int(until) > now
    return None
