"""Events that come in: what workers report over HTTP.

Events that come in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http import runtime_bodies as bodies
from noetl.api.http.command_tokens import is_granted
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import ForbiddenError
from noetl.api.http.route import Route
from noetl.api.http.runtime_bodies import BatchAnswer, BatchStatusAnswer, EventAnswer, EventsBody
from noetl.domain import ids
from noetl.domain.errors import InvalidInputError, as_exception
from noetl.domain.sizes.table import BATCH_BYTES
from noetl.domain.text.timestamps import Timestamp, maybe_timestamp
from noetl.domain.workers.command_token import HEADER, read_capability
from noetl.ports.event_batches import EventBatch
from noetl.services.orchestrator.ingest_worker_events import (
    EventBatchRequest,
    EventReport,
    accept_batch,
    find_batch,
    process_batch,
    resume_batches,
    take_event,
)

MOST_BYTES = BATCH_BYTES.value
"""Of a batch."""
_RESUMED = 2
"""Batches that were left behind, of which a request to this door takes care."""


def take(deps: ApiDeps, request: Request) -> Answer:
    """Accept an event: 202; 403 for a wrong token; 503 for a key that is not known yet.

    Refused events are counted.
    """
    with _counting(deps):
        return _take(deps, request)


def take_batch(deps: ApiDeps, request: Request) -> Answer:
    """202 as soon as the batch is durable.

    It is handled at once where that goes well, and later where it does not.
    """
    with _counting(deps):
        return _take_batch(deps, request)


@contextmanager
def _counting(deps: ApiDeps) -> Iterator[None]:
    """Read the events of a body; count what cannot be read.

    What cannot be read as events (what has no right to speak is counted where that is found out).
    """
    try:
        yield
    except InvalidInputError as error:
        deps.events.refused(error.code)
        raise


def _take(deps: ApiDeps, request: Request) -> Answer:
    capability = _let_in(deps, request)
    deps.pressure.check_event()
    body = parse.report_body(request, deps, EventReport)
    reported = take_event(body, capability, deps.events)
    if reported.code:
        raise ForbiddenError(
            "the event was refused: its token does not fit what it says",
            hint="send back what came with the command, unchanged",
            details={"reason": reported.code},
        )
    return Answer(202, EventAnswer(reported.event_id, reported.execution_id, wanted=reported.wanted))


def _take_batch(deps: ApiDeps, request: Request) -> Answer:
    _let_in(deps, request)
    deps.pressure.check_event()
    if len(request.body) > MOST_BYTES:
        raise parse.too_large(BATCH_BYTES, len(request.body), "the batch", "send several batches")
    body = parse.report_body(request, deps, EventsBody)
    batch_request = EventBatchRequest(
        ids.execution_id(request.now_ms, request.bits),
        body.events,
        parse.idempotency_key(request),
        request.principal.name,
        hashlib.sha256(request.body).hexdigest(),
        again=request.again,
    )
    batch, fresh = accept_batch(batch_request, deps.events)
    try:
        batch = process_batch(batch.batch_id, deps.events) or batch
        resume_batches(deps.events, _RESUMED)
    except BaseException as error:
        # It was accepted, and is durable.
        deps.log(f"batch {batch.batch_id} is left for later: {as_exception(error)!r}")
    key = request.headers.get("idempotency-key") or None
    answer = BatchAnswer(str(batch.batch_id), batch.total, not fresh, batch.status, key)
    location = f"/api/events/batch/{batch.batch_id}/status"
    return Answer(202, answer, headers={"Location": location})


def get_batch(deps: ApiDeps, request: Request) -> Answer:
    """A batch that was left behind is taken care of first."""
    _let_in(deps, request)
    batch_id = parse.execution_id(request.params["batch_id"])
    batch = find_batch(batch_id, deps.events)
    if batch.ended_at is None:
        resume_batches(deps.events, _RESUMED)
        batch = find_batch(batch_id, deps.events)
    return Answer(200, _status(batch))


def _status(batch: EventBatch) -> BatchStatusAnswer:
    refused = sum(bool(one.code) for one in batch.outcomes)
    return BatchStatusAnswer(
        str(batch.batch_id),
        batch.status,
        batch.total,
        len(batch.outcomes) - refused,
        refused,
        batch.outcomes,
        Timestamp(batch.created_at),
        maybe_timestamp(batch.ended_at),
    )


def _let_in(deps: ApiDeps, request: Request) -> str:
    """Return the token that the caller shows; "" without one.

    A caller without the scope ``worker`` needs the valid token of a command.

    Raises ForbiddenError, InvalidInputError(code="capability_invalid"), InfrastructureError(code="key_unknown").
    """
    shown = request.headers.get(HEADER.lower(), "")
    if "worker" in request.principal.scopes:
        return shown
    if not is_granted(deps, read_capability(shown)):
        deps.events.refused("capability_refused")
        raise ForbiddenError("this is not the token of a command", details={"scope": "worker"})
    return shown


def _report(path: str, name: str) -> Route:
    return Route(
        "POST",
        path,
        name,
        "Report the outcome of a command, or that it is being run. What a token does not cover is refused, recorded and counted.",
        "worker",
        take,
        {202: bodies.EventAnswer},
        "events",
        body=EventReport,
        for_commands=True,
        refuses=(429,),
    )


ROUTES: tuple[Route, ...] = (
    _report("/api/events", "reportEvent"),
    _report("/v1/events", "reportEventV1"),
    Route(
        "POST",
        "/api/events/batch",
        "reportEvents",
        "Report up to 256 events (2 MiB) at once. Accepted when they are durable; the status shows the outcome of each.",
        "worker",
        take_batch,
        {202: bodies.BatchAnswer},
        "events",
        body=bodies.EventsBody,
        keyed=True,
        for_commands=True,
        refuses=(429,),
    ),
    Route(
        "GET",
        "/api/events/batch/{batch_id}/status",
        "getEventBatch",
        "What became of a batch of events.",
        "worker",
        get_batch,
        {200: bodies.BatchStatusAnswer},
        "events",
        for_commands=True,
    ),
)
