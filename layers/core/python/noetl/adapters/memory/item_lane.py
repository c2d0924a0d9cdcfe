"""The item lane's write: items count themselves under their loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from noetl.adapters.loops import (
    CountedRow,
    completed,
    counted_rows,
    loop_alert,
    refill,
    resumed_item,
    stripped,
)
from noetl.adapters.memory.limits import settle
from noetl.adapters.memory.tables import CommandEntry, LoopEntry, Tables, Work, loop_of
from noetl.domain import codec, ids
from noetl.domain.callbacks import item_of
from noetl.domain.commands import Command
from noetl.domain.events import Event, ItemAwaits, Start
from noetl.ports.executions.execution_store import Committed, ExecutionIdTakenError, ItemBatch, ItemsCommitted

EARLY = -1
"""Count of a batch that has to wait for an earlier one."""
PAUSED = -2
"""Count of a batch whose execution is paused."""


def commit_items(
    tables: Tables, batches: Sequence[ItemBatch], owner: str | None
) -> tuple[list[ItemsCommitted], Committed]:
    """Fence and count each batch; then refill and end each loop once.

    Raises ExecutionIdTakenError before anything is written.
    """
    if taken := tables.taken(event for batch in batches for event in batch.outbox):
        raise ExecutionIdTakenError(children=taken)
    commands: list[Command] = []
    events: list[Event] = []
    counts = [_count(tables, batch, owner, commands, events) for batch in batches]
    for batch in batches:
        tables.note_results(batch.event.execution_id, batch.kept, batch.reaches)
    touched: dict[tuple[int, int, int], tuple[int, set[str]]] = {}
    for batch, counted in zip(batches, counts, strict=True):
        if counted is not None and counted >= 0:
            event = batch.event
            key = (event.execution_id, event.run, event.round)
            chunk, closed = touched.get(key, (1, set()))
            gone = {event.command_id} - tables.work[event.execution_id].commands.keys()
            touched[key] = (max(chunk, batch.chunk), closed | gone)
    for (execution_id, run, round_), (chunk, closed) in sorted(touched.items()):
        loop = tables.work[execution_id].loops[run, round_]
        loop.take_back()
        commands += _refill(tables, execution_id, loop, chunk, len(closed), owner)
        events += tables.finish_loop(execution_id, loop, owner)
    limited = sorted({batch.event.execution_id for batch in batches if batch.limited})
    if limited:
        given = settle(tables, limited, (), owner, _moved(batches))
        commands = given.given_out(commands)
        events += given.events
    answers = [_answer(tables, batch, counted) for batch, counted in zip(batches, counts, strict=True)]
    return answers, Committed(tuple(commands), tuple(events)) if owner is not None else Committed()


def _moved(batches: Sequence[ItemBatch]) -> list[tuple[int, str, str]]:
    """Return the moves of slots to the items that continue alone.

    They have the slots of the command they left.
    """
    return [
        (one.execution_id, batch.event.command_id, one.command_id)
        for batch in batches
        if batch.limited
        for one in (*batch.resumed, *batch.waiting)
        if one.command_id != batch.event.command_id
    ]


def _answer(tables: Tables, batch: ItemBatch, counted: int | None) -> ItemsCommitted:
    loop = loop_of(tables, batch)
    if counted == PAUSED:
        return ItemsCommitted(False, paused=True)
    if counted is None or loop is None:
        return ItemsCommitted(superseded=True)
    if counted == EARLY:
        return ItemsCommitted(False, 0, loop.done, loop.failed, loop.row.total, early=True)
    return ItemsCommitted(False, counted, loop.done, loop.failed, loop.row.total)


def _count(
    tables: Tables, batch: ItemBatch, owner: str | None, commands: list[Command], events: list[Event]
) -> int | None:
    """Return rows, counters and continuations of one batch.

    None: its fence is gone. EARLY: it has to wait for others. PAUSED: its execution is paused.
    """
    event = batch.event
    execution = tables.executions.get(event.execution_id)
    if execution is not None and execution.status == "paused":
        return PAUSED
    work = tables.work[event.execution_id]
    entry = work.commands.get(event.command_id)
    loop = loop_of(tables, batch)
    if entry is None or loop is None or (entry.attempt, entry.turn) != (event.attempt, event.turn):
        return None
    new = {part.row.event_id: part for part in counted_rows(batch) if part.row.event_id not in work.history}
    decided = _decided(batch, work)
    fresh = [part for part in new.values() if not _decided_otherwise(batch, part, work, decided)]
    alone, rest = _continuations(batch, {part.row.seq for part in fresh})
    overtaken = rest is not None and rest[0].loop is not None and rest[0].loop.start in decided
    if overtaken:
        rest = None
    counts = [part for part in fresh if part.counts]
    if event.undone is not None and entry.left - len(counts) - len(alone) > event.undone:
        return EARLY
    for part in fresh:
        tables.record(event.execution_id, part.row, lane=event.run)
    for part in counts:
        loop.failed += part.failed
        loop.done += not part.failed
        loop.patched += part.patched
        loop.size += part.size
    entry.left = max(0, entry.left - len(counts) - len(alone))
    for index, (command, waiting) in alone.items():
        piece = (index, index + 1, 1, command.attempt)
        _continue(tables, batch, loop, command, waiting, piece, owner, commands)
    if rest is not None:
        command, waiting = rest
        start = min(command.loop.start if command.loop else entry.start, entry.stop)
        piece = (start, entry.stop, min(entry.left, entry.stop - start), entry.attempt)
        _continue(tables, batch, loop, command, waiting, piece, owner, commands)
    elif event.closed or (overtaken and not entry.left):
        loop.handed_back += entry.left
        del work.commands[event.command_id]
    elif overtaken:
        # The other run ends the command, or its next attempt, which passes over what is done.
        entry.owner = None
    repeated = {part.row.seq for part in counted_rows(batch)} - {part.row.seq for part in fresh}
    posted = [one for one in batch.outbox if _item_of(one) not in repeated | decided]
    events += tables.post(posted, event.execution_id, owner)
    if batch.alert and loop.gate == "open" and not loop.alerted:
        loop.alerted = True
        events += tables.post([loop_alert(batch, loop.row.step, loop.row.program)], event.execution_id, owner)
    return len(counts)


def _item_of(event: Event) -> int | None:
    """Return the item whose turn posts an event together with it, or not at all.

    For a repeat the engine may derive another execution id.
    """
    if isinstance(event, ItemAwaits):
        place = item_of(event.place)
        return None if place is None else place[1]
    return event.parent.index if isinstance(event, Start) and event.parent is not None else None


def _decided(batch: ItemBatch, work: Work) -> set[int]:
    """Return items that are to continue but have their final row, and so do not.

    Another run of their command was first.
    """
    event = batch.event
    going = (command.loop.start for command in (*batch.resumed, *batch.waiting) if command.loop is not None)
    return {index for index in going if ids.item_event(event.run, event.round, index) in work.history}


def _decided_otherwise(batch: ItemBatch, part: CountedRow, work: Work, decided: Collection[int]) -> bool:
    """Return whether another run of the same command reported another outcome first.

    The first row of an item decides: it is done, or it continues.
    """
    event, index = batch.event, part.row.seq
    if not part.counts:
        return index in decided
    alone = ids.item_command_id(event.run, event.round, index)
    return alone != event.command_id and alone in work.commands


def _continuations(
    batch: ItemBatch, fresh: Collection[int]
) -> tuple[dict[int, tuple[Command, bool]], tuple[Command, bool] | None]:
    """Return items that continue alone, and the next turn of the batch's own command.

    The items are by index, and only those whose row is new. Each comes with whether it waits.
    """
    alone: dict[int, tuple[Command, bool]] = {}
    rest: tuple[Command, bool] | None = None
    for waiting, group in ((False, batch.resumed), (True, batch.waiting)):
        for command in group:
            index = resumed_item(command, batch.event.command_id)
            if index is None:
                rest = command, waiting
            elif index in fresh:
                alone[index] = command, waiting
    return alone, rest


def _continue(
    tables: Tables,
    batch: ItemBatch,
    loop: LoopEntry,
    command: Command,
    waiting: bool,
    piece: tuple[int, int, int, int],
    owner: str | None,
    commands: list[Command],
) -> None:
    """Store the next turn of a chunk, or an item that continues alone.

    ``piece``: first index, end, items to answer for, attempt.
    """
    event = batch.event
    start, stop, left, attempt = piece
    whole = completed(command, loop.row, start, stop)
    whole = msgspec.structs.replace(whole, attempt=attempt)
    tables.add_command(
        CommandEntry(
            event.execution_id,
            command.command_id,
            event.run,
            payload=codec.encode(stripped(msgspec.structs.replace(whole, delay=0.0))),
            round=event.round,
            attempt=attempt,
            turn=command.turn,
            waiting=waiting,
            owner=None if waiting else owner,
            not_before=tables.clock() + command.delay,
            start=start,
            stop=stop,
            left=left,
            priority=loop.row.priority,
        )
    )
    if not waiting:
        commands.append(whole)


def _refill(
    tables: Tables, execution_id: int, loop: LoopEntry, chunk: int, closed: int, owner: str | None
) -> list[Command]:
    if loop.gate != "open" or loop.alerted:
        return []
    free = max(1, loop.row.window) - loop.in_flight
    ranges = refill(loop.cursor, loop.row.total, free, chunk, closed)
    return [tables.add_chunk(execution_id, loop, start, stop, owner) for start, stop in ranges]
