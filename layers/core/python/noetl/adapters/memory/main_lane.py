"""The main lane's write: check everything, then change everything."""

from __future__ import annotations

import msgspec

from noetl.adapters.changes import applied_timers, cascade_of
from noetl.adapters.loops import first_chunks, is_given_up, stripped
from noetl.adapters.memory.families import hold_back, is_held_back, let_begin, passing_on, words
from noetl.adapters.memory.limits import settle
from noetl.adapters.memory.recovery import released
from noetl.adapters.memory.tables import CommandEntry, ExecutionEntry, LoopEntry, Tables, TimerEntry, Work
from noetl.domain import codec, ids
from noetl.domain.callbacks import SCOPE, TIMER, run_of
from noetl.domain.commands import Command
from noetl.domain.events import Cancel, Event
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import (
    Change,
    Committed,
    ExecutionIdTakenError,
    VersionConflictError,
)


def commit(tables: Tables, changes: list[Change], owner: str | None) -> Committed:
    """Raises VersionConflictError or ExecutionIdTakenError before anything is written."""
    if starts := {change.execution_id for change in changes if _begins_another(tables, change)}:
        raise ExecutionIdTakenError(starts=starts)
    refused = [change.execution_id for change in changes if not _fits(tables, change)]
    if refused:
        raise VersionConflictError(refused)
    if taken := tables.taken(event for change in changes for event in change.outbox):
        raise ExecutionIdTakenError(children=taken)
    commands: list[Command] = []
    events: list[Event] = []
    # What begins is there before a pause or a cancel of its parent looks for children, as in Postgres.
    for change in sorted(changes, key=lambda change: change.created is None):
        _apply(tables, change, owner, commands, events)
    limited = [change.execution_id for change in changes if change.limited]
    if limited:
        wanted = [command for change in changes if not change.end for command in change.issue]
        given = settle(tables, limited, wanted, owner)
        commands = given.given_out(commands)
        events += given.events
    if owner is None:
        return Committed()
    return Committed(tuple(commands), tuple(events))


def _begins_another(tables: Tables, change: Change) -> bool:
    """Return whether the row or Start of an execution came from another Start, or is gone."""
    if change.expected or change.created is None or not change.created.start:
        return False
    if (change.execution_id, change.created.start) in tables.outbox:
        return False
    entry = tables.executions.get(change.execution_id)
    if entry is None and change.created.kept:
        return True
    return tables.start_of(change.execution_id) is not None or (entry is not None and entry.version == 0)


def _fits(tables: Tables, change: Change) -> bool:
    entry = tables.executions.get(change.execution_id)
    if entry is None and (change.expected != 0 or change.created is None):
        return False
    if entry is not None and (entry.version != change.expected or entry.leaving):
        return False
    work = tables.work[change.execution_id]
    fresh = {row.event_id for row in change.events}
    if entry is not None and is_held_back(entry) and any(map(ids.is_start, fresh)):
        return False
    if len(fresh) != len(change.events) or not fresh.isdisjoint(work.history):
        return False
    if any(not _is_open(work, *fence) for fence in change.close):
        return False
    return all(_is_next_turn(work, change, command) for command in (*change.issue, *change.waiting))


def _is_open(work: Work, command_id: str, attempt: int, turn: int) -> bool:
    entry = work.commands.get(command_id)
    return entry is not None and (entry.attempt, entry.turn) == (attempt, turn)


def _is_next_turn(work: Work, change: Change, command: Command) -> bool:
    entry = work.commands.get(command.command_id)
    return change.end or entry is None or entry.run in change.drop_runs or entry.turn < command.turn


def _apply(
    tables: Tables, change: Change, owner: str | None, commands: list[Command], events: list[Event]
) -> None:
    execution_id = change.execution_id
    work = tables.work[execution_id]
    _move(tables, change)
    for row in change.events:
        tables.record(execution_id, row)
    _write_slots(work, change)
    tables.write_variables(execution_id, change.variables)
    tables.note_results(execution_id, change.kept, change.reaches)
    for event_id in change.handled:
        tables.outbox.pop((execution_id, event_id), None)
    attempts = {command_id: attempt for command_id, attempt, _ in change.close}
    _drop(work, change, attempts)
    start = tables.start_of(execution_id) if change.end else None
    if start is not None:
        del tables.outbox[execution_id, start.event_id]
    if not change.end:
        _issue(tables, change, owner, attempts, commands)
    _set_timers(tables, change)
    events += tables.post(change.outbox, execution_id, owner)
    _start_loops(tables, change, owner, commands, events)
    for gate in change.gates:
        loop = work.loops.get((gate.run, gate.round))
        if loop is not None and loop.gate == "open" and not change.end:
            loop.gate = "closing"
            events += tables.finish_loop(execution_id, loop, owner)
    if change.cancel_children or change.drop_runs:
        events += tables.post(_cancels(tables, change), execution_id, owner)
    for word in change.words:
        events += tables.post(words(tables, change, word), execution_id, owner)
    if change.release:
        events += released(tables, execution_id, owner)
        if not change.cancel_children:
            given = let_begin(tables, execution_id, owner)
            commands += given.commands
            events += given.events
    if change.words and change.words[-1].what == "pause":
        given = hold_back(tables, execution_id, owner)
        commands += given.commands
        events += given.events


def _forget_callbacks(work: Work, runs: frozenset[int]) -> None:
    """Drop what is kept for callbacks of runs that are over, and their timers.

    The timers are ``callback:<place>:<serial>``.
    """
    for key in [key for key in work.slots if key[0] == SCOPE and run_of(key[1]) in runs]:
        del work.slots[key]
    for timer in list(work.timers):
        kind, _, place = timer.partition(":")
        if kind == TIMER and run_of(place.partition(":")[0]) in runs:
            del work.timers[timer]


def _write_slots(work: Work, change: Change) -> None:
    for key, value in change.slots.items():
        work.slots[key] = codec.encode(value)
    for key in change.unset:
        work.slots.pop(key, None)
    if change.over_runs:
        _forget_callbacks(work, frozenset(change.over_runs))


def _move(tables: Tables, change: Change) -> None:
    entry = tables.executions.get(change.execution_id)
    if entry is None:
        assert change.created is not None
        entry = ExecutionEntry(change.execution_id, change.created, tables.clock() - change.seconds)
        tables.executions[change.execution_id] = entry
    if not entry.created.name and change.created is not None:
        entry.created = msgspec.structs.replace(change.created, labels=entry.created.labels)
    entry.version += 1
    entry.status = change.status
    entry.program = change.program
    entry.state = change.state
    now = tables.clock()
    entry.rested = entry.rested_at(now)
    entry.rests_since = None if change.rests_until is None else now
    entry.rests_until = change.rests_until or 0.0
    if change.status not in TERMINAL:
        entry.ended_at = None
    elif entry.ended_at is None:
        entry.ended_at = now


def _drop(work: Work, change: Change, attempts: dict[str, int]) -> None:
    """Delete closed commands and what belongs to dropped runs (their loops end).

    When the execution is over, it deletes everything.

    ``attempts`` collects the attempt counts of rows that a new turn replaces.
    """
    again = {command.command_id for command in (*change.issue, *change.waiting)}
    for entry in list(work.commands.values()):
        gone = change.end or entry.run in change.drop_runs
        if gone or entry.command_id in attempts:
            del work.commands[entry.command_id]
        elif entry.command_id in again:
            attempts[entry.command_id] = entry.attempt
        if gone:
            attempts.pop(entry.command_id, None)
    for (run, _), loop in work.loops.items():
        if run in change.drop_runs:
            loop.gate = "closed"
    if change.end:
        for slot in [slot for slot in work.slots if slot[0] == "undo"]:
            del work.slots[slot]
        work.timers.clear()
        for loop in work.loops.values():
            loop.gate = "closed"


def _issue(
    tables: Tables, change: Change, owner: str | None, attempts: dict[str, int], commands: list[Command]
) -> None:
    now = tables.clock()
    wakes = {(wake.command_id, wake.turn): wake.outcome for wake in change.wakes}
    for waiting, group in ((False, change.issue), (True, change.waiting)):
        for issued in group:
            attempt = attempts.get(issued.command_id, issued.attempt)
            command = msgspec.structs.replace(issued, attempt=attempt)
            tables.add_command(
                CommandEntry(
                    change.execution_id,
                    command.command_id,
                    command.run,
                    payload=codec.encode(msgspec.structs.replace(command, delay=0.0)),
                    attempt=attempt,
                    turn=command.turn,
                    waiting=waiting,
                    owner=None if waiting else owner,
                    not_before=now + command.delay,
                    priority=command.priority,
                )
            )
            if not waiting:
                commands.append(command)
    for (command_id, turn), outcome in wakes.items():
        entry = tables.work[change.execution_id].commands.get(command_id)
        if entry is not None and entry.waiting and entry.turn == turn:
            commands.append(_wake(tables, entry, outcome, owner))


def _wake(tables: Tables, entry: CommandEntry, outcome: Outcome, owner: str | None) -> Command:
    command = msgspec.structs.replace(tables.command(entry), child=outcome)
    entry.payload = codec.encode(stripped(command) if entry.round >= 0 else command)
    entry.waiting = False
    entry.owner = owner
    return command


def _set_timers(tables: Tables, change: Change) -> None:
    timers = tables.work[change.execution_id].timers
    for timer, generation in applied_timers(change.events):
        if timer in timers and timers[timer].generation <= generation:
            del timers[timer]
    for wanted in change.timers:
        if wanted.seconds is None:
            timers.pop(wanted.timer, None)
        elif not change.end:
            timers[wanted.timer] = TimerEntry(wanted.generation, tables.clock() + wanted.seconds)


def _start_loops(
    tables: Tables, change: Change, owner: str | None, commands: list[Command], events: list[Event]
) -> None:
    loops = tables.work[change.execution_id].loops
    for row in change.loops:
        loop = loops[row.run, row.round] = LoopEntry(row)
        if is_given_up(change, row):
            loop.gate = "closed"
            continue
        for start, stop in first_chunks(row):
            commands.append(tables.add_chunk(change.execution_id, loop, start, stop, owner))
        events += tables.finish_loop(change.execution_id, loop, owner)


def _cancels(tables: Tables, change: Change) -> list[Event]:
    """Return a Cancel for every child that is not over.

    Children whose Start is still in the outbox are included.

    When only runs are dropped: for the children these runs wait for.
    """
    parent = change.execution_id
    children = {
        entry.execution_id: entry.program
        for entry in tables.executions.values()
        if entry.created.parent_execution_id == parent
        and not entry.over
        and _concerns(change, entry.execution_id, entry.created.awaited_by)
    }
    for posted in tables.outbox.values():
        if posted.source == parent and ids.is_start(posted.event_id):
            child = tables.executions.get(posted.execution_id)
            if (child is None or not child.over) and _concerns(
                change, posted.execution_id, posted.awaited_by
            ):
                children.setdefault(posted.execution_id, posted.program)
    if change.cancel_children:
        children |= {one.execution_id: one.program for one in passing_on(tables, parent)}
    # An earlier Cancel may be on its way: it may come too late for a child that was redriven, so this one is sent as well.
    return [
        Cancel(
            execution_id=child,
            event_id=cascade_of(change),
            program=program,
            reason=change.cancel_reason,
            cascade=True,
        )
        for child, program in sorted(children.items())
    ]


def _concerns(change: Change, child: int, awaited_by: int | None) -> bool:
    """Return whether ``change`` abandons a child that this run waits for."""
    abandoned = awaited_by in change.drop_runs and awaited_by not in change.left_runs
    return abandoned or (change.cancel_children and child not in change.spared)
