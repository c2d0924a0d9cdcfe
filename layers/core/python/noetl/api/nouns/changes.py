"""Hints of changes over the API: as a stream, and by asking again.

An event is a hint that a topic changed; the client reads the data with the other routes.
"""

from __future__ import annotations

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import Parameter, Route
from noetl.api.live import changes
from noetl.domain.errors import NotFoundError

EVENT_STREAM = "text/event-stream"
_FRESH = {"Cache-Control": "no-store"}


class ChangePage(msgspec.Struct, frozen=True):
    """``next``: pass it as ``since`` to be answered what changes from then on."""

    changes: list[changes.Change]
    next: str


def get_stream(deps: ApiDeps, request: Request) -> Answer:
    """Stream events until the client leaves; headers ask proxies not to buffer them."""
    topics = changes.read_topics(request.query.get("topics", ""))
    known = changes.read_cursor(request.headers.get("last-event-id", ""))
    if deps.hub is None:
        raise NotFoundError(
            "this deployment has no streams",
            code="stream_unavailable",
            hint="ask GET /api/changes again and again",
        )
    headers = {**_FRESH, "X-Accel-Buffering": "no"}
    return Answer(200, events=deps.hub.watch(topics, known), headers=headers, content_type=EVENT_STREAM)


def get_changes(deps: ApiDeps, request: Request) -> Answer:
    topics = changes.read_topics(request.query.get("topics", ""))
    known = changes.read_cursor(request.query.get("since", ""))
    found, after = changes.changed(topics, deps.store.pulses(list(topics.values())), known)
    return Answer(200, ChangePage(found, changes.cursor(after)), headers=_FRESH)


_TOPICS = Parameter(
    "topics", "What is watched, with commas: `executions` (the list), `execution:ID`. At most 64."
)

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/stream",
        "getStream",
        "Changes of topics as server-sent events (`event: change`); `Last-Event-ID` continues after an event. On AWS there is none: 404.",
        "read",
        get_stream,
        {200: str},
        "changes",
        query=(_TOPICS,),
        media=EVENT_STREAM,
        refuses=(404, 429),
    ),
    Route(
        "GET",
        "/api/changes",
        "getChanges",
        "The same by asking again: topics that changed since the `next` of the answer before.",
        "read",
        get_changes,
        {200: ChangePage},
        "changes",
        query=(
            _TOPICS,
            Parameter("since", "The `next` of the answer before; without it every topic is answered."),
        ),
    ),
)
