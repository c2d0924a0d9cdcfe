"""Callbacks: a command waits for an answer from outside, or until its time is over.

What is awaited is kept in a slot of the scope ``callback``, by place; the command is in the store as one that waits, and no worker,
lease or queue has it. The first of these ends the wait: the callback, its timer, or the end of the loop whose item waits. A callback may
also arrive before its pipeline waits, because its address is already known: it is kept, and taken when the pipeline gets there.

Items of loops wait in the item lane, whose commits never touch the execution; ``ItemAwaits`` reports them to the main lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.domain import codec, ids
from noetl.domain.callbacks import SCOPE, Awaited, CallbackId, awaited_in, holder, item_of, run_of
from noetl.domain.callbacks import TIMER as TIMER
from noetl.domain.commands import Command
from noetl.domain.events import CallbackDone, ItemAwaits, TimerFired
from noetl.domain.facts.facts import CommandIssued, Superseded
from noetl.domain.facts.waits import CallbackAwaited, CallbackExpired, CallbackReceived
from noetl.domain.outcomes.outcomes import CallbackRequest, ErrorInfo, Outcome, Trace
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.state import Token
from noetl.engine.decision import Decider, Timer, Woken, worker_pool

TIMEOUT = "timeout"
CLOSING = "loop_closing"


def await_callback(
    d: Decider,
    token: Token,
    place: str,
    command: tuple[str, int],
    request: CallbackRequest,
    trace: list[Trace] | None = None,
) -> Outcome | None:
    """Start to wait for a callback; return its outcome when it arrived before.

    ``command``: the command that continues with the callback, (id, turn).
    """
    slot = d.slots.get((SCOPE, place), MISSING)
    early = _kept(slot, request.serial)
    item = item_of(place)
    until = None if request.timeout is None else d.now + request.timeout
    d.emit(
        CallbackAwaited(
            token.run,
            token.step,
            request.task,
            place,
            request.serial,
            *command,
            since=d.now,
            until=until,
            message=request.message,
            approve=request.approve,
            schema=request.schema,
            index=-1 if item is None else item[1],
            early=early is not None,
            trace=trace or [],
            proofs=list(d.view.proofs(CallbackId(d.execution_id, place, request.serial))),
        )
    )
    if early is None and request.timeout is not None:
        d.decision.timers.append(Timer(ids.callback_timer(place, request.serial), 0, request.timeout))
    return early


def _kept(slot: Any, serial: int) -> Outcome | None:
    if slot is MISSING or slot.get("early") is None or slot["for"] != serial:
        return None
    return codec.convert(slot["early"], Outcome)


def callback_done(d: Decider, event: CallbackDone) -> None:
    """Handle the answer to a callback: wake the command that waits, or keep an early answer."""
    token = holder(d.state, event.place)
    if token is None:
        _superseded(d, event.event_id, "what it is for is over")
        return
    slot = d.slots.get((SCOPE, event.place), MISSING)
    awaited = awaited_in(slot)
    item = item_of(event.place)
    received = CallbackReceived(
        token.run,
        token.step,
        event.place,
        event.serial,
        event.digest,
        index=-1 if item is None else item[1],
    )
    if awaited is not None and awaited.serial == event.serial:
        d.emit(received)
        _go_on(d, token, event.place, awaited, event.outcome)
    elif awaited is None and _is_ahead(slot, event.serial):
        d.emit(msgspec.structs.replace(received, early=True, outcome=event.outcome))
    else:
        _superseded(d, event.event_id, "it is not awaited")


def expected(d: Decider, event: CallbackDone) -> Token | None:
    """Return the token that waits for this callback, or that may come to wait for it."""
    token = holder(d.state, event.place)
    if token is None:
        return None
    slot = d.slots.get((SCOPE, event.place), MISSING)
    awaited = awaited_in(slot)
    fits = _is_ahead(slot, event.serial) if awaited is None else awaited.serial == event.serial
    return token if fits else None


def _is_ahead(slot: Any, serial: int) -> bool:
    """Return whether a pipeline can still come to wait for this callback.

    It can when nothing is kept for the place yet, or only earlier callbacks of the place are over.
    """
    return slot is MISSING or ("over" in slot and serial >= slot["over"])


def callback_late(d: Decider, event: TimerFired) -> None:
    """Handle the timer of a callback that did not arrive in time: the task that waits fails."""
    token = late_for(d, event)
    if token is None:
        _superseded(d, event.event_id, "it is not awaited")
        return
    place, _ = _timed(event)
    awaited = awaited_in(d.slots.get((SCOPE, place), MISSING))
    assert awaited is not None
    _give_up(d, token, place, awaited, TIMEOUT, _late(awaited))


def late_for(d: Decider, event: TimerFired) -> Token | None:
    """Return the token that waits for the callback whose time is over by this timer."""
    if not event.timer.startswith(f"{TIMER}:"):
        return None
    place, serial = _timed(event)
    token = holder(d.state, place)
    awaited = None if token is None else awaited_in(d.slots.get((SCOPE, place), MISSING))
    return token if awaited is not None and str(awaited.serial) == serial else None


def _timed(event: TimerFired) -> tuple[str, str]:
    """Return (place, serial) of the callback that a timer belongs to."""
    place, _, serial = event.timer.partition(":")[2].rpartition(":")
    return place, serial


def item_awaits(d: Decider, event: ItemAwaits) -> None:
    """Start the wait of a loop's item.

    The item continues at once when its answer arrived before, or when its loop is closing.
    """
    token = holder(d.state, event.place)
    if token is None:
        _superseded(d, event.event_id, "what it is for is over")
        return
    command = (event.command_id, event.turn)
    early = await_callback(d, token, event.place, command, event.request)
    awaited = awaited_in(d.slots.get((SCOPE, event.place), MISSING))
    if early is not None:
        d.decision.wakes.append(Woken(*command, early))
    elif awaited is not None and token.closing is not None:
        _give_up(d, token, event.place, awaited, CLOSING, _CLOSED)


def call_off(d: Decider, token: Token) -> None:
    """End the waits of a loop's items for callbacks, because the loop's gate closes.

    Then the loop can end.
    """
    body = d.steps[token.step].body
    if body is None or not body.calls_back:
        return
    for name, slot in sorted(d.slots.scope(SCOPE).items()):
        awaited, item = awaited_in(slot), item_of(name)
        if awaited is not None and run_of(name) == token.run and item is not None and item[0] == token.round:
            _give_up(d, token, name, awaited, CLOSING, _CLOSED)


def _give_up(d: Decider, token: Token, place: str, awaited: Awaited, reason: str, error: ErrorInfo) -> None:
    item = item_of(place)
    index = -1 if item is None else item[1]
    d.emit(CallbackExpired(token.run, token.step, place, awaited.serial, reason, index))
    _go_on(d, token, place, awaited, Outcome("error", error=error))


def _go_on(d: Decider, token: Token, place: str, awaited: Awaited, outcome: Outcome) -> None:
    if awaited.until is not None:
        d.decision.timers.append(Timer(ids.callback_timer(place, awaited.serial), 0, None))
    d.decision.wakes.append(Woken(awaited.command, awaited.turn, outcome))
    if item_of(place) is None:
        d.emit(going_on(d, token, awaited.command, awaited.turn))


def going_on(d: Decider, token: Token, command_id: str, turn: int) -> CommandIssued:
    """Build the fact that the run's command is issued, as what it waited for has arrived."""
    step = d.steps[token.step]
    called = step.compensate if token.phase == "compensate" else step.body
    pool = "io" if called is None else worker_pool(called.pool)
    stage = token.phase if token.phase in ("case", "compensate") else "body"
    rule = token.rule if stage == "case" else -1
    return CommandIssued(token.run, token.step, command_id, pool, stage, rule, turn)


def begin_waiting(
    d: Decider, token: Token, command: Command, request: CallbackRequest, trace: list[Trace]
) -> Command | None:
    """Start the wait of a run's own command; return the command when its answer came before."""
    early = await_callback(d, token, command.command_id, (command.command_id, command.turn), request, trace)
    if early is None:
        return None
    return msgspec.structs.replace(command, child=early)


def _late(awaited: Awaited) -> ErrorInfo:
    seconds = (awaited.until or awaited.since) - awaited.since
    return ErrorInfo(
        message=f"no answer to the callback of {awaited.task} came within {seconds:g} s",
        kind="timeout",
        code="callback_timeout",
        retryable=False,
    )


_CLOSED = ErrorInfo(
    message="the loop ends before its time: this item's callback is not waited for any more",
    kind="cancelled",
    code="loop_closing",
)


def _superseded(d: Decider, event_id: str, why: str) -> None:
    d.emit(Superseded(event_id, status=why))


HANDLERS: dict[type, Callable[[Decider, Any], None]] = {
    CallbackDone: callback_done,
    ItemAwaits: item_awaits,
}
