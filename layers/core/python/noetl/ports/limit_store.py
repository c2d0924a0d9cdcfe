"""Port of the limit store: slots and times of shared keys, with their holders and waiters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, Protocol

import msgspec

from noetl.domain.events import Event, Start
from noetl.domain.limits import Admission, Admitted, Numbers
from noetl.ports.executions.answers import CreatedExecution

SHOWN = 20
"""Most holders, and most who wait, that are named with a key."""


class KeyUse(msgspec.Struct, frozen=True):
    """A holder of a slot, or one that waits for a slot.

    ``step`` empty: the execution itself. ``since``: epoch seconds. ``alive``: a live process or worker has the command (a command whose
    worker died keeps its slot, and is given out again).
    """

    execution_id: int
    step: str
    run: int
    priority: int
    since: float
    alive: bool = True
    lease_until: float | None = None


class KeyState(msgspec.Struct, frozen=True):
    """The state of a key.

    ``source``: whose numbers hold. ``next_at``: when the rate is free again (epoch seconds); None: now, or there is no rate.
    """

    key: str
    numbers: Numbers
    source: Literal["operator", "playbook"]
    in_use: int
    waiting: int
    next_at: float | None = None
    principal: str = ""
    holders: tuple[KeyUse, ...] = ()
    first: tuple[KeyUse, ...] = ()
    """Who waits, in the order in which they get slots."""


class Wait(msgspec.Struct, frozen=True):
    """The reason why a part of an execution waits.

    ``at``: when its moment comes (epoch seconds; a rate). Otherwise it waits for a slot: ``in_use`` of ``most`` are held, by ``holders``
    (some executions) among others, and it is the ``position``-th that waits.
    """

    key: str
    step: str
    run: int
    since: float
    at: float | None = None
    most: int = 0
    in_use: int = 0
    position: int = 0
    holders: tuple[int, ...] = ()


class LimitStore(Protocol):
    def admit(
        self, start: Start, created: CreatedExecution, admission: Admission, owner: str | None = None
    ) -> tuple[Admitted, Sequence[Event]]:
        """Grant a slot to an execution that has not begun, or let it wait, in one transaction.

        Its row (in version 0) and its Start are kept then. Asking again changes nothing. It also sends the Cancel of the oldest holder,
        where that makes room.
        """

    def limit_keys(self, *, after: str = "", limit: int = 100, key: str | None = None) -> Sequence[KeyState]:
        """Keys in order (strictly after ``after``), or the one."""

    def set_limit(self, key: str, numbers: Numbers, principal: str) -> None:
        """Set the limit of a key from now on, regardless of what playbooks ask for.

        The next ``claim`` looks at the commands that wait.
        """

    def remove_limit(self, key: str) -> bool:
        """Playbooks' own numbers hold again. False when there were no others."""

    def waits_of(self, execution_id: int, limit: int = 100) -> Sequence[Wait]:
        """What of an execution waits for a slot or a moment, the longest first."""

    def queued_starts(self, execution_ids: Collection[int]) -> frozenset[int]:
        """Those of them that wait for a slot to begin."""
