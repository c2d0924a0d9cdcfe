"""The rows of the in-memory store, and the operations that several use cases share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from noetl.adapters.loops import chunk_command, completed, loop_done
from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.events import Event, Start, encode_event
from noetl.domain.limits import Limit, Numbers
from noetl.domain.results.retention import KeptResult, mentioned
from noetl.domain.state import TERMINAL, Status
from noetl.domain.variables import Variable, VariableWrite
from noetl.domain.workers.lease_owners import holds
from noetl.ports.executions.answers import Steering
from noetl.ports.executions.execution_store import CreatedExecution, EventRow, ItemBatch, LoopRow, StoredEvent

_COMMAND = codec.decoder(Command)


@dataclass(slots=True)
class ExecutionEntry:
    execution_id: int
    created: CreatedExecution
    started_at: float
    status: Status = "running"
    program: str = ""
    version: int = 0
    state: bytes = b""
    ended_at: float | None = None
    leaving: bool = False
    """It is being removed."""
    rested: float = 0.0
    rests_since: float | None = None
    rests_until: float = 0.0

    def rested_at(self, now: float) -> float:
        """Return the seconds that it has rested by now."""
        if self.rests_since is None:
            return self.rested
        return self.rested + max(0.0, min(now, self.rests_until) - self.rests_since)

    @property
    def over(self) -> bool:
        return self.status in TERMINAL


@dataclass(slots=True)
class CommandEntry:
    """A row of a command.

    ``round`` ≥ 0: a command of a loop, whose payload lacks what the loop's entry holds (None: a fresh chunk).

    ``left``: items of ``start <= i < stop`` that this command still answers for.
    """

    execution_id: int
    command_id: str
    run: int
    payload: bytes | None
    round: int = -1
    attempt: int = 1
    turn: int = 0
    waiting: bool = False
    owner: str | None = None
    not_before: float = 0.0
    start: int = 0
    stop: int = 0
    left: int = 0
    order: int = 0
    priority: int = 0
    lost: int = 0
    lost_turn: int = 0

    @property
    def losses(self) -> int:
        """How many owners died while they ran this turn."""
        return self.lost if self.lost_turn == self.turn else 0


@dataclass(slots=True)
class LoopEntry:
    row: LoopRow
    cursor: int = 0
    issued: int = 0
    done: int = 0
    failed: int = 0
    size: int = 0
    patched: int = 0
    gate: Literal["open", "closing", "closed"] = "open"
    alerted: bool = False
    handed_back: int = 0
    """Items that commands left undone in the call that is being carried out."""

    def take_back(self) -> None:
        """Take back items that were handed back: they are not issued any more.

        Never fewer than came back, regardless of what workers report.
        """
        self.issued = max(self.done + self.failed, self.issued - self.handed_back)
        self.handed_back = 0

    @property
    def in_flight(self) -> int:
        return self.issued - self.done - self.failed

    @property
    def finished(self) -> bool:
        """Return whether nothing more will come.

        The total is reached, or the gate is closing and nothing is in flight.
        """
        if self.done + self.failed == self.row.total:
            return True
        return self.gate == "closing" and self.in_flight == 0


@dataclass(slots=True)
class TimerEntry:
    generation: int
    fire_at: float
    owner: str | None = None


@dataclass(slots=True)
class OutboxEntry:
    execution_id: int
    event_id: str
    payload: bytes
    source: int
    owner: str | None
    order: int
    since: float
    awaited_by: int | None = None
    program: str = ""

    def release(self, owner: str | None, now: float) -> None:
        """Let the event be delivered that was held until now."""
        self.owner, self.since = owner, now


@dataclass(slots=True)
class KeyEntry:
    """What holds for a key that executions share.

    ``declared``: a playbook said so, not an operator. ``tat``: when its rate is free.
    """

    numbers: Numbers
    declared: bool
    tat: float = 0.0
    principal: str = ""


@dataclass(slots=True)
class Use:
    """A key that a command needs.

    ``queued``: it waits, and this is the key that has no room for it.
    """

    limit: Limit
    priority: int
    order: int
    since: float
    held: bool = False
    queued: bool = False
    step: str = ""


@dataclass(slots=True)
class ResultEntry:
    """A large result that lives differently from its execution.

    ``leaving``: it is being removed.
    """

    kept: KeptResult
    created_at: float
    leaving: bool = False


@dataclass(slots=True)
class Work:
    """What belongs to one execution id (whether or not its own entry exists yet)."""

    slots: dict[tuple[str, str], bytes] = field(default_factory=dict)
    history: dict[str, StoredEvent] = field(default_factory=dict)
    commands: dict[str, CommandEntry] = field(default_factory=dict)
    loops: dict[tuple[int, int], LoopEntry] = field(default_factory=dict)
    timers: dict[str, TimerEntry] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)


class Tables:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.executions: dict[int, ExecutionEntry] = {}
        self.work: defaultdict[int, Work] = defaultdict(Work)
        self.outbox: dict[tuple[int, str], OutboxEntry] = {}
        self.leases: dict[str, float] = {}
        self.keys: dict[str, tuple[int, str, float]] = {}
        """Idempotency keys: execution, fingerprint, since when."""
        self.limits: dict[str, KeyEntry] = {}
        self.uses: dict[tuple[int, str], list[Use]] = {}
        """By execution and command, in the order of their keys."""
        self.results: dict[tuple[int, str], ResultEntry] = {}
        """By execution and reference."""
        self.holds: set[tuple[int, int]] = set()
        """Executions that got references to results of an execution of another tree."""
        self._starts: dict[int, str] = {}
        """The id of the Start that was put into the outbox last, by execution."""
        self._order = 0

    def next_order(self) -> int:
        self._order += 1
        return self._order

    def of_key(self, key: str) -> Iterator[Use]:
        return (use for uses in self.uses.values() for use in uses if use.limit.key == key)

    def status_of(self, execution_id: int) -> str:
        entry = self.executions.get(execution_id)
        return "" if entry is None else entry.status

    def alive(self, owner: str | None) -> bool:
        if owner is None:
            return False
        held = holds(owner, self.clock())
        return self.leases.get(owner, float("-inf")) > self.clock() if held is None else held

    def record(self, execution_id: int, row: EventRow, lane: int | None = None) -> bool:
        """Insert one row of history unless its id is there already."""
        history = self.work[execution_id].history
        if row.event_id in history:
            return False
        at = row.at or self.clock()
        place = row.lane if lane is None else lane
        history[row.event_id] = StoredEvent(row.event_id, place, row.seq, row.type, at, row.facts)
        return True

    def post(
        self, events: Iterable[Event], source: int, owner: str | None, since: float | None = None
    ) -> list[Event]:
        """Put events into the outbox; those that were not there yet.

        ``since``: when they may be delivered; None: now.
        """
        fresh, at = [], self.clock() if since is None else since
        for event in events:
            key = (event.execution_id, event.event_id)
            if key not in self.outbox:
                order = self.next_order()
                entry = OutboxEntry(*key, encode_event(event), source, owner, order, since=at)
                if isinstance(event, Start):
                    entry.awaited_by, entry.program = event.awaited_by, event.program
                    self._starts[event.execution_id] = event.event_id
                self.outbox[key] = entry
                fresh.append(event)
        return fresh

    def steering(self, execution_id: int) -> list[Steering]:
        """Pauses and resumes of an execution that wait in the outbox, in order."""
        rows = [
            entry
            for (execution, _), entry in self.outbox.items()
            if execution == execution_id
            and entry.payload.startswith((b'{"type":"pause"', b'{"type":"resume"'))
        ]
        rows.sort(key=lambda entry: entry.order)
        return [Steering(entry.event_id, entry.payload.startswith(b'{"type":"pause"')) for entry in rows]

    def start_of(self, execution_id: int) -> OutboxEntry | None:
        """The Start of an execution, while it waits in the outbox."""
        return self.outbox.get((execution_id, self._starts.get(execution_id, "")))

    def taken(self, events: Iterable[Event]) -> set[int]:
        """Return execution ids that ``post`` may not use.

        Another Start began these executions, or is about to begin them.
        """
        claimed: dict[int, str] = {}
        found = set()
        for event in events:
            if not isinstance(event, Start) or (event.execution_id, event.event_id) in self.outbox:
                continue
            waits = self.start_of(event.execution_id) is not None
            begun = event.execution_id in self.executions
            known = event.event_id in self.work[event.execution_id].history
            twice = claimed.setdefault(event.execution_id, event.event_id) != event.event_id
            if waits or (begun and not known) or twice:
                found.add(event.execution_id)
        return found

    def note_results(self, execution_id: int, kept: Iterable[KeptResult], reaches: Iterable[int]) -> None:
        """What a commit says of results.

        Parents and children are of one tree, and hold each other anyway.
        """
        for one in kept:
            self.results.setdefault((execution_id, one.ref), ResultEntry(one, self.clock()))
        for held in reaches:
            if execution_id != self.parent_of(held) and held != self.parent_of(execution_id):
                self.holds.add((execution_id, held))

    def parent_of(self, execution_id: int) -> int | None:
        entry = self.executions.get(execution_id)
        return None if entry is None else entry.created.parent_execution_id

    def note_mentioned(self, event: Event) -> None:
        """An event from outside may tell of results of others."""
        self.note_results(event.execution_id, (), mentioned(encode_event(event), event.execution_id))

    def write_variables(self, execution_id: int, writes: Iterable[VariableWrite]) -> None:
        """Rows as they are after a change; what was created stays created then."""
        rows, now = self.work[execution_id].variables, self.clock()
        for write in writes:
            old = rows.pop(write.name, None)
            if write.deleted:
                continue
            value = codec.decode(codec.encode(write.value))
            count, made = (old.access_count, old.created_at) if old is not None else (0, now)
            rows[write.name] = Variable(write.name, value, write.type, write.step or None, count, made, now)

    def add_command(self, entry: CommandEntry) -> CommandEntry:
        entry.order = self.next_order()
        self.work[entry.execution_id].commands[entry.command_id] = entry
        return entry

    def add_chunk(
        self, execution_id: int, loop: LoopEntry, start: int, stop: int, owner: str | None
    ) -> Command:
        command = chunk_command(execution_id, loop.row, start, stop)
        self.add_command(
            CommandEntry(
                execution_id,
                command.command_id,
                loop.row.run,
                payload=None,
                round=loop.row.round,
                owner=owner,
                start=start,
                stop=stop,
                left=stop - start,
                priority=loop.row.priority,
            )
        )
        loop.issued += stop - start
        loop.cursor = stop
        return command

    def command(self, entry: CommandEntry) -> Command:
        """The whole command of an entry."""
        if entry.round < 0:
            assert entry.payload is not None
            command = codec.decode_as(_COMMAND, entry.payload)
            return msgspec.structs.replace(command, attempt=entry.attempt)
        loop = self.work[entry.execution_id].loops[entry.run, entry.round].row
        if entry.payload is None:
            return chunk_command(entry.execution_id, loop, entry.start, entry.stop, entry.attempt)
        command = codec.decode_as(_COMMAND, entry.payload)
        whole = completed(command, loop, entry.start, entry.stop)
        return msgspec.structs.replace(whole, attempt=entry.attempt)

    def finish_loop(self, execution_id: int, loop: LoopEntry, owner: str | None) -> list[Event]:
        """End a loop that has nothing left to wait for: its LoopDone, once."""
        if loop.gate == "closed" or not loop.finished:
            return []
        loop.gate = "closed"
        row = loop.row
        return self.post(
            [loop_done(execution_id, row.run, row.round, row.step, row.program)], execution_id, owner
        )


def loop_of(tables: Tables, batch: ItemBatch) -> LoopEntry | None:
    event = batch.event
    return tables.work[event.execution_id].loops.get((event.run, event.round))
