"""Slots and moments of keys in memory, as in sql/functions/50_limits.sql.

The order and the answers are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from noetl.adapters.memory.tables import CommandEntry, ExecutionEntry, KeyEntry, Tables, Use
from noetl.domain.commands import Command
from noetl.domain.events import Cancel, Event, Start, decode_event
from noetl.domain.limits import WHOLE, Admission, Admitted, Limit, Numbers, reserve
from noetl.domain.workers.lease_owners import HELD
from noetl.ports.executions.execution_store import (
    CreatedExecution,
    ExecutionIdTakenError,
    VersionConflictError,
)

Key = tuple[int, str]
"""(execution, command)."""


@dataclass(slots=True)
class Grants:
    """The result of granting slots.

    Commands that were issued just now and have to wait, moments of those that are for later, and commands and starts that waited until
    now.
    """

    waits: set[Key] = field(default_factory=set)
    delays: dict[Key, float] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def given_out(self, issued: Iterable[Command]) -> list[Command]:
        found = []
        for command in issued:
            key = (command.execution_id, command.command_id)
            if key not in self.waits:
                delay = self.delays.get(key)
                found.append(command if delay is None else msgspec.structs.replace(command, delay=delay))
        return found + self.commands


def settle(
    tables: Tables,
    executions: Sequence[int],
    wanted: Iterable[Command],
    owner: str | None,
    moved: Iterable[tuple[int, str, str]] = (),
) -> Grants:
    """After a commit: what came free, and what is asked for, of ``executions``.

    ``moved``: (execution, command, its heir).
    """
    for execution_id, before, heir in moved:
        commands = tables.work[execution_id].commands
        uses_limit = (execution_id, heir) in tables.uses
        if (
            (before not in commands or not commands[before].left)
            and heir in commands
            and (execution_id, before) in tables.uses
            and not uses_limit
        ):
            tables.uses[execution_id, heir] = tables.uses.pop((execution_id, before))
    keys = forget(tables, executions)
    fresh = _request(tables, [*_commands(tables, wanted), *_of_loops(tables, executions)])
    keys |= {use.limit.key for key in fresh for use in tables.uses[key]}
    # They may have been resumed just now.
    keys |= {
        use.limit.key
        for key, uses in tables.uses.items()
        if key[0] in executions
        for use in uses
        if use.queued
    }
    return give(tables, keys, fresh, owner, owner)


def forget(tables: Tables, executions: Iterable[int]) -> set[str]:
    """Drop what belongs to commands that are gone, and to executions that are over.

    The keys they had.
    """
    wanted, keys = set(executions), set()
    for key in [key for key in tables.uses if key[0] in wanted]:
        execution_id, command_id = key
        entry = tables.executions.get(execution_id)
        over = entry is not None and entry.over
        if over if command_id == WHOLE else command_id not in tables.work[execution_id].commands:
            uses = tables.uses.pop(key)
            keys |= {use.limit.key for use in uses}
            start = tables.start_of(execution_id)
            if command_id == WHOLE and not uses[0].held and start is not None and start.owner == HELD:
                del tables.outbox[execution_id, start.event_id]
    return keys


def _commands(
    tables: Tables, wanted: Iterable[Command]
) -> list[tuple[CommandEntry, tuple[Limit, ...], int, str]]:
    return [
        (tables.work[one.execution_id].commands[one.command_id], one.limits, one.priority, one.step)
        for one in wanted
        if one.limits and one.turn == 0 and one.command_id in tables.work[one.execution_id].commands
    ]


def _of_loops(
    tables: Tables, executions: Iterable[int]
) -> list[tuple[CommandEntry, tuple[Limit, ...], int, str]]:
    found = []
    for execution_id in sorted(set(executions)):
        work = tables.work[execution_id]
        for entry in work.commands.values():
            loop = work.loops.get((entry.run, entry.round))
            asks = entry.left and (execution_id, entry.command_id) not in tables.uses
            if loop is not None and loop.row.limits and asks:
                found.append((entry, loop.row.limits, loop.row.priority, loop.row.step))
    return sorted(found, key=lambda one: one[0].order)


def _request(tables: Tables, wanted: Sequence[tuple[CommandEntry, tuple[Limit, ...], int, str]]) -> list[Key]:
    fresh = []
    for entry, limits, priority, step in wanted:
        key = (entry.execution_id, entry.command_id)
        if key in tables.uses:
            continue
        tables.uses[key] = [
            Use(limit, priority, tables.next_order(), tables.clock(), queued=place == 0, step=step)
            for place, limit in enumerate(sorted(limits, key=lambda limit: limit.key))
        ]
        for limit in limits:
            note_key(tables, limit)
        fresh.append(key)
    return fresh


def note_key(tables: Tables, limit: Limit) -> None:
    """Remember what was asked for, unless an operator has said otherwise."""
    numbers = Numbers(limit.concurrent, limit.rate, limit.per, limit.burst)
    known = tables.limits.get(limit.key)
    if known is None:
        tables.limits[limit.key] = KeyEntry(numbers, declared=True)
    elif known.declared:
        known.numbers = numbers


def numbers_of(tables: Tables, limit: Limit) -> Numbers:
    """What holds for a use: the operator's numbers, else its own."""
    known = tables.limits.get(limit.key)
    if known is not None and not known.declared:
        return known.numbers
    return Numbers(limit.concurrent, limit.rate, limit.per, limit.burst)


def _full(tables: Tables, limit: Limit) -> bool:
    most = numbers_of(tables, limit).concurrent
    return most is not None and sum(use.held for use in tables.of_key(limit.key)) >= most


def give(
    tables: Tables, keys: Iterable[str], fresh: Sequence[Key], owner: str | None, starts: str | None
) -> Grants:
    """Grant free slots of ``keys``: the highest priority first, then the oldest.

    ``starts``: the owner of the starts of executions afterwards.
    """
    got: list[Key] = []
    for key in fresh:
        uses = tables.uses[key]
        if all(numbers_of(tables, use.limit).concurrent is None for use in uses):
            _take(tables, key)
            got.append(key)
    for name in sorted(set(keys)):
        while (head := _head(tables, name)) is not None:
            use = next(use for use in tables.uses[head] if use.limit.key == name)
            if _full(tables, use.limit):
                break
            others = [other for other in tables.uses[head] if other is not use and _full(tables, other.limit)]
            if others:
                use.queued, others[0].queued = False, True
                continue
            _take(tables, head)
            got.append(head)
    return _entry_text(tables, got, fresh, owner, starts)


def _take(tables: Tables, key: Key) -> None:
    for use in tables.uses[key]:
        use.held, use.queued, use.since = True, False, tables.clock()


def _head(tables: Tables, name: str) -> Key | None:
    """Who is next at a key; those of paused executions are passed over."""
    waiting = [
        (-use.priority, use.order, key)
        for key, uses in tables.uses.items()
        for use in uses
        if use.queued and use.limit.key == name and tables.status_of(key[0]) != "paused"
    ]
    return min(waiting)[2] if waiting else None


def _entry_text(
    tables: Tables, got: list[Key], fresh: Sequence[Key], owner: str | None, starts: str | None
) -> Grants:
    given = Grants(waits={key for key in fresh if not tables.uses[key][0].held})
    delays = _moments(tables, got)
    known = set(fresh)
    for key in sorted(got, key=lambda key: (-tables.uses[key][0].priority, tables.uses[key][0].order)):
        if key[1] == WHOLE:
            start = tables.start_of(key[0])
            if start is not None and start.owner == HELD:
                start.release(starts, tables.clock())
                given.events.append(decode_event(start.payload))
            continue
        entry = tables.work[key[0]].commands[key[1]]
        delay = delays.get(key, 0.0)
        if delay:
            entry.not_before = tables.clock() + delay
        if key in known:
            given.delays |= {key: delay} if delay else {}
            continue
        entry.waiting, entry.owner = False, owner
        given.commands.append(msgspec.structs.replace(tables.command(entry), delay=delay))
    for execution_id, command_id in given.waits:
        entry = tables.work[execution_id].commands[command_id]
        entry.waiting, entry.owner = True, None
    return given


def _moments(tables: Tables, got: list[Key]) -> dict[Key, float]:
    """Seconds that each has to wait for its moment, where it has to."""
    now, delays = tables.clock(), dict[Key, float]()
    order = sorted((-use.priority, use.order, key, use.limit) for key in got for use in tables.uses[key])
    for _, _, key, limit in order:
        numbers = numbers_of(tables, limit)
        if numbers.rate is None:
            continue
        row = tables.limits[limit.key]
        (moment,), row.tat = reserve(row.tat, now, 1, numbers.rate, numbers.per, numbers.burst)
        if moment > now:
            delays[key] = max(delays.get(key, 0.0), moment - now)
    return delays


def wake(tables: Tables, owner: str | None) -> list[Command]:
    """Grant slots that are free and not granted yet.

    Starts of executions are left without an owner, for the process that asks for them next.
    """
    keys = {use.limit.key for uses in tables.uses.values() for use in uses if use.queued}
    if not keys:
        return []
    forget(
        tables, {key[0] for key, uses in tables.uses.items() if any(use.limit.key in keys for use in uses)}
    )
    return give(tables, keys, (), owner, None).commands


# --- executions ---

SHOWN = 20
"""Most holders that are named."""


def admit(
    tables: Tables, start: Start, created: CreatedExecution, admission: Admission, owner: str | None
) -> tuple[Admitted, list[Event]]:
    key, limit = (start.execution_id, WHOLE), Limit(admission.key, admission.concurrent)
    entry, events = tables.executions.get(start.execution_id), list[Event]()
    other = tables.start_of(start.execution_id)
    if other is not None and other.event_id != start.event_id:
        raise VersionConflictError([start.execution_id])
    if entry is None and other is None and created.kept:
        raise ExecutionIdTakenError(starts=[start.execution_id])
    if key not in tables.uses and (entry is None or (entry.version == 0 and not entry.over)):
        note_key(tables, limit)
        if admission.on_excess == "refuse" and _full(tables, limit):
            return _word(tables, limit, "refused"), []
        if entry is None:
            tables.executions[start.execution_id] = ExecutionEntry(
                start.execution_id, created, tables.clock()
            )
        tables.post([start], start.execution_id, HELD)
        tables.outbox[start.execution_id, start.event_id].owner = HELD
        tables.uses[key] = [Use(limit, admission.priority, tables.next_order(), tables.clock(), queued=True)]
        given = give(tables, {limit.key}, (), owner, owner)
        events = [event for event in given.events if event.execution_id != start.execution_id]
        if tables.uses[key][0].queued and admission.on_excess == "cancel_oldest":
            events += _cancel_oldest(tables, start, created, limit, owner)
    if key in tables.uses and tables.uses[key][0].queued:
        return _word(tables, limit, "queued"), events if owner is not None else []
    return _word(tables, limit, "held"), events if owner is not None else []


def _holders(tables: Tables, limit: Limit) -> list[int]:
    held = [
        (use.since, use.order, key[0])
        for key, uses in tables.uses.items()
        for use in uses
        if use.held and use.limit.key == limit.key
    ]
    return [execution_id for _, _, execution_id in sorted(held)]


def _word(tables: Tables, limit: Limit, word: Literal["held", "queued", "refused"]) -> Admitted:
    return Admitted(word, numbers_of(tables, limit).concurrent or 0, tuple(_holders(tables, limit)[:SHOWN]))


def _cancel_oldest(
    tables: Tables, start: Start, created: CreatedExecution, limit: Limit, owner: str | None
) -> list[Event]:
    staying = [one for one in _asking(tables, limit) if not _is_replaced(tables, one)]
    most = numbers_of(tables, limit).concurrent or 0
    if len(staying) <= most or staying[0] == start.execution_id:
        return []
    oldest = staying[0]
    reason = f"execution {start.execution_id} takes its place: concurrency of {limit.key}"
    program = tables.executions[oldest].program
    event_id = f"excess:{start.execution_id}"
    cancel = Cancel(oldest, event_id, program, reason, created.principal, cascade=True)
    return tables.post([cancel], oldest, owner)


def _asking(tables: Tables, limit: Limit) -> list[int]:
    """Return the executions that have a slot of a key, then those that wait for one.

    Each the oldest first.
    """
    uses = [
        (not use.held, use.since, use.order, key[0])
        for key, uses in tables.uses.items()
        for use in uses
        if not key[1] and use.limit.key == limit.key and (use.held or use.queued)
    ]
    return [execution_id for *_, execution_id in sorted(uses)]


def _is_replaced(tables: Tables, execution_id: int) -> bool:
    posted = [key[1] for key in tables.outbox if key[0] == execution_id]
    work = tables.work.get(execution_id)
    return any(event_id.startswith("excess:") for event_id in [*posted, *(work.history if work else ())])
