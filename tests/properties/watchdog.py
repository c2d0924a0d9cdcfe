"""Laws of the watchdog: nothing waits for what cannot come, and nothing is owned by a process that does not have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from noetl.domain.callbacks import SCOPE, awaited_in
from noetl.domain.events import ChildDone, CommandDone, Event, Held, ItemAwaits, ItemsDone, LoopAlert, Start
from noetl.domain.ids import timer_event
from noetl.domain.state import TERMINAL, ExecutionState, decode_state
from noetl.ports.executions.execution_store import ExecutionInfo
from tests.properties.evidence import Evidence, OpenRow
from tests.properties.laws import law

if TYPE_CHECKING:
    from tests.properties.world import Process, World

Turn = tuple[int, str, int]
"""(execution, command, turn)."""
Attempt = tuple[int, str, int, int]
"""(execution, command, attempt, turn)."""


@law("leases-are-known", "always")
def check_leases(world: World, evidence: Evidence) -> None:
    """No command, event or timer belongs to a living process that does not have it.

    A process that lost part of its memory, or an answer of the store, is not asked before it has given its leases back. A timer that
    fired while its execution was paused is in the outbox, and the process that handles the row after the pause may be another one. A command
    is no process's once the last message of its turn is held.
    """
    kept = {
        (row.execution_id, row.event.event.event_id) for row in evidence.outbox if isinstance(row.event, Held)
    }
    for process in world.processes:
        if not process.connected or process.confused or process.doubtful:
            continue
        if not evidence.alive(process.owner):
            continue
        commands, events = held_by(process)
        for row in evidence.commands:
            if row.owner == process.owner:
                one = (row.execution_id, row.command_id, row.attempt, row.turn)
                assert one in commands, f"{process.owner} has a lease of {row}, and does not know of it"
        for posted in evidence.outbox:
            if posted.owner == process.owner:
                assert (posted.execution_id, posted.event_id) in events, (
                    f"{process.owner} owns {posted.event_id} of {posted.execution_id}, and does not know of it"
                )
        for timer in evidence.timers:
            if timer.owner == process.owner:
                name = timer_event(timer.name, timer.generation)
                assert (timer.execution_id, name) in events | kept, (
                    f"{process.owner} owns timer {timer.name} of {timer.execution_id}, and does not know of it"
                )


def held_by(process: Process) -> tuple[set[Attempt], set[tuple[int, str]]]:
    """Attempts of commands that it is to run or to report, and events that it is to handle."""
    driver = process.driver
    ready = [*driver.ready, *(entry[2] for entry in driver.delayed)]
    commands = {(one.execution_id, one.command_id, one.attempt, one.turn) for one in ready}
    events: set[tuple[int, str]] = set()
    for event in _all_events([*driver.events, *process.early]):
        events.add((event.execution_id, event.event_id))
        if isinstance(event, (CommandDone, ItemsDone)):
            commands.add((event.execution_id, event.command_id, event.attempt, event.turn))
    return commands, events


def _all_events(events: Iterable[Event]) -> Iterable[Event]:
    for event in events:
        yield event
        if isinstance(event, Held):
            yield event.event


@law("nothing-is-forlorn", "always")
def check_hope(world: World, evidence: Evidence, infos: Iterable[ExecutionInfo]) -> None:
    """Each live execution has something outstanding that will move it on, and so has each command that waits.

    A command waits for a slot, for a child that lives or is on its way, or for an answer from outside.
    """
    states = {info.execution_id: decode_state(info.state) for info in infos if info.version}
    coming = _children(evidence, states, infos)
    queued = {(use.execution_id, use.command_id) for use in evidence.uses if use.queued}
    begin = {row.execution_id for row in evidence.outbox if isinstance(row.event, Start)}
    outstanding = Counter(
        row.execution_id for row in (*evidence.commands, *evidence.outbox, *evidence.timers)
    )
    for row in evidence.commands:
        if not row.waiting or (row.execution_id, row.command_id) in queued:
            continue
        if (row.execution_id, row.command_id, row.turn) in coming:
            continue
        assert _awaits(world, evidence, row), f"{row} waits for what cannot come"
    for info in infos:
        if info.status in TERMINAL:
            continue
        if not info.version:
            assert info.execution_id in begin, f"{info.path} cannot begin: its start is gone"
            continue
        parked = any(token.phase == "parked" for token in states[info.execution_id].tokens.values())
        assert parked or outstanding[info.execution_id], (
            f"{info.path} is {info.status} with nothing outstanding: {states[info.execution_id]}"
        )


def _children(
    evidence: Evidence, states: dict[int, ExecutionState], infos: Iterable[ExecutionInfo]
) -> set[Turn]:
    """Turns of commands whose child lives, is on its way, or has told of its end."""
    found: set[Turn] = set()
    for row in evidence.outbox:
        for event in _all_events([row.event]):
            if isinstance(event, (Start, ChildDone)) and event.parent is not None:
                parent = event.parent
                found.add((parent.execution_id, parent.command_id, parent.turn))
    for info in infos:
        state = states.get(info.execution_id)
        if state is not None and state.parent is not None and info.status not in TERMINAL:
            found.add((state.parent.execution_id, state.parent.command_id, state.parent.turn))
    return found


def _awaits(world: World, evidence: Evidence, row: OpenRow) -> bool:
    for event in _all_events([posted.event for posted in evidence.outbox]):
        if isinstance(event, ItemAwaits) and (event.execution_id, event.command_id) == (
            row.execution_id,
            row.command_id,
        ):
            return True
    slots: Any = world.store.slots(row.execution_id)
    return any(
        awaited_in(slot) is not None for (scope, name), slot in slots.items() if scope == SCOPE and name
    )


@law("loops-add-up", "always")
def check_loops_in_flight(world: World, evidence: Evidence, infos: Iterable[ExecutionInfo]) -> None:
    """While a loop runs, its commands answer for exactly the items that are out; when it is over, the event of its end exists."""
    left: Counter[tuple[int, int, int]] = Counter()
    open_: set[tuple[int, int, int]] = set()
    for row in evidence.commands:
        if row.round >= 0:
            left[row.execution_id, row.run, row.round] += row.left
            open_.add((row.execution_id, row.run, row.round))
    alerts = {
        (event.execution_id, event.run)
        for row in evidence.outbox
        for event in _all_events([row.event])
        if isinstance(event, LoopAlert)
    }
    for info in infos:
        if info.status in TERMINAL or not info.version:
            continue
        state = decode_state(info.state)
        for loop in world.store.loop_progress(info.execution_id):
            token = state.tokens.get(loop.run)
            if token is None or token.phase != "loop" or token.round != loop.round:
                continue
            out = loop.issued - loop.done - loop.failed
            assert out >= 0, loop
            if loop.gate == "closed":
                continue
            answered = left[info.execution_id, loop.run, loop.round]
            assert answered == out, f"{info.path}: {loop} has {out} items out, commands answer for {answered}"
            # A command whose items are all counted is open until its last message, which lets more be issued.
            closing = (info.execution_id, loop.run, loop.round) in open_
            assert out or closing or (info.execution_id, loop.run) in alerts, (
                f"{info.path}: {loop} is open with nothing out"
            )
