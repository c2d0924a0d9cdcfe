"""Parameters of ``noetl.commit_items`` from ItemBatches, and results from its answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from noetl.adapters.loops import (
    chunk_command,
    completed,
    counted_rows,
    ranges,
    resumed_item,
    stripped,
)
from noetl.adapters.postgres.connection import Row
from noetl.adapters.postgres.executions.command_rows import payload
from noetl.adapters.postgres.executions.outbox import outbox_parts
from noetl.adapters.postgres.executions.permits import Slots, integers, moved_parts, result_parts
from noetl.adapters.postgres.executions.unreadable_rows import RowReader
from noetl.adapters.postgres.literals import documents, flags, numbers, records, text, texts
from noetl.caching.lru_cache import LruCache
from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.ports.executions.execution_store import Committed, ItemBatch, ItemsCommitted, LoopRow

LoopKey = tuple[int, int, int]
"""(execution, run, round)."""
LOOPS = 256
"""Loops that a store remembers, when nothing else is said."""


class KnownLoops(LruCache[LoopKey, LoopRow]):
    """A cache of loops as they started (they never change).

    An entry may go at any time, because other calls add theirs. A call takes what it needs once, with ``of``.
    """

    def __init__(self, keep: int = LOOPS) -> None:
        super().__init__(keep)

    def of(self, keys: Iterable[LoopKey]) -> dict[LoopKey, LoopRow]:
        """Return those of ``keys`` that are cached, for the caller to keep."""
        return {key: loop for key in keys if (loop := self.get(key)) is not None}


class Counting:
    """One call of ``commit_items``: its parameters, and how to read the answer.

    The call keeps every loop it is about until it ends: it names to the store those it knows, and the answer brings the others.
    """

    def __init__(self, batches: Sequence[ItemBatch], owner: str | None, cache: KnownLoops) -> None:
        self._batches = batches
        self._owner = owner
        self._cache = cache
        self._loops: dict[LoopKey, LoopRow | None] = {**cache.of(map(_key, batches))}
        """None: its row cannot be read."""
        self._continued: list[tuple[ItemBatch, Command, bool]] = []

    def parameters(self) -> dict[str, bytes | None]:
        """Raises InvalidInputError for ids that Postgres cannot hold."""
        values: dict[str, bytes | None] = {"owner": text(self._owner or "")}
        sent = self._batches
        values["b_execution"] = numbers([batch.event.execution_id for batch in sent])
        values["b_run"] = numbers([batch.event.run for batch in sent])
        values["b_round"] = numbers([batch.event.round for batch in sent])
        values["b_command"] = texts([batch.event.command_id for batch in sent])
        values["b_attempt"] = numbers([batch.event.attempt for batch in sent])
        values["b_turn"] = numbers([batch.event.turn for batch in sent])
        values["b_wave"] = numbers(_waves(sent))
        values["b_closed"] = flags([batch.event.closed for batch in sent])
        values["b_undone"] = numbers([batch.event.undone for batch in sent])
        values["b_chunk"] = numbers([batch.chunk for batch in sent])
        values["b_alert"] = texts([batch.alert for batch in sent])
        values["b_alert_index"] = numbers([batch.alert_index for batch in sent])
        values["b_known"] = flags([_key(batch) in self._loops for batch in sent])
        _rows(sent, values)
        outbox = [(number, event) for number, batch in enumerate(sent, 1) for event in batch.outbox]
        values["o_batch"] = numbers([number for number, _ in outbox])
        values |= outbox_parts([event for _, event in outbox])
        values["continued"] = records(self._continuations(sent))
        if self.rare:
            values |= moved_parts(sent)
            values["results"] = result_parts(sent)
        return values

    @property
    def rare(self) -> bool:
        """Whether those who share keys, or results that live differently, are concerned."""
        return any(batch.limited or batch.kept or batch.reaches for batch in self._batches)

    def _continuations(self, sent: Sequence[ItemBatch]) -> list[dict[str, Any]]:
        found = []
        for number, batch in enumerate(sent, 1):
            for waiting, group in ((False, batch.resumed), (True, batch.waiting)):
                for command in group:
                    found.append(
                        {
                            "position": len(self._continued),
                            "batch": number,
                            "item": resumed_item(command, batch.event.command_id),
                            "id": command.command_id,
                            "attempt": command.attempt,
                            "turn": command.turn,
                            "waiting": waiting,
                            "delay": command.delay,
                            "start": command.loop.start if command.loop else 0,
                            "payload": payload(stripped(command)).decode(),
                            "remote": command.remote,
                        }
                    )
                    self._continued.append((batch, command, waiting))
        return found

    def answer(self, rows: list[Row], unread: RowReader) -> tuple[list[ItemsCommitted], Committed]:
        """Return the answer to each batch, and what is given out.

        ``unread``: collects rows that cannot be read.

        Raises KeyError for an answer about a loop that it does not bring along.
        """
        counted: dict[int, int] = {}
        early: dict[int, list[int]] = {}
        paused: set[int] = set()
        loops: dict[LoopKey, list[int]] = {}
        continued: dict[int, list[int]] = {}
        made: list[Event] = []
        posted: set[tuple[int, str]] | None = None
        repeated: set[int] = set()
        slots = Slots(unread)
        for row in rows:
            kind, execution, identity, counts, body, _, _ = row
            if slots.read(row):
                continue
            if kind == b"batch":
                number, items = integers(counts)
                counted[number] = items
            elif kind == b"early":
                number, *progress = integers(counts)
                early[number] = progress
            elif kind == b"paused":
                paused.update(integers(counts))
            elif kind == b"loop":
                found = integers(counts)
                key = (int(execution or b""), found[0], found[1])
                loops[key] = found
                if body is not None:
                    known = self._loops[key] = unread.loop(key[0], key[1], body)
                    if known is not None:
                        self._cache.put(key, known)
            elif kind == b"continued":
                position, *rest = integers(counts)
                continued[position] = rest
            elif kind == b"event":
                event = unread.event(int(execution or b""), (identity or b"").decode(), body or b"")
                made += [] if event is None else [event]
            elif kind == b"repeated":
                repeated.update(integers(counts))
            elif kind == b"partly":
                posted = set()
            elif posted is not None:
                posted.add((int(execution or b""), (identity or b"").decode()))
        answers = [
            ItemsCommitted(False, paused=True)
            if number in paused
            else _answered(batch, number, counted, early, loops)
            for number, batch in enumerate(self._batches, 1)
        ]
        if self._owner is None:
            return answers, Committed()
        numbered = [
            (number, event) for number, batch in enumerate(self._batches, 1) for event in batch.outbox
        ]
        outbox = [
            event
            for place, (number, event) in enumerate(numbered, 1)
            if number in counted
            and place not in repeated
            and (posted is None or (event.execution_id, event.event_id) in posted)
        ]
        commands = slots.given_out(self._resumed(continued, unread) + self._new_chunks(loops, unread))
        return answers, Committed(tuple(commands), tuple(outbox + made))

    def _resumed(self, continued: dict[int, list[int]], unread: RowReader) -> list[Command]:
        found = []
        for position, (attempt, first, past) in sorted(continued.items()):
            batch, command, waiting = self._continued[position]
            loop = self._loops[_key(batch)]
            if waiting:
                continue
            if loop is None:
                unread.commands.append((command.execution_id, command.command_id))
                continue
            whole = completed(command, loop, first, past)
            found.append(msgspec.structs.replace(whole, attempt=attempt))
        return found

    def _new_chunks(self, loops: dict[LoopKey, list[int]], unread: RowReader) -> list[Command]:
        found: list[Command] = []
        for key, (_, _, cursor, end, chunk, *_) in sorted(loops.items()):
            if cursor == end:
                continue
            loop = self._loops[key]
            for start, stop in ranges(cursor, end, chunk):
                if loop is None:
                    unread.commands.append((key[0], ids.chunk_id(key[1], key[2], start)))
                else:
                    found.append(chunk_command(key[0], loop, start, stop))
        return found


def _answered(
    batch: ItemBatch,
    number: int,
    counted: dict[int, int],
    early: dict[int, list[int]],
    loops: dict[LoopKey, list[int]],
) -> ItemsCommitted:
    if number in early:
        done, failed, total = early[number]
        return ItemsCommitted(False, 0, done, failed, total, early=True)
    if number not in counted:
        return ItemsCommitted(superseded=True)
    done, failed, total = loops[_key(batch)][5:8]
    return ItemsCommitted(False, counted[number], done, failed, total)


def _rows(sent: Sequence[ItemBatch], values: dict[str, bytes | None]) -> None:
    rows = [(number, part) for number, batch in enumerate(sent, 1) for part in counted_rows(batch)]
    values["e_batch"] = numbers([number for number, _ in rows])
    values["e_id"] = texts([part.row.event_id for _, part in rows])
    values["e_seq"] = numbers([part.row.seq for _, part in rows])
    values["e_type"] = texts([part.row.type for _, part in rows])
    values["e_facts"] = documents([part.row.facts for _, part in rows])
    values["e_at"] = numbers([part.row.at for _, part in rows])
    values["e_counts"] = flags([part.counts for _, part in rows])
    values["e_failed"] = flags([part.failed for _, part in rows])
    values["e_patched"] = flags([part.patched for _, part in rows])
    values["e_size"] = numbers([part.size for _, part in rows])


def _key(batch: ItemBatch) -> LoopKey:
    return batch.event.execution_id, batch.event.run, batch.event.round


def _waves(batches: Sequence[ItemBatch]) -> list[int]:
    """Number the batches of a command in this call: 1 for its first, 2 for its second, ….

    Each sees what the one before it did.
    """
    seen: dict[tuple[int, str], int] = {}
    waves = []
    for batch in batches:
        key = (batch.event.execution_id, batch.event.command_id)
        seen[key] = seen.get(key, 0) + 1
        waves.append(seen[key])
    return waves
