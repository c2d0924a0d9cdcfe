"""Limits of a step run or an execution by shared key: slots and rates.

Slots are ``concurrent``, times are ``rate``.

Slots and moments live beside the executions, in the store (docs/adr/0025-limits.md): nothing of them is in an execution's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from noetl.domain.errors import ConflictError
from noetl.domain.sizes.table import LIMIT_KEY, STEP_LIMITS

EXECUTIONS = "execution:"
"""What the keys of ``executor.spec.concurrency`` begin with: an execution that holds its slot never waits for itself."""
WHOLE = ""
"""Used in the place of a command's id: the execution itself holds the slot."""
LONGEST_KEY = LIMIT_KEY.value
MOST = STEP_LIMITS.value
"""Limits of one step."""


class Limit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A limit of a shared key.

    ``concurrent``: how many may hold a slot of ``key`` at once. ``rate``: how many may begin every ``per`` seconds, ``burst`` of them
    at the same moment.
    """

    key: str
    concurrent: int | None = None
    rate: float | None = None
    per: float = 1.0
    burst: int = 1


class Numbers(msgspec.Struct, frozen=True):
    """What holds for a key: an operator's numbers, or those that were asked for.

    None: no such limit.
    """

    concurrent: int | None = None
    rate: float | None = None
    per: float = 1.0
    burst: int = 1


class Admission(msgspec.Struct, frozen=True):
    """The slot of ``key`` (of ``concurrent``) that an execution needs before it begins."""

    key: str
    concurrent: int
    on_excess: Literal["queue", "refuse", "cancel_oldest"]
    priority: int = 0


class Admitted(msgspec.Struct, frozen=True):
    """The answer to an execution that asks for a slot.

    ``held``: it may begin. ``queued``: its Start is kept until a slot is free. ``refused``: nothing was kept; ``most`` are held, by
    ``holders`` (the oldest first, some of them).
    """

    status: Literal["held", "queued", "refused"]
    most: int = 0
    holders: tuple[int, ...] = ()


def refusal(key: str, most: int, holders: Sequence[int]) -> ConflictError:
    """Why an execution cannot begin."""
    shown = key.removeprefix(EXECUTIONS)
    return ConflictError(
        f"{most} of {most} executions of {shown!r} run: {', '.join(map(str, holders))}",
        code="concurrency_limit",
        hint="try again when one of them has ended, or let it wait: executor.spec.concurrency.on_excess: queue",
        details={"key": key, "limit": most, "holders": [str(one) for one in holders]},
        retryable=True,
    )


def reserve(
    tat: float, now: float, count: int, rate: float, per: float, burst: int
) -> tuple[list[float], float]:
    """Return the next ``count`` moments of a rate, and the state to store.

    It uses the generic cell rate algorithm. ``tat``: the state that was stored.
    """
    every = per / rate
    base = max(tat, now)
    tolerance = (burst - 1) * every
    return [max(now, base + index * every - tolerance) for index in range(count)], base + count * every
