"""Executions in Postgres.

Every method is one statement (``ask_again``: two): one round trip, one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from noetl.adapters.changes import one_change_each
from noetl.adapters.loops import resume
from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions import (
    ambiguous_commits,
    fact_rows,
    handover_params,
    polling,
    query_params,
    row_mappers,
    snapshots,
)
from noetl.adapters.postgres.executions.changes import Writing
from noetl.adapters.postgres.executions.figures import PostgresFigures
from noetl.adapters.postgres.executions.item_lane import LOOPS, Counting, KnownLoops
from noetl.adapters.postgres.executions.limit_store import creation
from noetl.adapters.postgres.executions.permits import LOOP, integers, whole_command
from noetl.adapters.postgres.executions.unreadable_rows import RowReader
from noetl.adapters.postgres.literals import documents, flag, number, numbers, records, text, texts, unname
from noetl.adapters.postgres.variables import variable_rows
from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.events import Cancel, Event, Held, Redrive, Start, TimerFired, decode_event, encode_event
from noetl.domain.ids import timer_event
from noetl.domain.labels import label_texts
from noetl.domain.state import Status
from noetl.domain.unreadable import demand
from noetl.domain.variables import VariableWrite
from noetl.domain.workers.lease_owners import QUEUE
from noetl.ports.executions.answers import EVERY, Steering
from noetl.ports.executions.execution_store import (
    Change,
    Committed,
    CreatedExecution,
    Creation,
    EventRow,
    ExecutionFilter,
    ExecutionInfo,
    FoundEvent,
    IdempotencyKey,
    ItemBatch,
    ItemRow,
    ItemsCommitted,
    Loaded,
    LoadRequest,
    LoopProgress,
    LoopRow,
    Offer,
    Poll,
    Posted,
    Published,
    StoredEvent,
    VersionConflictError,
)

MAX_ID = 2**63 - 1
_NOTHING = Published()


class PostgresExecutionStore(PostgresFigures):
    """``database``: a connection string, or a Database shared with other adapters.

    ``pooled``: behind RDS Proxy or pgbouncer (see Database). ``loops``: how many loops are remembered. Safe to use from several threads.
    """

    def __init__(self, database: str | Database, *, pooled: bool = False, loops: int = LOOPS) -> None:
        self.database = Database(database, pooled=pooled) if isinstance(database, str) else database
        self.fetched = frozenset[str]()
        self._loops = KnownLoops(loops)
        self._doubts = ambiguous_commits.AmbiguousCommits()

    def close(self) -> None:
        self.database.close()

    def load(self, requests: Sequence[LoadRequest]) -> Loaded:
        found = snapshots.loaded(self.database.run("load_executions", snapshots.parameters(requests)))
        self.fetched = found.fetched
        return found

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        if not changes:
            return Committed()
        writing = Writing(one_change_each(changes), owner)
        parameters = writing.parameters()
        doubtful = partial(ambiguous_commits.of_changes, changes, owner)
        with self._doubts.about(doubtful):
            answers = self.database.run("commit_limited" if writing.rare else "commit_changes", parameters)
        unread = RowReader()
        with self._doubts.reading(doubtful):
            committed = writing.committed(answers, unread)
        unread.set_aside(self.database, owner or "")
        for change in changes:
            for loop in change.loops:
                self._loops.put((change.execution_id, loop.run, loop.round), loop)
        return committed

    def commit_items(
        self, batches: Sequence[ItemBatch], owner: str | None = None
    ) -> tuple[Sequence[ItemsCommitted], Committed]:
        if not batches:
            return [], Committed()
        counting = Counting(batches, owner, self._loops)
        parameters = counting.parameters()
        doubtful = partial(ambiguous_commits.of_batches, batches, owner)
        with self._doubts.about(doubtful):
            answers = self.database.run(
                "commit_items_limited" if counting.rare else "commit_items", parameters
            )
        unread = RowReader()
        with self._doubts.reading(doubtful):
            answer = counting.answer(answers, unread)
        unread.set_aside(self.database, owner or "")
        return answer

    def ask_again(self, polls: Sequence[Poll], owner: str | None = None) -> Sequence[Command]:
        return polling.ask_again(self.database, polls, owner)

    def wake_early(self, commands: Sequence[tuple[int, str]], owner: str | None = None) -> Sequence[Command]:
        return polling.wake_early(self.database, commands, owner)

    def create(
        self,
        start: Start,
        created: CreatedExecution,
        owner: str | None = None,
        key: IdempotencyKey | None = None,
    ) -> Creation:
        values = {
            **creation(start, created, owner),
            "key": text(key.key if key else ""),
            "fingerprint": text(key.fingerprint if key else ""),
            "starts_at": None if created.starts_at is None else number(created.starts_at),
            "labels": texts(label_texts(created.labels)) if created.labels else None,
        }
        rows: list[Row] = []
        for _ in range(2 if key else 1):
            try:
                with self._doubts.about(partial(ambiguous_commits.of_start, start, created, owner)):
                    rows = self.database.run("create_execution", values)
            except VersionConflictError:
                break  # another transaction took this id just now, or the Start of a sub-execution waits under it
            if rows:
                break
        if not rows:
            return Creation(start.execution_id, fresh=False, taken=True)
        kind, execution, fingerprint = (column or b"" for column in rows[0])
        same = key is None or kind == b"fresh" or fingerprint.decode() == key.fingerprint
        return Creation(int(execution), fresh=kind == b"fresh", same=same)

    def keyed(self, key: IdempotencyKey) -> Creation | None:
        values = {"key": text(key.key), "fingerprint": text(key.fingerprint)}
        rows = self.database.run("keyed_execution", values)
        return Creation(int(rows[0][0] or 0), fresh=False, same=rows[0][1] == b"t") if rows else None

    def post(self, event: Event, owner: str | None = None, variables: Sequence[VariableWrite] = ()) -> Posted:
        values: dict[str, bytes | None] = {
            "execution_id": number(event.execution_id),
            "event_id": text(event.event_id),
            "owner": text(owner or ""),
            "payload": encode_event(event),
            "unborn": flag(isinstance(event, Cancel)),
            "over": flag(isinstance(event, Redrive)),
            "variables": records(variable_rows(event.execution_id, variables)),
            "held": query_params.held(event),
        }
        with self._doubts.about(partial(ambiguous_commits.of_events, [event], owner)):
            rows = self.database.run("post_event", values)
        if not rows:
            return Posted(None, 0, False)
        status, version, posted = (column or b"" for column in rows[0])
        return Posted(cast(Status, status.decode()), int(version), posted == b"t")

    def post_all(self, events: Sequence[Event], owner: str | None = None) -> Mapping[int, Posted]:
        found: dict[int, Posted] = {}
        with self._doubts.about(partial(ambiguous_commits.of_events, events, owner)):
            rows = self.database.run("post_events", query_params.posting(events, owner))
        for execution, status, version, posted in rows:
            known = cast(Status, (status or b"").decode())
            found[int(execution or b"")] = Posted(known, int(version or b""), posted == b"t")
        return found

    def disown(self, events: Sequence[Event], owner: str | None = None) -> None:
        self._doubts.add(ambiguous_commits.of_events(events, owner))

    def steering(self, execution_ids: Sequence[int]) -> Mapping[int, Sequence[Steering]]:
        found: dict[int, list[Steering]] = {}
        values = {"execution_ids": numbers(execution_ids)}
        for execution, event_id, pauses in self.database.run("steering_events", values):
            steered = Steering((event_id or b"").decode(), pauses == b"t")
            found.setdefault(int(execution or b""), []).append(steered)
        return found

    def hold(self, held: Sequence[Held | Start]) -> Sequence[Held | Start]:
        if not held:
            return []
        kept = {
            (int(execution or b""), (identity or b"").decode())
            for execution, identity in self.database.run("hold_events", snapshots.holding(held))
        }
        return [one for one in held if (one.execution_id, one.event_id) not in kept]

    def record_superseded(
        self, rows: Sequence[tuple[int, EventRow]], handled: Sequence[tuple[int, str]] = ()
    ) -> None:
        if not rows and not handled:
            return
        values: dict[str, bytes | None] = {
            "execution_ids": numbers([execution_id for execution_id, _ in rows]),
            "event_ids": texts([row.event_id for _, row in rows]),
            "seqs": numbers([row.seq for _, row in rows]),
            "types": texts([row.type for _, row in rows]),
            "facts": documents([row.facts for _, row in rows]),
            "ats": numbers([row.at for _, row in rows]),
            "handled_ids": numbers([execution_id for execution_id, _ in handled]),
            "handled": texts([event_id for _, event_id in handled]),
        }
        self.database.run("record_superseded", values)

    def loop_progress(self, execution_id: int, runs: Sequence[int] | None = None) -> Sequence[LoopProgress]:
        values: dict[str, bytes | None] = {"execution_id": number(execution_id)}
        if runs is None:
            return [row_mappers.progress(row) for row in self.database.run("loop_progress", values)]
        values["runs"] = numbers(runs)
        return [row_mappers.progress(row) for row in self.database.run("loop_progress_of_runs", values)]

    def loop_run(self, execution_id: int, run: int, round_: int) -> LoopRow | None:
        key = (execution_id, run, round_)
        found = self._loops.get(key)
        if found is None:
            values = {"execution_id": number(execution_id), "run": number(run), "round": number(round_)}
            for (body,) in self.database.run("loop_run", values):
                loop = f"the loop of run {run} of execution {execution_id}"
                found = demand(partial(codec.decode_as, LOOP, body or b""), loop)
                self._loops.put(key, found)
        return found

    def loop_items(
        self, execution_id: int, run: int, round_: int, start: int, limit: int
    ) -> Sequence[ItemRow]:
        values = {
            "execution_id": number(execution_id),
            "run": number(run),
            "round": number(round_),
            "start": number(start),
            "limit": number(limit),
        }
        return [
            ItemRow(int(seq or b""), facts or b"") for seq, facts in self.database.run("loop_items", values)
        ]

    # --- recovery ---

    def hand_over(
        self, owner: str, published: Published, freed: Published = _NOTHING, heir: str = QUEUE
    ) -> None:
        values = handover_params.heirs(owner, (published, heir), (freed, ""))
        self.database.run("hand_over", values)

    def forget_keys(self, older_than_seconds: float, limit: int = 1000) -> None:
        self.database.run("forget_keys", {"seconds": number(older_than_seconds), "limit": number(limit)})

    def heartbeat(self, owner: str, lease_seconds: float) -> bool:
        rows = self.database.run("heartbeat", {"owner": text(owner), "seconds": number(lease_seconds)})
        return rows[0][0] == b"t"

    def release(self, owner: str) -> None:
        self.database.run("release", {"owner": text(owner)})

    def record_lost(self, commands: Sequence[tuple[int, str, int]]) -> None:
        if commands:
            self.database.run("record_lost", handover_params.lost(commands))

    def claim(
        self, owner: str, limit: int, offer: Offer | None = None, *, lost: bool = True
    ) -> Sequence[Command]:
        self._settle_doubts(owner)
        params = {
            "owner": text(owner),
            "limit": number(limit),
            **handover_params.offer(offer),
            **handover_params.trust(lost),
        }
        unread = RowReader()
        found = [
            unread.command(int(row[0] or b""), (row[1] or b"").decode(), partial(self._claimed, row))
            for row in self.database.run("claim_commands", params)
        ]
        unread.set_aside(self.database, owner)
        return [command for command in found if command is not None]

    def _settle_doubts(self, owner: str) -> None:
        """Free what an unanswered commit may have leased to ``owner``.

        It is a second round trip, after a lost connection only.
        """
        open_doubts = self._doubts.of(owner)
        if not open_doubts:
            return
        age = self._doubts.age(open_doubts)
        values: dict[str, bytes | None] = {
            "owner": text(owner),
            "execution_ids": numbers([doubt.execution_id for doubt in open_doubts]),
            "runs": numbers([doubt.run for doubt in open_doubts]),
            "seconds": None if age is None else number(age),
        }
        self.database.run("free_doubtful", values)
        self._doubts.settle(open_doubts)

    def _claimed(self, row: Row) -> Command:
        execution, _, counts, body, child, loop, done, outcomes, suspended = row
        command = whole_command(int(execution or b""), integers(counts), body, child, loop)
        encoded = [codec.encode(outcome) for outcome in codec.decode(outcomes or b"[]")]
        return resume(command, list(zip(integers(done), encoded, strict=True)), integers(suspended))

    def undelivered(self, owner: str, limit: int) -> Sequence[Event]:
        self._settle_doubts(owner)
        rows = self.database.run("claim_outbox", {"owner": text(owner), "limit": number(limit)})
        unread = RowReader()
        found = [
            unread.event(int(execution or b""), (identity or b"").decode(), payload)
            for _, payload, execution, identity in rows
            if payload is not None
        ]
        unread.set_aside(self.database, owner)
        return [event for event in found if event is not None]

    def due_timers(self, owner: str, limit: int) -> tuple[Sequence[Event], float | None]:
        rows = self.database.run("due_timers", {"owner": text(owner), "limit": number(limit)})
        fired: list[Event] = []
        wait: float | None = None
        for execution, timer, generation, program, seconds in rows:
            wait = None if seconds is None else float(seconds)
            if timer is None:
                continue
            name, count = timer.decode(), int(generation or b"")
            fired.append(
                TimerFired(
                    execution_id=int(execution or b""),
                    event_id=timer_event(name, count),
                    program=(program or b"").decode(),
                    timer=name,
                    generation=count,
                )
            )
        return fired, wait

    # --- reading ---

    def are_related(self, one: int, other: int) -> bool:
        return self.database.run("are_related", {"one": number(one), "other": number(other)})[0][0] == b"t"

    def info(self, execution_id: int) -> ExecutionInfo | None:
        rows = self.database.run("execution_info", {"execution_id": number(execution_id)})
        return row_mappers.info(rows[0]) if rows else None

    def executions(
        self,
        *,
        limit: int,
        before: int | None = None,
        status: str | None = None,
        wanted: ExecutionFilter = EVERY,
    ) -> Sequence[ExecutionInfo]:
        values = query_params.listing(limit, before, status, wanted)
        query = query_params.listing_query(status, wanted)
        return [row_mappers.info(row) for row in self.database.run(query, values)]

    def events(self, execution_id: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        values = {"execution_id": number(execution_id), "after": number(after), "limit": number(limit)}
        return [row_mappers.event(row) for row in self.database.run("main_events", values)]

    def item_events(
        self, execution_id: int, lane: int, *, after: int = -1, limit: int = 1000
    ) -> Sequence[StoredEvent]:
        """Return at most ``limit`` rows, and the further rows of the last one's place.

        So a cursor never skips any.
        """
        lane_of = {"execution_id": number(execution_id), "lane": number(lane)}
        values = {**lane_of, "after": number(after), "limit": number(limit)}
        return [row_mappers.event(row) for row in self.database.run("lane_events", values)]

    def every_item(self, execution_id: int) -> Iterator[StoredEvent]:
        place: tuple[int, int, str] = (0, 0, "")
        while True:
            values = {
                "execution_id": number(execution_id),
                "lane": number(place[0]),
                "seq": number(place[1]),
                "event_id": text(place[2]),
                "limit": b"1000",
            }
            page = [row_mappers.event(row) for row in self.database.run("every_item", values)]
            yield from page
            if len(page) < 1000:
                return
            place = (page[-1].lane, page[-1].seq, page[-1].event_id)

    def slots(self, execution_id: int) -> Mapping[tuple[str, str], Any]:
        rows = self.database.run("execution_slots", {"execution_id": number(execution_id)})
        return {
            (unname((scope or b"").decode()), unname((slot or b"").decode())): codec.decode(value or b"")
            for scope, slot, value in rows
        }

    def find_events(self, execution_id: int, event_ids: Sequence[str]) -> Sequence[FoundEvent]:
        values = {"execution_id": number(execution_id), "event_ids": texts(event_ids)}
        return [
            FoundEvent(float(at or b""), facts=facts and fact_rows.plain(facts), event=event)
            for at, facts, event in self.database.run("find_events", values)
        ]

    def start_of(self, execution_id: int) -> Start | None:
        for (payload,) in self.database.run("start_of", {"execution_id": number(execution_id)}):
            start = demand(partial(decode_event, payload or b""), f"the Start of execution {execution_id}")
            return start if isinstance(start, Start) else None
        return None
