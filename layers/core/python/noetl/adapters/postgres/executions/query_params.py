"""Parameters of requests from outside: lists by filter, and events for executions."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.postgres.literals import documents, flag, flags, number, numbers, text, texts
from noetl.domain.events import Cancel, Event, Redrive, encode_event
from noetl.domain.labels import label_texts
from noetl.domain.results.retention import mentioned
from noetl.domain.state import TERMINAL
from noetl.ports.executions.answers import ExecutionFilter

MAX_ID = 2**63 - 1


def listing(
    limit: int, before: int | None, status: str | None, wanted: ExecutionFilter
) -> dict[str, bytes | None]:
    """What is None is not asked for."""
    return {
        "before": number(MAX_ID if before is None else before),
        "status": text(status or ""),
        "path": None if wanted.path is None else text(wanted.path),
        "parent": None if wanted.parent is None else number(wanted.parent),
        "since": None if wanted.started_after is None else number(wanted.started_after),
        "until": None if wanted.started_before is None else number(wanted.started_before),
        "program": None if wanted.program is None else text(wanted.program),
        "roots": flag(wanted.roots),
        "labels": texts(label_texts(wanted.labels)) if wanted.labels else None,
        "ids": None if wanted.ids is None else numbers(wanted.ids),
        "statuses": texts(wanted.statuses) if wanted.statuses else None,
        "pausing": flag(wanted.pausing),
        "principal": None if wanted.principal is None else text(wanted.principal),
        "error_code": None if wanted.error_code is None else text(wanted.error_code),
        "words": None if wanted.text is None else text(wanted.text.lower()),
        "limit": number(limit),
    }


def listing_query(status: str | None, wanted: ExecutionFilter) -> str:
    """The query whose plan begins with what narrows most."""
    if wanted.ids is not None:
        return "list_named"
    if wanted.parent is not None:
        return "list_children"
    return "list_live" if status and status not in TERMINAL else "list_executions"


def held(event: Event) -> bytes:
    """Return the executions whose results an event from outside refers to, as a parameter."""
    return numbers(sorted(mentioned(encode_event(event), event.execution_id)))


def posting(events: Sequence[Event], owner: str | None) -> dict[str, bytes | None]:
    payloads = [encode_event(event) for event in events]
    holds = [
        (event.execution_id, held)
        for event, payload in zip(events, payloads, strict=True)
        for held in sorted(mentioned(payload, event.execution_id))
    ]
    return {
        "holder_ids": numbers([holder for holder, _ in holds]),
        "held_ids": numbers([held for _, held in holds]),
        "owner": text(owner or ""),
        "execution_ids": numbers([event.execution_id for event in events]),
        "event_ids": texts([event.event_id for event in events]),
        "payloads": documents(payloads),
        "unborn": flags([isinstance(event, Cancel) for event in events]),
        "over": flags([isinstance(event, Redrive) for event in events]),
    }
