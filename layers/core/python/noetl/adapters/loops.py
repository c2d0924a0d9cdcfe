"""Loop commands as every store makes them.

A command row says which items, the loop's row says the rest.

A chunk carries no payload of its own in a store: collection, scope and settings are kept once, in the loop's row, and are put
back when the command is given out. A collection in the result store is not touched here: the worker reads the elements it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.domain import codec, ids
from noetl.domain.commands import Command, FrozenScope, LoopSlice
from noetl.domain.events import LoopAlert, LoopDone
from noetl.domain.loop_resume import Places
from noetl.domain.outcomes.outcomes import Outcome, Patch
from noetl.domain.patches.scope_patches import combine
from noetl.ports.executions.execution_store import Change, EventRow, ItemBatch, LoopRow

OUTCOME = codec.decoder(Outcome)


def is_given_up(change: Change, loop: LoopRow) -> bool:
    """Return whether a loop is over in the commit that begins it.

    Then its row is stored closed and none of its commands is issued. The row has to exist because history mentions the loop, and a
    redrive continues from it.
    """
    return change.end or loop.run in change.drop_runs


def first_chunks(loop: LoopRow) -> list[tuple[int, int]]:
    """Return the ranges of a new loop's first commands.

    They are everything at once when sequential, else one item each, ``first`` of them within the window.
    """
    if loop.mode == "sequential":
        return [(0, loop.total)] if loop.total else []
    return [(index, index + 1) for index in range(min(loop.total, max(1, loop.window), max(1, loop.first)))]


def refill(cursor: int, total: int, free: int, chunk: int, closed: int) -> list[tuple[int, int]]:
    """Return the ranges of the commands that follow ``closed`` ones.

    They have at most ``chunk`` items each, from ``cursor`` on, within ``free`` places. Each closed command is followed by one, as long as
    there are items: with fewer commands than places, items of one wait for each other.
    """
    step = max(1, chunk)
    stop = min(total, cursor + max(0, min(free, closed * step)))
    return ranges(cursor, stop, min(step, -(-(stop - cursor) // max(1, closed))))


def ranges(first: int, past: int, size: int) -> list[tuple[int, int]]:
    """Divide items into ranges of one size; the last one may be smaller."""
    step = max(1, size)
    return [(start, min(start + step, past)) for start in range(first, past, step)]


def chunk_command(execution_id: int, loop: LoopRow, start: int, stop: int, attempt: int = 1) -> Command:
    """The command that carries items ``start <= i < stop``."""
    return Command(
        execution_id=execution_id,
        command_id=ids.chunk_id(loop.run, loop.round, start),
        run=loop.run,
        step=loop.step,
        program=loop.program,
        pool=loop.pool,
        attempt=attempt,
        scope=loop.scope,
        loop=_slice(loop, start, stop),
        overlay=loop.overlay,
        priority=loop.priority,
    )


def _slice(loop: LoopRow, start: int, stop: int) -> LoopSlice:
    places = Places(loop.picked)
    piece = LoopSlice(
        round=loop.round,
        start=start,
        stop=stop,
        total=loop.total,
        iterator=loop.iterator,
        mode=loop.mode,
        fail_fast=loop.fail_fast,
        iterator_vars=loop.iterator_vars,
        parent=loop.parent,
        whole=loop.whole,
    )
    if loop.items is None:
        called = () if loop.again is None else places.ranges(start, stop)
        return msgspec.structs.replace(piece, source=_where(loop.items_ref), called=called)
    if loop.again is None:
        return msgspec.structs.replace(piece, items=loop.items[start:stop])
    indexes = tuple(places.index(place) for place in range(start, stop))
    return msgspec.structs.replace(piece, items=[loop.items[index] for index in indexes], indexes=indexes)


def _where(ref: dict[str, Any] | None) -> dict[str, Any]:
    """Of a reference what reading takes."""
    assert ref is not None
    return {name: ref[name] for name in ("ref", "sha256", "store", "meta") if name in ref}


def stripped(command: Command) -> Command:
    """A loop command without what its loop's row holds anyway."""
    if command.loop is None:
        return command
    bare = msgspec.structs.replace(
        command.loop, items=[], skip=(), parent=None, indexes=(), source=None, called=()
    )
    return msgspec.structs.replace(command, scope=FrozenScope(), loop=bare)


def completed(command: Command, loop: LoopRow, start: int, stop: int) -> Command:
    """A stored or half-known loop command with everything that its loop's row says.

    What is the command's own stays: id, attempt, turn, machine, child, overlay, delay.
    """
    own = command.loop
    filled = _slice(loop, start, stop)
    if own is not None and own.skip:
        filled = msgspec.structs.replace(filled, skip=own.skip)
    return msgspec.structs.replace(
        command,
        step=loop.step,
        program=loop.program,
        pool=loop.pool,
        scope=loop.scope,
        loop=filled,
        priority=loop.priority,
    )


def resume(command: Command, done: Sequence[tuple[int, bytes]], suspended: Sequence[int] = ()) -> Command:
    """Return a loop command as it is given out again.

    Finished items are skipped; in a sequential loop the later ones see their writes.
    When the suspended item is finished by now, the state it was to continue with is left out: no other item continues with that.

    ``done``: (index, encoded Outcome) of its finished items, in index order. ``suspended``: items of which a turn is recorded; those of a
    parallel chunk continued in commands of their own.
    """
    piece = command.loop
    if piece is None:
        return command
    skip = {index for index, _ in done}
    overlay = command.overlay
    if piece.mode == "sequential":
        patches: list[Patch] = list(overlay)
        for _, outcome in done:
            patches.extend(codec.decode_as(OUTCOME, outcome).patches)
        overlay = combine(patches) if done else overlay
    elif command.command_id != ids.item_command_id(command.run, piece.round, piece.start):
        skip.update(suspended)
    if not skip:
        return command
    piece = msgspec.structs.replace(piece, skip=tuple(sorted(skip)))
    if piece.continued is None:
        command = msgspec.structs.replace(command, machine=None, child=None, remote=False)
    return msgspec.structs.replace(command, loop=piece, overlay=overlay)


class CountedRow(msgspec.Struct, frozen=True):
    """A row of an ItemBatch with what it adds to the loop's counters if it is new.

    ``counts``: it is an item's outcome (rows of suspended turns count nothing).
    """

    row: EventRow
    counts: bool
    failed: bool
    patched: bool
    size: int


def counted_rows(batch: ItemBatch) -> list[CountedRow]:
    """Split the batch's totals over its rows.

    So rows that were stored before can be left out of the count.
    """
    event = batch.event
    outcomes = {item.index: item.outcome for item in event.items}
    weights = [len(row.facts) for row in batch.rows]
    weight = sum(weights) or 1
    found: list[CountedRow] = []
    left = batch.size
    for position, row in enumerate(batch.rows):
        share = left if position == len(batch.rows) - 1 else batch.size * weights[position] // weight
        left -= share
        outcome = outcomes.get(row.seq)
        counts = row.event_id == ids.item_event(event.run, event.round, row.seq)
        failed = counts and outcome is not None and outcome.status == "error"
        patched = counts and outcome is not None and bool(outcome.patches)
        found.append(CountedRow(row, counts, failed, patched, share if counts else 0))
    return found


def resumed_item(command: Command, chunk_id: str) -> int | None:
    """Return the item that continues alone in ``command``; None: it is the rest of the chunk."""
    if command.command_id == chunk_id or command.loop is None:
        return None
    return command.loop.start


def loop_done(execution_id: int, run: int, round_: int, step: str, program: str) -> LoopDone:
    return LoopDone(
        execution_id=execution_id,
        event_id=ids.loop_done_event(run, round_),
        program=program,
        run=run,
        round=round_,
        step=step,
    )


def loop_alert(batch: ItemBatch, step: str, program: str) -> LoopAlert:
    event = batch.event
    return LoopAlert(
        execution_id=event.execution_id,
        event_id=ids.loop_alert_event(event.run, event.round),
        program=program,
        run=event.run,
        round=event.round,
        step=step,
        index=batch.alert_index,
        cause="next" if batch.alert == "next" else "failed",
    )
