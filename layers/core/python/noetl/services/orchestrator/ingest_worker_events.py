"""Intake of the events that workers report over HTTP, one by one or in batches.

Every body becomes a message as queues carry it, and passes the same check
(``services/orchestrator/authenticate.MessageAuthenticator``): a token states for which command the sender may
report. A refused event is recorded beside the history that it names, reported to the sender, and
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from noetl.domain import codec, ids
from noetl.domain.errors import (
    ConflictError,
    InfrastructureError,
    InvalidInputError,
    NotFoundError,
    as_exception,
)
from noetl.domain.events import CommandDone, Event, ItemsDone
from noetl.domain.messages import VERSION, Message, encode_message
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.domain.sizes.gate import check_tree, exceeded
from noetl.domain.sizes.table import BATCH_EVENTS, INLINE_BYTES
from noetl.domain.workers.command_token import Capability, read_capability
from noetl.ports.event_batches import BatchStatus, EventBatch, EventBatches, ReportedEvent
from noetl.ports.executions.execution_store import EventRow, ExecutionStore
from noetl.ports.new_ids import IdTakenError
from noetl.ports.queue import Delivery
from noetl.services.orchestrator.authenticate import UNKNOWN_KEY_DELIVERIES, MessageAuthenticator
from noetl.services.support.new_row_ids import TRIES, busy

MOST_EVENTS = BATCH_EVENTS.value
STALE_SECONDS = 60.0
"""Seconds after which the process that handles a batch is considered dead."""
LEFT_SECONDS = 3.0
"""Seconds after which an accepted batch that no process has begun counts as left."""
GIVE_UP_SECONDS = 600.0
"""How long a batch that breaks its handler, or that cannot be judged yet, is tried again."""
KEPT_SECONDS = 7 * 86_400.0
DONE = frozenset({"call.done", "worker.done", "command.completed"})
FAILED = frozenset({"call.error", "worker.error", "worker.failed", "command.failed"})
SIGNS = frozenset({"command.claimed", "command.started", "command.heartbeat"})
"""Signs of life: they change nothing but the lease of their command."""


class EventReport(msgspec.Struct, frozen=True):
    """One reported event, in any of three bodies.

    * ``{v, token, event}``: a message as queues carry it.
    * ``{execution_id, step, name, payload, command}``, or the envelope with ``event_type`` for ``name``: ``call.done`` (``worker.done``,
      ``command.completed``) with ``payload.result``, ``call.error`` with ``payload.error``, or a sign of life (``command.started``,
      ``command.heartbeat``). ``command`` (or the header ``Noetl-Command``): what came with the command when it was claimed.
    """

    v: int = VERSION
    token: str = ""
    event: dict[str, Any] | None = None
    execution_id: str | int | None = None
    step: str = ""
    name: str = ""
    event_type: str = ""
    payload: dict[str, Any] = {}
    command: str = ""


@dataclass(frozen=True, slots=True)
class EventsDeps:
    """The dependencies of events that workers send over HTTP.

    ``forward``: sends the engine (message's text, its event) of each admitted message. ``renew_lease``: (execution, command, attempt,
    turn) of a command that is running → False when its outcome is no longer wanted. ``refused``: counts, by reason.
    """

    door: MessageAuthenticator
    store: ExecutionStore
    batches: EventBatches
    forward: Callable[[Sequence[tuple[str, Event]]], None]
    refused: Callable[[str], None] = lambda reason: None
    renew_lease: Callable[[int, str, int, int], bool] = lambda execution_id, command_id, attempt, turn: True


def take_event(request: EventReport, capability: str, deps: EventsDeps) -> ReportedEvent:
    """Admit one reported event and forward it to the engine. ``capability``: the header's.

    Raises InvalidInputError (it is none), InfrastructureError (also code="key_unknown": its sender repeats it)."""
    found = _admit([read_event(request, capability)], deps, final=False)
    if found.outage is not None:
        raise found.outage
    deps.forward(found.admitted)
    return found.reported[0]


def read_event(request: EventReport, capability: str) -> str:
    """Return the text of the message for a reported event.

    Raises InvalidInputError(code="event_invalid"), and "capability_invalid"."""
    if request.event is not None:
        raw = {"v": request.v, "token": request.token, "event": request.event}
        return codec.encode(raw).decode("utf-8", "surrogatepass")
    name = request.name or request.event_type
    if name not in DONE | FAILED | SIGNS:
        raise InvalidInputError(
            f"{name[:80]!r} cannot be reported",
            code="event_invalid" if name else "body_invalid",
            hint=f"one of {', '.join(sorted(DONE | FAILED | SIGNS))}",
        )
    shown = request.command or capability
    if not shown:
        raise InvalidInputError(
            "an event says for which command it speaks",
            code="event_invalid",
            hint="send what came with the command as `command`, or in the header Noetl-Command",
        )
    command = read_capability(shown)
    if request.execution_id is not None and str(request.execution_id) != str(command.execution_id):
        raise InvalidInputError("the command belongs to another execution", code="event_invalid")
    if command.round >= 0 and name in SIGNS:
        return encode_message(Message(VERSION, token=command.token, event=_sign_of_items(command)))
    if command.round >= 0:
        raise InvalidInputError(
            "a command with items answers for each of them",
            code="event_invalid",
            hint="send {v, token, event} with an event of the type items",
        )
    event = CommandDone.of(
        command, Outcome("suspended") if name in SIGNS else _outcome(name, request.payload)
    )
    return encode_message(Message(VERSION, token=command.token, event=event))


def _sign_of_items(command: Capability) -> ItemsDone:
    event_id = ids.outcome_event(command.command_id, command.turn)
    return ItemsDone.of(command, event_id, command.round, [], closed=False)


def _outcome(name: str, payload: Mapping[str, Any]) -> Outcome:
    check_tree(dict(payload), "event")
    if name in DONE:
        result = next((payload[key] for key in ("result", "response", "data") if key in payload), None)
        size = len(codec.encode(result))
        if size > INLINE_BYTES.value:
            remedy = "a worker puts large results into the store of results and reports the reference"
            raise exceeded(INLINE_BYTES, size, "the result", code="event_invalid", remedy=remedy)
        return Outcome("ok", result=result)
    error = payload.get("error")
    try:
        error_body = {"message": error or "failed"} if error is None or isinstance(error, str) else error
        return Outcome("error", error=codec.convert(error_body, ErrorInfo))
    except msgspec.ValidationError as invalid:
        raise InvalidInputError(f"payload.error does not fit: {invalid}", code="event_invalid") from invalid


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of checking a batch of messages.

    ``reported``: the answer for each message. ``admitted``: those for the engine. ``outage``: why some can be neither admitted nor refused yet.
    """

    reported: list[ReportedEvent]
    admitted: list[tuple[str, Event]]
    outage: InfrastructureError | None


def _admit(texts: Sequence[str], deps: EventsDeps, *, final: bool) -> _Found:
    """Check the messages' tokens with the door.

    ``final``: the batch is not tried again, so an unknown key is refused. Raises InfrastructureError when the store is unreachable.
    """
    received = UNKNOWN_KEY_DELIVERIES if final else 1
    deliveries = [Delivery(f"http-{place}", "", text, received) for place, text in enumerate(texts)]
    found = deps.door.admit(deliveries)
    let_in = {delivery.message_id: event for delivery, event in found.events}
    reported: list[ReportedEvent] = []
    admitted: list[tuple[str, Event]] = []
    for delivery in deliveries:
        event = let_in.get(delivery.message_id)
        if isinstance(event, (CommandDone, ItemsDone)):
            wanted = not _still_runs(event) or deps.renew_lease(
                event.execution_id, event.command_id, event.attempt, event.turn
            )
            reported.append(ReportedEvent(event.event_id, str(event.execution_id), wanted=wanted))
            if not _is_sign(event):
                admitted.append((delivery.body, event))
            continue
        code = "event_unreadable" if delivery in found.unread else "event_refused"
        reported.append(ReportedEvent("", "", code))
    outage = next(iter(found.outages), None)
    if outage is None or final:
        for one in reported:
            if one.code:
                deps.refused(one.code)
    return _Found(reported, admitted, outage)


def _still_runs(event: CommandDone | ItemsDone) -> bool:
    """Check whether the worker still has the command: a heartbeat, or a part of a chunk."""
    if isinstance(event, ItemsDone):
        return not event.last
    return _is_sign(event)


def _is_sign(event: CommandDone | ItemsDone) -> bool:
    if isinstance(event, ItemsDone):
        return not event.items and not event.last
    return event.outcome.status == "suspended" and event.outcome.suspend is None


# --- many at once -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventBatchRequest:
    """A request to accept a batch of events.

    ``key``: of the caller, empty for none. ``batch_id``: made from the request. ``again``: the outcome of an earlier attempt with this id
    is unknown.
    """

    batch_id: int
    events: Sequence[EventReport]
    key: str
    principal: str
    fingerprint: str
    again: bool = False


def accept_batch(request: EventBatchRequest, deps: EventsDeps) -> tuple[EventBatch, bool]:
    """Store a batch, to be handled later.

    Returns the batch and True; for a repeat under its key, the batch as it is now and False.

    Raises InvalidInputError for events that cannot be read at all (none is kept then), ConflictError(code="idempotency_conflict").
    """
    count = len(request.events)
    if count > MOST_EVENTS:
        raise exceeded(BATCH_EVENTS, count, "a batch", code="batch_size", remedy="send several batches")
    if not count:
        raise InvalidInputError(f"a batch holds 1 to {MOST_EVENTS} events, not 0", code="batch_size")
    texts = [_placed(place, event) for place, event in enumerate(request.events)]
    batch, fresh = _keep_batch(request, texts, deps)
    if batch.fingerprint != request.fingerprint:
        raise ConflictError(
            "this Idempotency-Key belongs to another batch",
            code="idempotency_conflict",
            hint="use a new key for a new batch",
        )
    return batch, fresh


def _keep_batch(request: EventBatchRequest, texts: list[str], deps: EventsDeps) -> tuple[EventBatch, bool]:
    """Store a batch under the first id that no other batch has.

    A batch that is there already is the answer only when the request has a key, or its earlier attempt may have stored it.
    """
    for number in range(TRIES):
        try:
            batch, fresh = deps.batches.accept(
                request.batch_id + number,
                texts,
                key=request.key,
                fingerprint=request.fingerprint,
                principal=request.principal,
            )
        except IdTakenError:
            continue
        if fresh or request.key or (request.again and number == 0):
            return batch, fresh
    raise busy()


def _placed(place: int, request: EventReport) -> str:
    try:
        return read_event(request, "")
    except InvalidInputError as error:
        raise InvalidInputError(
            f"events[{place}]: {error.message}", code=error.code, hint=error.hint
        ) from error


def process_batch(batch_id: int, deps: EventsDeps) -> EventBatch | None:
    """Handle a waiting batch; None when another process does, or it has ended.

    To repeat it does no harm: events have ids.

    A batch with an event that cannot be judged yet (its key is unknown, its body cannot be read) stays unfinished for ``GIVE_UP_SECONDS``.
    Raises InfrastructureError: the process that finds it unfinished tries it again (``resume_batches``).
    """
    batch = deps.batches.begin(batch_id, STALE_SECONDS)
    if batch is None:
        return None
    final = deps.door.clock() - batch.created_at > GIVE_UP_SECONDS
    found = _admit(batch.messages, deps, final=final)
    deps.forward(found.admitted)
    if found.outage is not None and not final:
        deps.door.log(f"batch {batch_id} is handled again later: {found.outage.message}")
        return deps.batches.get(batch_id)
    status: BatchStatus = "completed" if all(not one.code for one in found.reported) else "failed"
    _record(batch, status, found.reported, deps.store)
    deps.batches.end(batch_id, status, found.reported)
    return deps.batches.get(batch_id)


def resume_batches(deps: EventsDeps, limit: int = 20) -> int:
    """Handle at most ``limit`` batches that were left, and delete those that ended long ago.

    Returns how many were handled.
    One that breaks its handler keeps none of the others waiting. Raises InfrastructureError: the rest is left for the next time."""
    done = 0
    for batch_id in deps.batches.unfinished(LEFT_SECONDS, STALE_SECONDS, limit):
        try:
            done += process_batch(batch_id, deps) is not None
        except InfrastructureError:
            raise
        except BaseException as error:
            deps.door.log(f"batch {batch_id} could not be handled: {as_exception(error)!r}")
            _give_up(batch_id, deps)
    deps.batches.forget(KEPT_SECONDS)
    return done


def _give_up(batch_id: int, deps: EventsDeps) -> None:
    """End a batch that has broken its handler for a long time.

    Its sender sees that, and may send the events one by one.
    """
    batch = deps.batches.get(batch_id)
    if batch is not None and deps.door.clock() - batch.created_at > GIVE_UP_SECONDS:
        refused = [ReportedEvent("", "", "batch_broken") for _ in range(batch.total)]
        deps.batches.end(batch_id, "failed", refused)


def find_batch(batch_id: int, deps: EventsDeps) -> EventBatch:
    """Return a batch. Raises NotFoundError(code="batch_not_found")."""
    batch = deps.batches.get(batch_id)
    if batch is None:
        raise NotFoundError(
            f"there is no batch {batch_id}", code="batch_not_found", hint="batches are forgotten after a week"
        )
    return batch


def _record(batch: EventBatch, status: str, reported: Sequence[ReportedEvent], store: ExecutionStore) -> None:
    """Record a batch beside the histories of its executions: its arrival and its outcome."""
    rows: list[tuple[int, EventRow]] = []
    for execution_id in sorted({int(one.execution_id) for one in reported if one.execution_id}):
        own = [one for one in reported if one.execution_id == str(execution_id)]
        about = {"batch_id": str(batch.batch_id), "events": len(own)}
        for what, names in (
            ("accepted", ["batch.accepted"]),
            ("ended", ["batch.processing", f"batch.{status}"]),
        ):
            fact = codec.encode([{"name": name, **about} for name in names])
            rows.append(
                (execution_id, EventRow(f"batch:{batch.batch_id}:{what}", 0, names[-1], fact, lane=-1))
            )
    if rows:
        store.record_superseded(rows)
