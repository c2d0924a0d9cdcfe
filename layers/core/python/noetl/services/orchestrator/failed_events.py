"""Policy for events that the engine fails to handle, on one machine and in a deployment.

The kind of the error decides. During an outage (``is_outage``) the event waits, however often that happens: it is fine. After any
other error it is tried again, ``TRIES`` times in all. Then its execution fails, in a commit that holds nothing of the event but its name.
When that cannot be committed either, the event is set aside: it is noted beside the history of its execution, and tried again once in a
long while (by a queue, until it is a dead letter).

A queue counts deliveries, of which some ended in an outage, or before the event was looked at. So no count of a queue is a count of tries.

The row that records an event which was not applied, beside the history of its execution.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import msgspec

from noetl.domain import ids
from noetl.domain.errors import InfrastructureError, NoetlError, as_exception
from noetl.domain.events import (
    Cancel,
    CommandDone,
    Event,
    Held,
    ItemsDone,
    Start,
    WorkAdvanced,
    encode_event,
)
from noetl.domain.facts.facts import Superseded, encode_facts
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.state import TERMINAL
from noetl.dsl.program import Program
from noetl.engine.decision import Decision
from noetl.engine.giving_up import give_up
from noetl.engine.scopes.slot_view import NeedSlots, View
from noetl.engine.unborn import refuse_start
from noetl.ports.executions.execution_store import (
    EventRow,
    Loaded,
    LoadRequest,
    Snapshot,
    VersionConflictError,
)
from noetl.services.history.execution_state import state_of
from noetl.services.orchestrator.after_commit import add_effects
from noetl.services.orchestrator.build_commit import make_change
from noetl.services.orchestrator.decide import MISSING_PROGRAM
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps
from noetl.services.orchestrator.handle_events import is_fenced
from noetl.services.results.stored_bytes import outages

TRIES = 3
"""How often an event is tried before its execution fails."""
AGAIN_SECONDS = (1.0, 5.0)
"""Pauses after each of the first tries."""
ASIDE_SECONDS = 60.0
"""Pause of an event that is set aside."""
CONFLICTS = 20
"""Most times that giving up is decided again after a version conflict."""
SHOWN = 500
"""Characters of an error that are kept."""


def is_outage(error: BaseException) -> bool:
    """Return whether ``error`` is an outage, which says nothing about the event."""
    return isinstance(error, InfrastructureError) and error.retryable


def after_failure(
    event: Event, error: Exception, tries: int, deps: EngineDeps, handled: BatchEffects
) -> float | None:
    """Settle an event on which the engine failed for the ``tries``-th time.

    Outages (``is_outage``) are no tries.

    Returns the seconds after which it is to be tried again; None: it is done with. ``handled``: what follows when its execution fails.
    Raises InfrastructureError (retryable) when the store is unreachable: nothing is settled then.
    """
    what = f"event {event.event_id!r} of execution {event.execution_id}"
    deps.log(f"{what} failed, try {tries}: {brief(error)}")
    if tries < TRIES:
        return AGAIN_SECONDS[tries - 1]
    if isinstance(event, WorkAdvanced):
        return None  # It only hastens the next look at work outside.
    try:
        _give_up_on(event, error, deps, handled)
    except BaseException as second:
        broken = as_exception(second)
        if is_outage(broken):
            raise
        deps.log(f"{what} is set aside, for its execution cannot fail: {brief(broken)}")
        _note(event, error, deps)
        return ASIDE_SECONDS
    return None


def brief(error: Exception) -> str:
    """Return the first line of an error, in characters that any store accepts.

    The lines that a database adds may quote rows.
    """
    first = (str(error).splitlines() or [""])[0]
    text = f"{type(error).__name__}: {first}"[:SHOWN]
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _note(event: Event, error: Exception, deps: EngineDeps) -> None:
    try:
        if deps.store.info(event.execution_id) is not None:
            row = unapplied_row(event, encode_event(event), "failed", brief(error))
            deps.store.record_superseded([(event.execution_id, row)])
    except BaseException as unnoted:
        deps.log(f"the failure of event {event.event_id!r} could not be recorded: {as_exception(unnoted)}")


def _give_up_on(event: Event, error: Exception, deps: EngineDeps, handled: BatchEffects) -> None:
    """Fail the execution of ``event``. Raises what keeps that from being committed."""
    if deps.recent is not None:
        deps.recent.take(event.execution_id)
    for _ in range(CONFLICTS):
        try:
            _commit(event, error, deps, handled)
            return
        except VersionConflictError:
            continue
    raise InfrastructureError(
        f"execution {event.execution_id} is changed by other processes again and again", code="contention"
    )


def _commit(event: Event, error: Exception, deps: EngineDeps, handled: BatchEffects) -> None:
    inner = event.event if isinstance(event, Held) else event
    settled = tuple(dict.fromkeys(name for name in (inner.event_id, event.event_id) if _is_plain(name)))
    given_up = ids.given_up_event(inner.event_id)
    loaded = deps.store.load([LoadRequest(inner.execution_id, events=(given_up, *settled))])
    snapshot = loaded.executions.get(inner.execution_id)
    decision: Decision | None = None
    stand_in = _stand_in(inner, given_up)
    if _is_wanted(inner, snapshot):
        failure = NoetlError(
            f"the engine could not handle event {type(inner).__name__}: {brief(error)}",
            code="engine_error",
            hint="the log of the engine has the details: mend the cause, then redrive the execution",
        )
        decision = _decision(stand_in, inner, failure, loaded, deps)
    if decision is None or isinstance(decision.facts[0], Superseded) or _is_old(inner, snapshot, deps):
        row = unapplied_row(inner, encode_event(inner), "failed", brief(error))
        rows = [(inner.execution_id, row)] if snapshot is not None else []
        deps.store.record_superseded(rows, [(inner.execution_id, name) for name in settled])
        return
    with_any = replace(deps, programs=_any_program(deps))
    change = make_change(inner.execution_id, snapshot, [(stand_in, decision)], [loaded.now], with_any)
    change = msgspec.structs.replace(change, handled=settled, limited=True)
    committed = deps.store.commit([change], deps.owner)
    handled.add(committed.commands, committed.events)
    add_effects(change, handled)


def _is_wanted(event: Event, snapshot: Snapshot | None) -> bool:
    """Check whether the execution of ``event`` can still fail."""
    if snapshot is None or snapshot.version == 0:
        return isinstance(event, Start)
    state = state_of(event.execution_id, snapshot.state)
    return state.status not in TERMINAL and not snapshot.applied


def _is_old(event: Event, snapshot: Snapshot | None, deps: EngineDeps) -> bool:
    """Check whether ``event`` is of a former attempt of a compensation or a last task.

    The command was issued again, so it may still complete.
    """
    if not isinstance(event, CommandDone) or snapshot is None:
        return False
    state = state_of(event.execution_id, snapshot.state)
    if not state.undoing and state.verdict is None:
        return False
    wanted = LoadRequest(event.execution_id, commands=(event.command_id,))
    return not is_fenced(event, deps.store.load([wanted]).executions.get(event.execution_id))


def _is_plain(name: str) -> bool:
    """Check whether every store accepts ``name``: a worker may have made it up."""
    return len(name) <= SHOWN and name.isprintable()


def _stand_in(event: Event, given_up: str) -> Start | Cancel:
    """Return the event to decide instead of ``event``.

    It holds nothing of ``event`` that may be what breaks the commit.
    """
    if not isinstance(event, Start):
        return Cancel(event.execution_id, given_up, event.program)
    path, principal = (text if _is_plain(text) else "" for text in (event.path, event.principal))
    return msgspec.structs.replace(event, path=path, principal=principal, payload={})


def _decision(
    event: Start | Cancel, broken: Event, failure: NoetlError, loaded: Loaded, deps: EngineDeps
) -> Decision:
    """Decide how the execution fails, and read the slots that compensation asks for."""
    snapshot = loaded.executions.get(event.execution_id)
    names: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    while True:
        view = View(dict(snapshot.slots) if snapshot else {}, names, scopes, deps.hydrate, deps.limits)
        try:
            with outages():
                return _decide(event, broken, failure, loaded.now, snapshot, view, deps)
        except NeedSlots as need:
            if need.names <= names and need.scopes <= scopes:
                raise failure from None
            names, scopes = names | need.names, scopes | need.scopes
            request = LoadRequest(event.execution_id, tuple(names), tuple(scopes))
            snapshot = deps.store.load([request]).executions.get(event.execution_id)


def _decide(
    event: Start | Cancel,
    broken: Event,
    failure: NoetlError,
    now: float,
    snapshot: Snapshot | None,
    view: View,
    deps: EngineDeps,
) -> Decision:
    if isinstance(event, Start):
        return refuse_start(MISSING_PROGRAM, event, failure, now, view)
    assert snapshot is not None
    state = state_of(event.execution_id, snapshot.state)
    info = ErrorInfo(message=failure.message, code=failure.code, hint=failure.hint)
    return give_up(_any_program(deps)(state.program), state, event, broken, info, now, view)


def _any_program(deps: EngineDeps) -> Callable[[str], Program]:
    """Return a lookup that finds a program, or an empty one when it is missing.

    An execution can fail without its program.
    """

    def find(name: str) -> Program:
        try:
            return deps.programs(name)
        except InfrastructureError:
            raise
        except BaseException as error:
            as_exception(error)
            return MISSING_PROGRAM

    return find


def unapplied_row(event: Event, text: bytes, status: str, reason: str = "") -> EventRow:
    """Return the row that records an event which was not applied.

    It is beside the history of the event's execution, once per ``text``.
    """
    command = event.command_id[:200].replace("\0", "") if isinstance(event, (CommandDone, ItemsDone)) else ""
    fact = Superseded(type(event).__name__, command, status=status, reason=reason)
    event_id = f"{status}:{hashlib.sha256(text).hexdigest()[:16]}"
    return EventRow(event_id, 0, "command.superseded", encode_facts([fact]), lane=-1)
