"""Recovery in memory: outstanding commands, events and timers without a live owner.

A process asks for them when it starts, and then periodically.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.adapters.loops import resume
from noetl.adapters.memory.limits import wake
from noetl.adapters.memory.tables import CommandEntry, OutboxEntry, Tables, TimerEntry
from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.events import CommandDone, Event, Held, ItemsDone, Start, TimerFired, decode_event
from noetl.domain.workers.lease_owners import HELD, leaseholder, offered
from noetl.domain.workers.lost_owners import ALONE_SECONDS, suspicious, wait_seconds
from noetl.ports.executions.execution_store import Offer, Published

Turn = tuple[int, str, int]
"""Execution, command, turn."""


def release(tables: Tables, owner: str) -> None:
    """Free the rows of an owner.

    Rows are freed one by one, so that what is not due yet stays free when the same owner comes back.
    """
    tables.leases.pop(owner, None)
    held: list[CommandEntry | TimerEntry | OutboxEntry] = [*tables.outbox.values()]
    for work in tables.work.values():
        held += [*work.commands.values(), *work.timers.values()]
    for entry in held:
        if entry.owner == owner:
            entry.owner = None


def hand_over(tables: Tables, owner: str, what: Published, heir: str | None) -> None:
    """Give what ``owner`` holds of it to ``heir``."""
    found: list[CommandEntry | TimerEntry | OutboxEntry | None] = [
        tables.outbox.get((event.execution_id, event.event_id)) for event in what.events
    ]
    found += [tables.work[one.execution_id].commands.get(one.command_id) for one in what.commands]
    found += [tables.work[execution_id].timers.get(name) for execution_id, name in what.timers]
    for entry in found:
        if entry is not None and entry.owner == owner:
            entry.owner = heir


def hold(tables: Tables, held: Sequence[Held | Start]) -> list[Held | Start]:
    refused: list[Held | Start] = []
    for one in held:
        entry = tables.executions.get(one.execution_id)
        if entry is None or entry.status != "paused":
            refused.append(one)
            continue
        if isinstance(one, Start):
            tables.post([one], one.execution_id, HELD)
            tables.outbox[one.execution_id, one.event_id].owner = HELD
            continue
        tables.outbox.pop((one.execution_id, one.event.event_id), None)
        tables.post([one], one.execution_id, HELD)
        tables.outbox[one.execution_id, one.event_id].owner = HELD
        event = one.event
        if isinstance(event, CommandDone) or (isinstance(event, ItemsDone) and event.last):
            command = tables.work[one.execution_id].commands.get(event.command_id)
            if command is not None and (command.attempt, command.turn) == (event.attempt, event.turn):
                command.owner = HELD
    return refused


def released(tables: Tables, execution_id: int, owner: str | None) -> list[Event]:
    """Hand events that were held for an execution to ``owner``, in the order of arrival."""
    rows = [row for row in tables.outbox.values() if row.execution_id == execution_id and row.owner == HELD]
    for row in rows:
        row.release(owner, tables.clock())
    return [decode_event(row.payload) for row in sorted(rows, key=lambda row: row.order)]


def open_work(tables: Tables, execution_id: int) -> dict[str, int]:
    """Counts of what is outstanding of an execution."""
    work = tables.work[execution_id]
    return {
        "commands": len(work.commands),
        "timers": len(work.timers),
        "outbox": sum(1 for key in tables.outbox if key[0] == execution_id),
        "lost": sum(1 for one in work.commands.values() if one.losses and not one.waiting),
    }


def record_lost(tables: Tables, commands: Sequence[Turn]) -> None:
    for execution_id, command_id, turn in commands:
        work = tables.work.get(execution_id)
        entry = None if work is None else work.commands.get(command_id)
        if entry is not None and entry.turn == turn and not entry.waiting:
            entry.lost, entry.lost_turn = entry.losses + 1, turn
            if wait := wait_seconds(entry.lost):
                entry.not_before = max(entry.not_before, tables.clock() + wait)


def claim(
    tables: Tables, owner: str, limit: int, offer: Offer | None = None, *, lost: bool = True
) -> list[Command]:
    now = tables.clock()
    every = [entry for work in tables.work.values() for entry in work.commands.values() if not entry.waiting]
    due = [
        entry
        for entry in every
        if entry.not_before <= now and _free(tables, entry, owner, offer)
        if tables.executions[entry.execution_id].status != "paused"
        if lost or entry.losses == 0 or offer is not None
    ]
    suspects = sorted(
        (one for one in due if offer is None and suspicious(one.losses)), key=lambda entry: entry.order
    )
    has_one = any(
        one.owner == owner and suspicious(one.losses) and one.not_before > now - ALONE_SECONDS
        for one in every
    )
    left_out = {id(one) for one in suspects[0 if has_one else 1 :]}
    due = sorted(
        (one for one in due if id(one) not in left_out), key=lambda entry: (-entry.priority, entry.order)
    )
    found = []
    for entry in sorted(due[:limit], key=lambda entry: entry.losses):
        entry.attempt += offer is None or entry.owner != offered(offer.pool)
        entry.owner = owner
        if entry.losses > 1:
            entry.not_before = now
        command = msgspec.structs.replace(tables.command(entry), lost=entry.losses)
        found.append(resume(command, *_recorded(tables, entry)))
    return found + (wake(tables, owner) if offer is None else [])


def _free(tables: Tables, entry: CommandEntry, asks: str, offer: Offer | None) -> bool:
    """Return whether a command is free for this claim.

    It has no live owner, or it is in the offer, or a worker that fell silent took it from there.
    """
    if offer is None:
        return entry.owner != asks and not tables.alive(entry.owner)
    if offer.only not in (None, (entry.execution_id, entry.command_id)):
        return False
    owner = entry.owner or ""
    lapsed = (leaseholder(owner) or ("",))[0] == offer.pool and not tables.alive(owner)
    return owner == offered(offer.pool) or lapsed


def _recorded(tables: Tables, entry: CommandEntry) -> tuple[list[tuple[int, bytes]], list[int]]:
    """Return what history knows about a chunk's items.

    These are the items that are done, with their outcomes, and those that were suspended.
    """
    if entry.round < 0:
        return [], []
    history = tables.work[entry.execution_id].history
    done, suspended = [], []
    for index in range(entry.start, entry.stop):
        stored = history.get(ids.item_event(entry.run, entry.round, index))
        if stored is not None:
            done.append((index, stored.facts))
        if ids.item_turn_event(entry.run, entry.round, index, 1) in history:
            suspended.append(index)
    return done, suspended


def undelivered(tables: Tables, owner: str, limit: int) -> list[Event]:
    """Rows whose event was applied already have no one to tell anything: they go."""
    found: list[Event] = []
    for key, entry in sorted(tables.outbox.items(), key=lambda item: item[1].order):
        if tables.alive(entry.owner):
            continue
        if entry.event_id in tables.work[entry.execution_id].history:
            del tables.outbox[key]
            continue
        if len(found) == limit:
            break
        entry.owner = owner
        found.append(decode_event(entry.payload))
    return found


def due_timers(tables: Tables, owner: str, limit: int) -> tuple[list[Event], float | None]:
    now = tables.clock()
    free = sorted(
        (timer.fire_at, execution_id, name, timer)
        for execution_id, work in tables.work.items()
        for name, timer in work.timers.items()
        if not tables.alive(timer.owner)
    )
    fired: list[Event] = []
    for fire_at, execution_id, name, timer in free:
        if fire_at > now or len(fired) == limit:
            return fired, max(0.0, fire_at - now)
        timer.owner = owner
        fired.append(
            TimerFired(
                execution_id=execution_id,
                event_id=ids.timer_event(name, timer.generation),
                program=tables.executions[execution_id].program,
                timer=name,
                generation=timer.generation,
            )
        )
    return fired, None
