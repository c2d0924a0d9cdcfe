"""Executions in memory, for the simulator and for conformance cases.

They keep the same promises as Postgres.

Nothing survives the process. Values are kept encoded, so no caller shares a mutable object with the store.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter

import msgspec

from noetl.adapters.changes import SUPERSEDED_LANE, one_change_each
from noetl.adapters.memory import item_lane, main_lane, polling, recovery
from noetl.adapters.memory.execution_trees import root_of
from noetl.adapters.memory.figures import MemoryFigures
from noetl.adapters.memory.tables import ExecutionEntry, Tables
from noetl.domain import codec, ids
from noetl.domain.commands import Command
from noetl.domain.events import Cancel, Event, Held, Redrive, Start, decode_event
from noetl.domain.outcomes.work import work_of
from noetl.domain.variables import Variable, VariableWrite
from noetl.domain.workers.lease_owners import QUEUE
from noetl.ports.executions.answers import Steering
from noetl.ports.executions.execution_store import (
    Change,
    Committed,
    CreatedExecution,
    Creation,
    EventRow,
    Fence,
    FoundEvent,
    IdempotencyKey,
    ItemBatch,
    ItemRow,
    ItemsCommitted,
    ItemWork,
    Loaded,
    LoadRequest,
    LoopProgress,
    LoopRow,
    Offer,
    Poll,
    Posted,
    Published,
    Snapshot,
    StoredEvent,
)

_NOTHING = Published()
PLACE = attrgetter("lane", "seq", "event_id")
_OF_ITEM = re.compile(r"(await|callback):.*\.i")
"""Events of the main lane that tell of a callback of one item of a loop."""


def _ends_item(row: StoredEvent) -> bool:
    return ids.ends_item(row.event_id)


class MemoryExecutionStore(MemoryFigures):
    """The execution store in memory.

    ``clock`` returns epoch seconds (virtual in the simulator); ``ended`` is called with each execution that ended (its copies of
    credentials are deleted).
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        ended: Callable[[int], object] = lambda execution_id: None,
    ) -> None:
        self._tables = Tables(clock)
        self._ended = ended
        self._lock = threading.RLock()

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        """Yield the rows themselves for inspection (see ``MemoryInspection``).

        Nothing else happens meanwhile.
        """
        with self._lock:
            yield self._tables

    def load(self, requests: Sequence[LoadRequest]) -> Loaded:
        with self._lock:
            found = {}
            for request in requests:
                entry = self._tables.executions.get(request.execution_id)
                if entry is not None:
                    found[request.execution_id] = self._snapshot(entry, request)
            return Loaded(self._tables.clock(), found)

    def _snapshot(self, entry: ExecutionEntry, request: LoadRequest) -> Snapshot:
        work = self._tables.work[entry.execution_id]
        names, scopes = set(request.names), set(request.scopes)
        return Snapshot(
            execution_id=entry.execution_id,
            version=entry.version,
            program=entry.program,
            status=entry.status,
            state=entry.state,
            slots={
                key: codec.decode(value)
                for key, value in work.slots.items()
                if key[1] in names or key[0] in scopes
            },
            fences={
                command_id: Fence(work.commands[command_id].attempt, work.commands[command_id].turn)
                for command_id in request.commands
                if command_id in work.commands
            },
            applied=frozenset(
                event_id
                for event_id in request.events
                if event_id in work.history or (entry.leaving and not ids.is_start(event_id))
            ),
        )

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        ordered = one_change_each(changes)
        with self._lock:
            committed = main_lane.commit(self._tables, ordered, owner)
        for change in ordered:
            if change.end:
                self._ended(change.execution_id)
        return committed

    def commit_items(
        self, batches: Sequence[ItemBatch], owner: str | None = None
    ) -> tuple[Sequence[ItemsCommitted], Committed]:
        with self._lock:
            return item_lane.commit_items(self._tables, batches, owner)

    def ask_again(self, polls: Sequence[Poll], owner: str | None = None) -> Sequence[Command]:
        with self._lock:
            return polling.ask_again(self._tables, polls, owner)

    def wake_early(self, commands: Sequence[tuple[int, str]], owner: str | None = None) -> Sequence[Command]:
        with self._lock:
            return polling.wake_early(self._tables, commands, owner)

    def create(
        self,
        start: Start,
        created: CreatedExecution,
        owner: str | None = None,
        key: IdempotencyKey | None = None,
    ) -> Creation:
        with self._lock:
            execution_id = start.execution_id
            known = self._tables.keys.get(key.key) if key is not None else None
            if key is not None and known is not None:
                return Creation(known[0], fresh=False, same=known[1] == key.fingerprint)
            if execution_id in self._tables.executions or self._tables.start_of(execution_id) is not None:
                return Creation(execution_id, fresh=False, taken=True)
            if key is not None:
                self._tables.keys[key.key] = (execution_id, key.fingerprint, self._tables.clock())
            started_at = self._tables.clock() if created.starts_at is None else created.starts_at
            self._tables.executions[execution_id] = ExecutionEntry(
                execution_id, created, started_at, program=start.program
            )
            self._tables.post([start], execution_id, owner, started_at)
            self._tables.note_mentioned(start)
            return Creation(execution_id, fresh=True)

    def keyed(self, key: IdempotencyKey) -> Creation | None:
        with self._lock:
            known = self._tables.keys.get(key.key)
        return None if known is None else Creation(known[0], fresh=False, same=known[1] == key.fingerprint)

    def post(self, event: Event, owner: str | None = None, variables: Sequence[VariableWrite] = ()) -> Posted:
        with self._lock:
            entry = self._tables.executions.get(event.execution_id)
            over = isinstance(event, Redrive)
            root = root_of(self._tables, event.execution_id) if over else None
            if entry is None or entry.leaving or (root is not None and root.leaving):
                return Posted(None, 0, False)
            fits = entry.over is over
            if not fits or (entry.version == 0 and not isinstance(event, Cancel)):
                return Posted(entry.status, entry.version, False)
            if event.event_id in self._tables.work[event.execution_id].history:
                return Posted(entry.status, entry.version, False)
            fresh = self._tables.post([event], event.execution_id, owner)
            if fresh:
                self._tables.note_mentioned(event)
                self._tables.write_variables(event.execution_id, variables)
            return Posted(entry.status, entry.version, bool(fresh))

    def post_all(self, events: Sequence[Event], owner: str | None = None) -> Mapping[int, Posted]:
        answers = {event.execution_id: self.post(event, owner) for event in events}
        return {found: posted for found, posted in answers.items() if posted.status is not None}

    def disown(self, events: Sequence[Event], owner: str | None = None) -> None:
        if owner:
            self.hand_over(owner, _NOTHING, Published(events=events))

    def steering(self, execution_ids: Sequence[int]) -> Mapping[int, Sequence[Steering]]:
        with self._lock:
            found = {one: self._tables.steering(one) for one in execution_ids}
        return {one: rows for one, rows in found.items() if rows}

    def hold(self, held: Sequence[Held | Start]) -> Sequence[Held | Start]:
        with self._lock:
            return recovery.hold(self._tables, held)

    def variables(self, execution_id: int) -> Sequence[Variable]:
        with self._lock:
            rows = self._tables.work[execution_id].variables
            return [rows[name] for name in sorted(rows)]

    def read_variable(self, execution_id: int, name: str) -> Variable | None:
        with self._lock:
            rows = self._tables.work[execution_id].variables
            if (row := rows.get(name)) is None:
                return None
            now = self._tables.clock()
            rows[name] = msgspec.structs.replace(row, access_count=row.access_count + 1, accessed_at=now)
            return rows[name]

    def hand_over(
        self, owner: str, published: Published, freed: Published = _NOTHING, heir: str = QUEUE
    ) -> None:
        with self._lock:
            recovery.hand_over(self._tables, owner, published, heir)
            recovery.hand_over(self._tables, owner, freed, None)

    def forget_keys(self, older_than_seconds: float, limit: int = 1000) -> None:
        with self._lock:
            limit_at = self._tables.clock() - older_than_seconds
            old = [key for key, (_, _, at) in self._tables.keys.items() if at < limit_at]
            for key in old[:limit]:
                del self._tables.keys[key]

    def record_superseded(
        self, rows: Sequence[tuple[int, EventRow]], handled: Sequence[tuple[int, str]] = ()
    ) -> None:
        with self._lock:
            for key in handled:
                self._tables.outbox.pop(key, None)
            for execution_id, row in rows:
                entry = self._tables.executions.get(execution_id)
                if entry is None or entry.leaving:
                    continue
                self._tables.record(execution_id, row, lane=SUPERSEDED_LANE)

    def loop_progress(self, execution_id: int, runs: Sequence[int] | None = None) -> Sequence[LoopProgress]:
        with self._lock:
            loops = self._tables.work[execution_id].loops
            return [
                LoopProgress(
                    run=run,
                    round=round_,
                    step=loop.row.step,
                    total=loop.row.total,
                    issued=loop.issued,
                    done=loop.done,
                    failed=loop.failed,
                    size=loop.size,
                    patched=loop.patched,
                    gate=loop.gate,
                )
                for (run, round_), loop in sorted(loops.items())
                if runs is None or run in runs
            ]

    def loop_run(self, execution_id: int, run: int, round_: int) -> LoopRow | None:
        with self._lock:
            return getattr(self._tables.work[execution_id].loops.get((run, round_)), "row", None)

    def loop_items(
        self, execution_id: int, run: int, round_: int, start: int, limit: int
    ) -> Sequence[ItemRow]:
        with self._lock:
            return [
                ItemRow(row.seq, row.facts)
                for row in self._lane(execution_id, run)
                if row.seq >= start and row.event_id == ids.item_event(run, round_, row.seq)
            ][:limit]

    def heartbeat(self, owner: str, lease_seconds: float) -> bool:
        with self._lock:
            now = self._tables.clock()
            over = self._tables.leases.get(owner, now + 1) <= now
            self._tables.leases[owner] = now + lease_seconds
            return over

    def release(self, owner: str) -> None:
        with self._lock:
            recovery.release(self._tables, owner)

    def record_lost(self, commands: Sequence[recovery.Turn]) -> None:
        with self._lock:
            recovery.record_lost(self._tables, commands)

    def claim(
        self, owner: str, limit: int, offer: Offer | None = None, *, lost: bool = True
    ) -> list[Command]:
        with self._lock:
            return recovery.claim(self._tables, owner, limit, offer, lost=lost)

    def undelivered(self, owner: str, limit: int) -> Sequence[Event]:
        with self._lock:
            return recovery.undelivered(self._tables, owner, limit)

    def due_timers(self, owner: str, limit: int) -> tuple[Sequence[Event], float | None]:
        with self._lock:
            return recovery.due_timers(self._tables, owner, limit)

    def are_related(self, one: int, other: int) -> bool:
        with self._lock:
            root = root_of(self._tables, one)
            return root is not None and root is root_of(self._tables, other)

    def events(self, execution_id: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        return self._page(execution_id, 0, after, limit)

    def item_events(
        self, execution_id: int, lane: int, *, after: int = -1, limit: int = 1000
    ) -> Sequence[StoredEvent]:
        return self._page(execution_id, lane, after, limit)

    def events_before(self, execution_id: int, before: int, limit: int) -> Sequence[StoredEvent]:
        with self._lock:
            rows = [row for row in self._lane(execution_id, 0) if row.seq < before]
        return rows[::-1][:limit]

    def step_events(self, execution_id: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        with self._lock:
            rows = [row for row in self._lane(execution_id, 0) if row.seq > after]
        return [row for row in rows if not _OF_ITEM.match(row.event_id)][:limit]

    def _page(self, execution_id: int, lane: int, after: int, limit: int) -> list[StoredEvent]:
        """Return at most ``limit`` rows, and the further rows of the last one's place.

        So a cursor never skips any.
        """
        with self._lock:
            rows = [row for row in self._lane(execution_id, lane) if row.seq > after]
        page = rows[:limit]
        page += [row for row in rows[limit:] if page and row.seq == page[-1].seq]
        return page

    def _lane(self, execution_id: int, lane: int) -> list[StoredEvent]:
        history = self._tables.work[execution_id].history.values()
        return sorted((row for row in history if row.lane == lane), key=PLACE)

    def find_events(self, execution_id: int, event_ids: Sequence[str]) -> Sequence[FoundEvent]:
        with self._lock:
            history, outbox = self._tables.work[execution_id].history, self._tables.outbox
            rows = [history[one] for one in event_ids if one in history and history[one].lane >= 0]
            posted = [outbox[execution_id, one] for one in event_ids if (execution_id, one) in outbox]
            now = self._tables.clock()
        return [
            *(FoundEvent(row.at, facts=row.facts) for row in rows),
            *(FoundEvent(now, event=entry.payload) for entry in posted),
        ]

    def start_of(self, execution_id: int) -> Start | None:
        with self._lock:
            row = self._tables.start_of(execution_id)
        start = decode_event(row.payload) if row is not None else None
        return start if isinstance(start, Start) else None

    def failed_items(
        self, execution_id: int, run: int, limit: int, *, after: int = -1
    ) -> Sequence[StoredEvent]:
        with self._lock:
            rows = self._lane(execution_id, run)
            return [row for row in rows if row.type == "call.error" and row.seq > after][:limit]

    def item_work(self, execution_id: int, limit: int) -> Sequence[ItemWork]:
        with self._lock:
            history = self._tables.work[execution_id].history.values()
            rows = [row for row in history if row.lane > 0 and row.event_id.startswith("item:")]
        found: list[ItemWork] = []
        for run, items in groupby(sorted(rows, key=PLACE)[:limit], key=attrgetter("lane")):
            read, ended, calls, ms = 0, 0, 0, 0.0
            for _, turns in groupby(items, key=attrgetter("seq")):
                before = 0
                for row in sorted(turns, key=_ends_item):
                    final = _ends_item(row)
                    made, took = work_of(codec.decode(row.facts), final=final, before=before)
                    before += made
                    read, ended, calls, ms = read + 1, ended + final, calls + made, ms + took
            found.append(ItemWork(run, read, ended, calls, ms))
        return found

    def left_steps(self, execution_id: int, names: Sequence[str]) -> Collection[str]:
        with self._lock:
            slots = self._tables.work[execution_id].slots
            return {name for name in names if ("step", name) in slots}

    def status_counts(self, limit: int) -> Mapping[str, int]:
        with self._lock:
            newest = sorted(self._tables.executions, reverse=True)[:limit]
            return dict(Counter(self._tables.executions[one].status for one in newest))

    def open_work(self, execution_id: int) -> Mapping[str, int]:
        with self._lock:
            return recovery.open_work(self._tables, execution_id)

    def every_item(self, execution_id: int) -> Iterator[StoredEvent]:
        with self._lock:
            history = list(self._tables.work[execution_id].history.values())
        yield from sorted((row for row in history if row.lane > 0), key=PLACE)
