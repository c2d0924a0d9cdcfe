"""Where a simulated world keeps its executions: in memory, or in Postgres with virtual time; both are watched at every call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import psycopg

from noetl.adapters.loops import counted_rows
from noetl.adapters.memory import MemoryExecutionStore
from noetl.adapters.postgres import PostgresExecutionStore
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.adapters.postgres.executions.retention import PostgresRetention
from noetl.domain.commands import Command
from noetl.domain.events import Event, Parent, Start
from noetl.ports.executions.execution_store import (
    Change,
    Committed,
    ExecutionStore,
    ItemBatch,
    ItemsCommitted,
    Poll,
)
from noetl.ports.executions.inspection import Inspection
from noetl.ports.executions.retention import Retention
from tests.doubles.inspection import MemoryInspection
from tests.doubles.retention import MemoryRetention
from tests.doubles.schedule_store import MemoryScheduleStore
from tests.properties.evidence import Evidence, from_memory, from_postgres
from tests.properties.laws import law

if TYPE_CHECKING:
    _Store = ExecutionStore
else:
    _Store = object


@dataclass(slots=True)
class Watch:
    """What all processes of a world were given, and asked for. ``asked``: (who asked, which execution, which playbook)."""

    attempts: dict[tuple[int, str], int] = field(default_factory=dict)
    asked: set[tuple[Parent, int, str]] = field(default_factory=set)

    def posted(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Start) and event.parent is not None:
                self.asked.add((event.parent, event.execution_id, event.path))

    @law("attempts-go-up", "call")
    def claimed(self, command: Command, fresh: int) -> None:
        """A command that is given out again is a later attempt of it."""
        key = (command.execution_id, command.command_id)
        last = self.attempts.get(key, fresh)
        assert command.attempt > last, f"{key} was claimed twice as attempt {command.attempt}"
        self.attempts[key] = command.attempt

    @law("last-attempt-counts", "call")
    def applied(self, execution_id: int, command_id: str, attempt: int) -> None:
        """Only the outcome of the attempt that was given out last is applied."""
        last = self.attempts.get((execution_id, command_id), 1)
        assert attempt == last, f"attempt {attempt} of {command_id} counted after {last} was given out"


class Watched(_Store):
    """Before a store in the order of bases; ``watch`` is set by the one who makes it."""

    watch: Watch

    def first_attempts(self) -> set[tuple[int, str]]:
        """Commands that have not been given out, though they are there."""
        return set()

    def claim(self, owner: str, limit: int) -> Sequence[Command]:  # type: ignore[override]
        waited = self.first_attempts()
        found = super().claim(owner, limit)
        for command in found:
            self.watch.claimed(command, 0 if (command.execution_id, command.command_id) in waited else 1)
        return found

    def ask_again(self, polls: Sequence[Poll], owner: str | None = None) -> Sequence[Command]:
        found = super().ask_again(polls, owner)
        for command in found:
            self.watch.attempts[command.execution_id, command.command_id] = command.attempt
        return found

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        committed = super().commit(changes, owner)
        for change in changes:
            self.watch.posted(change.outbox)
            for command_id, attempt, _ in change.close:
                self.watch.applied(change.execution_id, command_id, attempt)
        return committed

    def commit_items(
        self, batches: Sequence[ItemBatch], owner: str | None = None
    ) -> tuple[Sequence[ItemsCommitted], Committed]:
        answers, committed = super().commit_items(batches, owner)
        for batch, answer in zip(batches, answers, strict=True):
            if not (answer.superseded or answer.early or answer.paused):
                self.watch.posted(self._stored(batch, answer))
            if answer.counted:
                event = batch.event
                self.watch.applied(event.execution_id, event.command_id, event.attempt)
        return answers, committed

    @law("new-items-start-their-children", "call")
    def _stored(self, batch: ItemBatch, answer: ItemsCommitted) -> list[Event]:
        """The events that a batch of items posts are stored, but for items that another run of the same attempt reported first."""
        stored = [one for one in batch.outbox if self.find_events(one.execution_id, [one.event_id])]
        repeats = answer.counted < sum(row.counts for row in counted_rows(batch))
        assert repeats or not any(row.counts for row in counted_rows(batch)) or stored == list(batch.outbox)
        return stored


class WatchedMemory(Watched, MemoryExecutionStore):
    def first_attempts(self) -> set[tuple[int, str]]:
        with self.tables() as tables:
            return {key for key, uses in tables.uses.items() if any(use.queued for use in uses)}


class WatchedPostgres(Watched, PostgresExecutionStore):
    rows: psycopg.Connection

    def first_attempts(self) -> set[tuple[int, str]]:
        found = self.rows.execute(b"SELECT execution_id, command_id FROM noetl.limit_use WHERE queued")
        return {(int(row[0]), str(row[1])) for row in found.fetchall()}


class Place(Protocol):
    """``store``: for readers; ``of_process``: for a process, with caches of its own."""

    watch: Watch
    store: ExecutionStore
    inspection: Inspection

    def of_process(self, loops: int) -> ExecutionStore:
        """``loops``: how many loops it remembers."""

    def evidence(self) -> Evidence:
        """All rows there are now."""

    def tick(self) -> None:
        """The clock has been moved."""

    def retention(self) -> Retention:
        """Remove what is over."""

    def divide(self, at: int, most: int) -> str:
        """End the partition of history that is written to at this id, and fold those before it with as many rows; tell what came of it."""

    def left_behind(self, executions: Collection[int]) -> Sequence[str]:
        """Where anything of these executions is kept."""


class MemoryPlace:
    """``clock``: epoch seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.watch = Watch()
        self.memory = WatchedMemory(clock)
        self.memory.watch = self.watch
        self.store: ExecutionStore = self.memory
        self.inspection: Inspection = MemoryInspection(self.memory)

    def of_process(self, loops: int) -> ExecutionStore:
        return self.store

    def evidence(self) -> Evidence:
        with self.memory.tables() as tables:
            return from_memory(tables)

    def tick(self) -> None:
        return

    def retention(self) -> Retention:
        return MemoryRetention(self.memory, MemoryScheduleStore())

    def divide(self, at: int, most: int) -> str:
        return "nothing: history has no partitions here"

    def left_behind(self, executions: Collection[int]) -> Sequence[str]:
        with self.memory.tables() as tables:
            work = {
                f"{name} of {one}"
                for one in executions
                if one in tables.work
                for name in ("history", "slots", "commands", "loops", "timers", "variables")
                if getattr(tables.work[one], name)
            }
            keyed = (tables.outbox, tables.uses, tables.results, tables.holds)
            rows = {f"{key}" for table in keyed for key in table if key[0] in executions}
            return sorted(work | rows)


VIRTUAL_TIME = """
    CREATE SCHEMA IF NOT EXISTS simulated;
    CREATE SEQUENCE IF NOT EXISTS simulated.clock;
    CREATE OR REPLACE FUNCTION simulated.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
        AS 'SELECT to_timestamp(last_value / 1e6) FROM simulated.clock';
    CREATE OR REPLACE FUNCTION simulated.now() RETURNS timestamptz LANGUAGE sql STABLE
        AS 'SELECT to_timestamp(last_value / 1e6) FROM simulated.clock';
"""
SHADOWED = "search_path=simulated,pg_catalog,public"
"""What the statements and functions of the product call the time is the simulated one."""


class PostgresGround:
    """One database for all seeds of a module; a world begins with empty tables."""

    def __init__(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(VIRTUAL_TIME.encode())
        self.dsn = psycopg.conninfo.make_conninfo(dsn, options=f"-c {SHADOWED}")
        self.rows = psycopg.connect(self.dsn, autocommit=True)
        self.database = Database(self.dsn)
        tables = self.rows.execute(
            b"SELECT format('noetl.%I', relname) FROM pg_class WHERE relnamespace = 'noetl'::regnamespace"
            b" AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'migration'"
        ).fetchall()
        self.names = [str(name) for (name,) in tables]
        columns = self.rows.execute(
            b"SELECT format('noetl.%I', table_name) FROM information_schema.columns"
            b" WHERE table_schema = 'noetl' AND column_name = 'execution_id' ORDER BY 1"
        ).fetchall()
        self.of_executions = [str(name) for (name,) in columns if str(name) in self.names]

    def place(self, clock: Callable[[], float]) -> PostgresPlace:
        """An empty one."""
        self.rows.execute(f"TRUNCATE {', '.join(self.names)}".encode())
        parts = self.rows.execute(b"SELECT format('noetl.%I', name) FROM noetl.history_parts()").fetchall()
        if len(parts) > 1:
            self.rows.execute(f"DROP TABLE {', '.join(str(name) for (name,) in parts)}".encode())
            self.rows.execute(
                b"CREATE TABLE noetl.event_0 PARTITION OF noetl.event FOR VALUES FROM (MINVALUE) TO (MAXVALUE)"
            )
        return PostgresPlace(self, clock)

    def left_behind(self, executions: Collection[int]) -> list[str]:
        """Tables that have rows of these executions."""
        each = (
            f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name} WHERE execution_id = ANY(%(ids)s))"
            for name in self.of_executions
        )
        found = self.rows.execute(" UNION ALL ".join(each).encode(), {"ids": list(executions)})
        return [str(name) for (name,) in found.fetchall()]

    def close(self) -> None:
        self.rows.close()
        self.database.close()


class PostgresPlace:
    def __init__(self, ground: PostgresGround, clock: Callable[[], float]) -> None:
        self.watch = Watch()
        self.ground = ground
        self.clock = clock
        self.tick()
        self.store: ExecutionStore = self.of_process(256)
        self.inspection: Inspection = PostgresInspection(ground.database)

    def of_process(self, loops: int) -> ExecutionStore:
        store = WatchedPostgres(self.ground.database, loops=loops)
        store.watch, store.rows = self.watch, self.ground.rows
        return store

    def evidence(self) -> Evidence:
        return from_postgres(self.ground.rows, self.clock())

    def tick(self) -> None:
        micros = round(self.clock() * 1_000_000)
        self.ground.rows.execute(f"SELECT setval('simulated.clock', {micros})".encode())

    def retention(self) -> Retention:
        return PostgresRetention(self.ground.database)

    def divide(self, at: int, most: int) -> str:
        asked = "SELECT noetl.cut_history(%s, 1 << 30), noetl.fold_history(%s, %s)"
        return " and ".join(self.ground.rows.execute(asked, (at, at, most)).fetchone() or ())

    def left_behind(self, executions: Collection[int]) -> Sequence[str]:
        return self.ground.left_behind(executions) if executions else ()
