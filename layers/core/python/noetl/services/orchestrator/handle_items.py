"""The item lane: it counts outcomes of items in the loop's row, not in the execution.

It needs no lock of the execution. One statement for a batch inserts the items' rows (once each), counts the new ones, refills the window,
and ends the loop when nothing is left (adapters' ``commit_items``). This module decides only pure policy: how large the next chunks are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from noetl.domain import codec, ids
from noetl.domain.commands import ChunkRest, Command, ItemOutcome, LoopSlice
from noetl.domain.events import Event, ItemAwaits, ItemsDone, Parent
from noetl.domain.facts.facts import Superseded, encode_facts
from noetl.domain.outcomes.outcomes import CallbackRequest, Outcome, Patch, Suspend
from noetl.domain.results.retention import KeptResult, mentioned, own_results
from noetl.dsl.program import Step
from noetl.engine.decision import worker_pool
from noetl.engine.outcomes import child_start_event, detached, replaced_ids, with_ids
from noetl.ports.executions.execution_store import EventRow, ItemBatch, LoadRequest
from noetl.services.orchestrator.build_commit import BUSY
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps
from noetl.services.orchestrator.id_collisions import commit_with_free_ids
from noetl.services.orchestrator.paused_events import Holding

CHUNK_SECONDS = 1.0
"""Work one chunk should carry: long enough to amortise a message, short enough that a crash repeats little."""
OWN_CHUNK_SECONDS = 0.2
"""The same where this process runs commands itself, and a command costs no message: the last chunks of a loop end closer together."""
AT_ONCE = 5000
"""Items after which a statement takes no further report: what one statement takes stays well below its time limit."""
GROWTH = 4
"""How much larger the next chunk may be than the one that was measured."""


def next_chunk(items: int, elapsed: float, window: int, workers: int, seconds: float = CHUNK_SECONDS) -> int:
    """Return the number of items per command from now on.

    It aims at ``seconds`` of work, and is never more than a worker's share of the window.
    """
    share = max(1, window // max(1, BUSY * workers))
    if items == 0:
        return 1
    by_time = share if elapsed <= 0 else int(seconds * items / elapsed)
    return max(1, min(share, by_time, items * GROWTH))


def handle_items(
    events: Sequence[ItemsDone], deps: EngineDeps, handled: BatchEffects, holding: Holding
) -> None:
    """Count a batch of item outcomes.

    Outcomes of a superseded command are recorded and change nothing. A message that must not come before an earlier one of its command, but
    did, is among the events to handle next (after a moment, if it is alone: the earlier message is on its way).
    """
    events = sorted(
        events, key=lambda event: math.inf if event.undone is None else event.undone, reverse=True
    )
    now = _now(events, deps)
    for part in _parts(events):
        _count(part, now, deps, handled, holding)


def _count(
    events: Sequence[ItemsDone], now: float, deps: EngineDeps, handled: BatchEffects, holding: Holding
) -> None:
    """Count the reports of one statement, and deal with those that it did not count."""
    answers, committed = commit_with_free_ids(
        lambda taken: deps.store.commit_items(
            [_batch(event, deps, now, taken) for event in events], deps.owner
        )
    )
    handled.add(committed.commands, committed.events)
    early = [event for event, answer in zip(events, answers, strict=True) if answer.early]
    holding.hand_back(early, handled)
    holding.free(early, deps)
    holding.hold(
        [event for event, answer in zip(events, answers, strict=True) if answer.paused], deps, handled
    )
    late = [
        (event.execution_id, _late_row(event))
        for event, answer in zip(events, answers, strict=True)
        if answer.superseded and not _was_counted(event, deps, now)
    ]
    if late:
        deps.store.record_superseded(late)


def _was_counted(event: ItemsDone, deps: EngineDeps, now: float) -> bool:
    """Check whether history has every row of a report as the report has it.

    Then it was counted before, and its sender did not hear of that: in an outage, a commit may be the last thing that succeeds.
    """
    rows = {row.event_id: row.facts for row in _batch(event, deps, now, frozenset()).rows}
    found = deps.store.find_events(event.execution_id, list(rows)) if rows else ()
    kept = [one.facts for one in found if one.facts is not None]
    return bool(rows) and sorted(kept) == sorted(rows.values())


def _parts(events: Sequence[ItemsDone]) -> Iterator[list[ItemsDone]]:
    """Split ``events`` into statements, in order; the items of one report stay together."""
    part: list[ItemsDone] = []
    items = 0
    for event in events:
        part.append(event)
        items += len(event.items)
        if items >= AT_ONCE:
            yield part
            part, items = [], 0
    if part:
        yield part


def _now(events: Sequence[ItemsDone], deps: EngineDeps) -> float:
    """Read the store's clock, only when an iteration waits for a moment."""
    suspended = [
        item.outcome.suspend for event in events for item in event.items if item.outcome.suspend is not None
    ]
    suspended += [
        event.rest.outcome.suspend
        for event in events
        if event.rest is not None
        and event.rest.outcome is not None
        and event.rest.outcome.suspend is not None
    ]
    if all(suspend.until is None for suspend in suspended):
        return 0.0
    return deps.store.load([LoadRequest(events[0].execution_id)]).now


def _batch(event: ItemsDone, deps: EngineDeps, now: float, taken: frozenset[int]) -> ItemBatch:
    step = deps.programs(event.program).step(event.step)
    event = _with_free_ids(event, step, taken)
    loop = step.loop
    pool = worker_pool(step.body.pool if step.body is not None else "io")
    rows: list[EventRow] = []
    resumed: list[Command] = []
    waiting: list[Command] = []
    outbox: list[Event] = []
    kept, reaches = _results(event)
    failed = patched = size = 0
    alert, alert_index = "", -1
    fail_fast = loop is None or loop.failure == "fail_fast"
    for item in event.items:
        outcome = item.outcome
        if outcome.status == "suspended":
            outbox += _detached(event, item.index, outcome, taken)
            rows.append(_turn_row(event, item.index, outcome, _item_turn(event, item.index)))
            _continue_item(event, step, pool, item, now, resumed, waiting, outbox, taken)
            continue
        outbox += _detached(event, item.index, outcome, taken)
        data = codec.encode(_bare(outcome))
        reaches |= mentioned(data, event.execution_id)
        size += len(data)
        failed += outcome.status == "error"
        patched += bool(outcome.patches)
        if outcome.route is not None or (outcome.status == "error" and fail_fast):
            cause = "next" if outcome.route is not None else "failed"
            if not alert or item.index < alert_index:
                alert, alert_index = cause, item.index
        kind = "call.error" if outcome.status == "error" else "call.done"
        event_id = ids.item_event(event.run, event.round, item.index)
        rows.append(EventRow(event_id, item.index, kind, data, lane=event.run))
    if event.rest is not None:
        turn_outcome = event.rest.outcome
        if turn_outcome is not None and turn_outcome.trace:
            rows.append(_turn_row(event, event.rest.start, turn_outcome, event.turn))
        if turn_outcome is not None:
            outbox += _detached(event, event.rest.start, turn_outcome, taken)
        _continue_chunk(event, step, pool, event.rest, now, resumed, waiting, outbox, taken)
    window, workers = deps.limits.window, deps.workers(pool)
    seconds = CHUNK_SECONDS if deps.owner is None else OWN_CHUNK_SECONDS
    return ItemBatch(
        event=event,
        rows=tuple(rows),
        chunk=1 if step.limits else next_chunk(len(event.items), event.elapsed, window, workers, seconds),
        size=size,
        failed=failed,
        patched=patched,
        alert=alert,  # type: ignore[arg-type]
        alert_index=alert_index,
        resumed=tuple(resumed),
        waiting=tuple(waiting),
        outbox=tuple(outbox),
        limited=bool(step.limits),
        kept=tuple(kept),
        reaches=tuple(sorted(reaches)),
    )


def _results(event: ItemsDone) -> tuple[list[KeptResult], set[int]]:
    """Return what an event's outcomes report of large results.

    These are the results that are kept for another time than their execution, and the executions whose results they mention.
    """
    rest = [event.rest.outcome] if event.rest is not None and event.rest.outcome is not None else []
    outcomes = [item.outcome for item in event.items] + rest
    kept = [one for outcome in outcomes for one in own_results(event.execution_id, outcome.kept)]
    return kept, {one for outcome in outcomes for one in outcome.reaches}


def _bare(outcome: Outcome) -> Outcome:
    """Return the outcome as history keeps it."""
    if not outcome.kept and not outcome.reaches:
        return outcome
    return msgspec.structs.replace(outcome, kept=(), reaches=())


def _turn_row(event: ItemsDone, index: int, outcome: Outcome, turn: int) -> EventRow:
    """Return the row of the turn in which an iteration was suspended.

    It does not count as an item. An item continues alone only when this row is new.
    """
    if outcome.suspend is not None:
        bare = msgspec.structs.replace(outcome.suspend, machine={})
        outcome = msgspec.structs.replace(outcome, suspend=bare)
    outcome = _bare(outcome)
    event_id = ids.item_turn_event(event.run, event.round, index, turn)
    return EventRow(event_id, index, turn_name(outcome.suspend), codec.encode(outcome), lane=event.run)


def turn_name(suspend: Suspend | None) -> str:
    """Return the stored name of the row of an iteration's turn."""
    if suspend is not None and suspend.callback is not None:
        return "callback.awaited"
    return "wait.started" if suspend is not None and suspend.task else "retry.scheduled"


def _item_turn(event: ItemsDone, index: int) -> int:
    """Return the turn in which an item of a parallel loop continues.

    It is the next turn of the item's own command, or the first turn after its chunk.
    """
    own = event.command_id == ids.item_command_id(event.run, event.round, index)
    return event.turn + 1 if own else 1


def _detached(event: ItemsDone, index: int, outcome: Outcome, taken: frozenset[int]) -> list[Event]:
    """Return the Starts of sub-executions that an iteration does not wait for."""
    if not outcome.meta.get("children"):
        return []
    parent = Parent(
        event.execution_id, event.command_id, event.turn, event.run, event.round, index, wait=False
    )
    return [*detached(parent, outcome, 1, taken)]


def _with_free_ids(event: ItemsDone, step: Step, taken: frozenset[int]) -> ItemsDone:
    """Return ``event`` with other ids for its sub-executions whose ids the store refused.

    In a sequential loop, later items and the rest see what earlier items wrote, ids of their sub-executions among it.
    """
    if not taken:
        return event
    sequential = step.loop is not None and step.loop.mode == "sequential"
    earlier: dict[str, str] = {}

    def free(index: int, outcome: Outcome) -> Outcome:
        own = replaced_ids(event.execution_id, event.command_id, event.turn, index, outcome, taken)
        names = {**earlier, **own}
        if sequential:
            earlier.update(own)
        return with_ids(outcome, Outcome, names)

    items = [msgspec.structs.replace(item, outcome=free(item.index, item.outcome)) for item in event.items]
    rest = event.rest
    if rest is not None:
        outcome = None if rest.outcome is None else free(rest.start, rest.outcome)
        rest = ChunkRest(rest.start, outcome, with_ids(rest.overlay, list[Patch], earlier))
    return msgspec.structs.replace(event, items=items, rest=rest)


def _continue_item(
    event: ItemsDone,
    step: Step,
    pool: str,
    item: ItemOutcome,
    now: float,
    resumed: list[Command],
    waiting: list[Command],
    outbox: list[Event],
    taken: frozenset[int],
) -> None:
    """Continue a suspended item of a parallel loop in a command of its own."""
    command_id = ids.item_command_id(event.run, event.round, item.index)
    turn = _item_turn(event, item.index)
    piece = _slice(event, step, item.index, item.index + 1)
    command = _command(event, pool, command_id, turn, piece, item.outcome, now)
    _file(event, item.index, command, item.outcome, resumed, waiting, outbox, taken)


def _continue_chunk(
    event: ItemsDone,
    step: Step,
    pool: str,
    rest: ChunkRest,
    now: float,
    resumed: list[Command],
    waiting: list[Command],
    outbox: list[Event],
    taken: frozenset[int],
) -> None:
    """Continue the rest of a chunk as the next turn of its command."""
    piece = _slice(event, step, rest.start, -1)
    command = _command(event, pool, event.command_id, event.turn + 1, piece, rest.outcome, now, rest)
    _file(event, rest.start, command, rest.outcome, resumed, waiting, outbox, taken)


def _slice(event: ItemsDone, step: Step, start: int, stop: int) -> LoopSlice:
    """``stop`` -1: as the command had it. Items and scope come from the loop's row."""
    assert step.loop is not None
    return LoopSlice(event.round, start, stop, -1, step.loop.iterator, step.loop.mode)


def _command(
    event: ItemsDone,
    pool: str,
    command_id: str,
    turn: int,
    piece: LoopSlice,
    outcome: Outcome | None,
    now: float,
    rest: ChunkRest | None = None,
) -> Command:
    suspend = outcome.suspend if outcome is not None else None
    return Command(
        event.execution_id,
        command_id,
        event.run,
        event.step,
        event.program,
        pool,
        turn=turn,
        delay=_delay(suspend, now),
        loop=piece,
        machine=suspend.machine if suspend is not None else None,
        remote=suspend is not None and suspend.remote,
        overlay=rest.overlay if rest is not None else [],
    )


def _file(
    event: ItemsDone,
    index: int,
    command: Command,
    outcome: Outcome | None,
    resumed: list[Command],
    waiting: list[Command],
    outbox: list[Event],
    taken: frozenset[int],
) -> None:
    suspend = outcome.suspend if outcome is not None else None
    child = suspend.child if suspend is not None else None
    if suspend is not None and suspend.callback is not None:
        waiting.append(command)
        outbox.append(_awaits(event, index, command, suspend.callback))
        return
    if child is None:
        resumed.append(command)
        return
    parent = Parent(
        event.execution_id,
        command.command_id,
        command.turn,
        event.run,
        event.round,
        index,
        return_step=child.return_step,
    )
    waiting.append(command)
    outbox.append(child_start_event(parent, child, 1, taken))


def _delay(suspend: Suspend | None, now: float) -> float:
    if suspend is None:
        return 0.0
    return max(0.0, suspend.until - now) if suspend.until is not None else suspend.delay or 0.0


def _awaits(event: ItemsDone, index: int, command: Command, request: CallbackRequest) -> ItemAwaits:
    """Build the event that reports to the main lane that an iteration waits for a callback."""
    place = ids.item_command_id(event.run, event.round, index)
    return ItemAwaits(
        event.execution_id,
        ids.item_awaits_event(place, request.serial),
        event.program,
        event.step,
        place,
        command.command_id,
        command.turn,
        request,
    )


def _late_row(event: ItemsDone) -> EventRow:
    fact = Superseded(
        event.event_id, event.command_id, event.attempt, event.turn, f"{len(event.items)} item(s)"
    )
    event_id = f"late:{event.event_id}:{event.attempt}"
    return EventRow(event_id, 0, "command.superseded", encode_facts([fact]), lane=-1)
