"""What lies in a store, row by row, for the laws: from memory or from Postgres in one shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import psycopg

from noetl.adapters.memory.tables import Tables
from noetl.domain.events import Event, decode_event
from noetl.domain.workers.lease_owners import holds


@dataclass(frozen=True, slots=True)
class OpenRow:
    """A command. ``round`` -1: of the main lane. ``left``: items it still answers for. ``owner`` empty: of no owner."""

    execution_id: int
    command_id: str
    run: int
    round: int
    attempt: int
    turn: int
    waiting: bool
    owner: str
    left: int


@dataclass(frozen=True, slots=True)
class PostedRow:
    """An event in the outbox."""

    execution_id: int
    event_id: str
    owner: str
    event: Event


@dataclass(frozen=True, slots=True)
class TimerRow:
    execution_id: int
    name: str
    generation: int
    owner: str


@dataclass(frozen=True, slots=True)
class UseRow:
    """A slot that is held, or waited for (``queued``: this is the key that has no room). ``command_id`` empty: the whole execution."""

    execution_id: int
    command_id: str
    key: str
    concurrent: int | None
    held: bool
    queued: bool
    priority: int
    order: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """``leases``: owner → until when (epoch seconds); ``now``: the store's time."""

    commands: Sequence[OpenRow]
    outbox: Sequence[PostedRow]
    timers: Sequence[TimerRow]
    uses: Sequence[UseRow]
    leases: Mapping[str, float]
    now: float

    def alive(self, owner: str) -> bool:
        """Whether what this owner has is taken by no one else."""
        told = holds(owner, self.now) if owner else False
        return self.leases.get(owner, 0.0) > self.now if told is None else told


class Gather(Protocol):
    def __call__(self) -> Evidence: ...


def from_memory(tables: Tables) -> Evidence:
    """Rows of the store in memory."""
    commands = [
        OpenRow(
            one.execution_id,
            one.command_id,
            one.run,
            one.round,
            one.attempt,
            one.turn,
            one.waiting,
            one.owner or "",
            one.left,
        )
        for work in tables.work.values()
        for one in work.commands.values()
    ]
    return Evidence(
        commands,
        [
            PostedRow(one.execution_id, one.event_id, one.owner or "", decode_event(one.payload))
            for one in tables.outbox.values()
        ],
        [
            TimerRow(execution_id, name, timer.generation, timer.owner or "")
            for execution_id, work in tables.work.items()
            for name, timer in work.timers.items()
        ],
        [
            UseRow(
                *key,
                use.limit.key,
                use.limit.concurrent,
                use.held,
                use.queued,
                use.priority,
                use.order,
            )
            for key, uses in tables.uses.items()
            for use in uses
        ],
        dict(tables.leases),
        tables.clock(),
    )


def from_postgres(connection: psycopg.Connection, now: float) -> Evidence:
    """Rows of the tables, over a connection of the simulator's own."""

    def rows(query: str) -> list[tuple[object, ...]]:
        return connection.execute(query.encode()).fetchall()

    commands = rows(
        "SELECT execution_id, command_id, run, round, attempt, turn, waiting, owner, remaining FROM noetl.command"
    )
    outbox = rows("SELECT execution_id, event_id, owner, payload::text FROM noetl.outbox ORDER BY id")
    timers = rows("SELECT execution_id, timer, generation, owner FROM noetl.timer")
    uses = rows(
        "SELECT execution_id, command_id, key, concurrent, held, queued, priority, id FROM noetl.limit_use"
    )
    leases = rows("SELECT owner, extract(epoch FROM lease_until)::float8 FROM noetl.runtime")
    return Evidence(
        [OpenRow(*row) for row in commands],  # type: ignore[arg-type]
        [PostedRow(row[0], row[1], row[2], decode_event(str(row[3]))) for row in outbox],  # type: ignore[arg-type]
        [TimerRow(*row) for row in timers],  # type: ignore[arg-type]
        [UseRow(*row) for row in uses],  # type: ignore[arg-type]
        dict(leases),  # type: ignore[arg-type]
        now,
    )
