"""Requests to an execution store, and its answers to starts, changes and publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.domain.state import Status


class IdempotencyKey(msgspec.Struct, frozen=True):
    """An idempotency key.

    ``fingerprint``: of what was asked; asking for something else under the same key is a conflict.
    """

    key: str
    fingerprint: str


class ExecutionFilter(msgspec.Struct, frozen=True):
    """Which executions are meant: all that fit everything given.

    ``path``: of their playbook. ``parent``: the execution that started them.

    Times are epoch seconds of their start: from ``started_after``, and before ``started_before``. ``program``: what they run now.
    ``ids``: only these. ``statuses``: any of these; empty: any. ``pausing``: also those for which a pause is on its way.
    ``labels``: it has all of them. ``roots``: no other execution started it. ``principal``: who started it. ``error_code``: it failed
    with this code (or with an error of this kind that has no code). ``text``: its path, name or a label contains it, in upper or lower
    case.
    """

    path: str | None = None
    parent: int | None = None
    started_after: float | None = None
    started_before: float | None = None
    program: str | None = None
    ids: tuple[int, ...] | None = None
    statuses: tuple[str, ...] = ()
    pausing: bool = False
    labels: Mapping[str, str] = {}
    roots: bool = False
    principal: str | None = None
    error_code: str | None = None
    text: str | None = None


class CreatedExecution(msgspec.Struct, frozen=True):
    """A new execution.

    ``starts_at``: when it is to start; None: now. The owner's name says which process has its Start until then (``domain/owners.later``).

    ``start``: id of the Start that makes it; empty when a Cancel does. ``awaited_by``: the run of the parent that waits for it; None when
    none does.
    """

    path: str
    name: str
    playbook_version: str = ""
    parent_execution_id: int | None = None
    principal: str = ""
    starts_at: float | None = None
    start: str = ""
    awaited_by: int | None = None
    labels: Mapping[str, str] = {}

    @property
    def kept(self) -> bool:
        """Return whether its Start was kept, in its own row or in the outbox, before it was sent."""
        return self.parent_execution_id is not None or ids.is_kept_start(self.start)


class Creation(msgspec.Struct, frozen=True):
    """The answer to a request for a new execution.

    ``execution_id``: the one that exists now. ``fresh``: this call made it. ``same``: the key (if any) belonged to the same request.
    ``taken``: another execution has the id that was asked for; nothing was written, and the key (if any) belongs to nothing.
    """

    execution_id: int
    fresh: bool
    same: bool = True
    taken: bool = False


class Posted(msgspec.Struct, frozen=True):
    """The answer to an event from outside.

    ``status``: of the execution (None: there is none). ``version`` 0: it has not started. ``posted``: the event is on its way.
    """

    status: Status | None
    version: int
    posted: bool


class FoundEvent(msgspec.Struct, frozen=True):
    """An event by its id: applied, or still on its way.

    Applied: ``facts``, encoded, and ``at``: when. On its way: ``event``, encoded; ``at`` is now.
    """

    at: float
    facts: bytes | None = None
    event: bytes | None = None


class Steering(msgspec.Struct, frozen=True):
    """A pause or a resume that was accepted and is not applied yet."""

    event_id: str
    pauses: bool


class Published(msgspec.Struct, frozen=True):
    """``timers``: (execution id, name)."""

    commands: Sequence[Command] = ()
    events: Sequence[Event] = ()
    timers: Sequence[tuple[int, str]] = ()

    def __bool__(self) -> bool:
        return bool(self.commands or self.events or self.timers)


class Offer(msgspec.Struct, frozen=True):
    """Commands that are offered to the workers of ``pool``, or that a silent one of them had.

    ``only``: (execution id, command id) of the one that is wanted.
    """

    pool: str
    only: tuple[int, str] | None = None


NOTHING = Published()
EVERY = ExecutionFilter()
