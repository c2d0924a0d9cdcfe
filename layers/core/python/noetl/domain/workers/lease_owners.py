"""Names of the owners of outstanding commands, events and timers.

* A **process** that runs commands itself keeps a lease by heartbeats (``runtime`` rows).
* The **queue** has what was published; it is never taken back, because redelivery has one owner.
* An **invocation** lives too briefly for heartbeats: its name says until when what it committed is its own. What it has not published by
  then (it was killed) has no owner, and the next sweeper publishes it.
* A **pool** (``pool:…``, with a lease of its own in ``runtime``) has what is offered to workers that fetch commands over HTTP; what one
  of them has taken is a **lease**: an invocation's name that says the worker, too.
* What a **paused** execution has to wait with is held, until it is resumed.
* A row that cannot be read is **set aside**: its owner is an invocation's name that says ``unreadable`` (``set_aside`` in recovery.sql).
* No owner: the empty text.
"""

from __future__ import annotations

import math
import re

from noetl.domain.workers.direct_requests import POOL

QUEUE = "queue"
HELD = "held"
ASIDE_SECONDS = 600
"""How long, at least, a row that cannot be read is left alone before it is tried again."""
LONGEST_SECONDS = 180.0
"""Longest that an invocation can own what it has: no lifetime is longer (services/support/lease_owner_id.py). A name that says more was made by
a clock that is ahead, and counts for nothing: what it has is taken up now, and not when that clock says so."""
_UNTIL = "until:"
_LATER = "later"
_UNREADABLE = "unreadable"
_POOL = "pool:"
_LEASE = re.compile(r"until:\d{1,12}:http:([a-z][a-z0-9_-]*):(.+)", re.DOTALL | re.ASCII)


def invocation(until: float, who: str) -> str:
    """The owner name of an invocation that is over by ``until`` (epoch seconds)."""
    return f"{_UNTIL}{int(until) + 1}:{who}"


def later(at: float) -> str:
    """Return the owner name of a row that no process touches before ``at`` (epoch seconds).

    A sweeper takes the row up then.
    """
    return invocation(at - 1, _LATER)


def offered(pool: str) -> str:
    """The owner name of commands that any worker of ``pool`` may take."""
    return _POOL + pool


def pool_of(owner: str) -> str | None:
    """The pool whose workers may take what this owner has."""
    return owner.removeprefix(_POOL) if owner.startswith(_POOL) else None


def lease(until: float, pool: str, worker: str) -> str:
    """The owner name of what a worker over HTTP has taken, until then at least."""
    return invocation(until, f"http:{pool}:{worker}")


def leaseholder(owner: str) -> tuple[str, str] | None:
    """(pool, worker) of a lease; None for any other owner."""
    found = _LEASE.fullmatch(owner)
    return (found[1], found[2]) if found else None


def shown(owner: str) -> str:
    """Return the owner as people and clients may read it.

    Who knows the name of a lease by request can have the engine free its commands, and can tell the names that follow.
    """
    found = leaseholder(owner)
    return f"http:{POOL}" if found is not None and found[0] == POOL else owner


def until(owner: str) -> float | None:
    """Return when the lease of an owner ends; None for owners whose name states no time."""
    seconds = owner.removeprefix(_UNTIL).partition(":")[0] if owner.startswith(_UNTIL) else ""
    return float(seconds) if seconds.isdigit() else None


def is_aside(owner: str) -> bool:
    """Return whether a row is set aside because no process could read it."""
    return owner.startswith(_UNTIL) and owner.endswith(f":{_UNREADABLE}")


def holds(owner: str, now: float) -> bool | None:
    """Whether the name alone says that it is alive; None when its lease has to be looked up."""
    if owner in (QUEUE, HELD):
        return True
    if owner.startswith(_UNTIL):
        until, _, who = owner.removeprefix(_UNTIL).partition(":")
        named = who in (_LATER, _UNREADABLE) or leaseholder(owner) is not None
        return until.isdigit() and now < int(until) <= (math.inf if named else now + LONGEST_SECONDS)
    return None
