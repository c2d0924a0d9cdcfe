"""Starts by triggers: an object in S3, an event on a bus, a message in a queue.

The event becomes ``event`` of the workload. It starts one execution per playbook, regardless of how often it is delivered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import find_unfit
from noetl.services.executions.start_execution import Started
from noetl.services.executions.start_playbook import StartDeps, start_playbook

_KEPT = ("messageId", "attributes", "messageAttributes", "eventSourceARN")


def start_from_event(path: str, trigger: str, event: Mapping[str, Any], deps: StartDeps) -> Started:
    """Start a playbook for an event as EventBridge delivers it.

    Raises InvalidInputError(code="not_an_event") for anything else, NotFoundError, InfrastructureError.
    """
    key = event_key(path, event)
    return start_playbook(
        path, None, {"event": dict(event)}, by=f"{path}:{trigger}", kind="trigger", key=key, deps=deps
    )


def start_from_message(path: str, record: Mapping[str, Any], deps: StartDeps) -> Started:
    """Start a playbook for an SQS record as Lambda delivers it.

    Raises InvalidInputError(code="not_a_message"), NotFoundError, InfrastructureError.
    """
    message = message_event(record)
    key = message_key(path, message)
    by = f"{path}:{str(message.get('eventSourceARN', '')).rpartition(':')[2]}"
    return start_playbook(path, None, {"event": message}, by=by, kind="trigger", key=key, deps=deps)


def message_event(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a playbook sees it: no receipt, and a JSON body decoded."""
    body = record.get("body")
    if not isinstance(record.get("messageId"), str) or not isinstance(body, str):
        raise InvalidInputError("a message has a messageId and a body", code="not_a_message")
    return {**{key: record[key] for key in _KEPT if key in record}, "body": _read(body)}


def message_key(path: str, message: Mapping[str, Any]) -> str:
    """Return the idempotency key of a message: the same for each of its deliveries.

    ``message``: as ``message_event`` returns it.
    """
    return f"sqs:{_digest(path, message.get('eventSourceARN', ''), message['messageId'])}"


def _read(body: str) -> Any:
    """Only mappings and lists: a text that happens to look like a number stays a text."""
    if body.lstrip()[:1] not in ("{", "["):
        return body
    try:
        found = codec.decode(body)
    except (ValueError, RecursionError):
        return body
    return body if find_unfit(found) else found


def event_key(path: str, event: Mapping[str, Any]) -> str:
    """Return the idempotency key of an event. Raises InvalidInputError(code="not_an_event")."""
    event_id, source, detail = event.get("id"), event.get("source"), event.get("detail")
    if not all(isinstance(text, str) and text for text in (event_id, source, event.get("detail-type"))):
        raise InvalidInputError("an event has an id, a source and a detail-type", code="not_an_event")
    if source == "aws.s3" and isinstance(detail, Mapping):
        parts = _object_change(detail)
        if parts is not None:
            return f"s3:{_digest(path, event['detail-type'], *parts)}"
    return f"event:{_digest(path, source, event_id)}"


def _object_change(detail: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the change of an object that an S3 event reports; None for another event.

    S3 may report one change twice, under different event ids but with the same sequencer.
    """
    bucket, changed = detail.get("bucket"), detail.get("object")
    if not isinstance(bucket, Mapping) or not isinstance(changed, Mapping) or not changed.get("sequencer"):
        return None
    found = (bucket.get("name"), changed.get("key"), changed.get("version-id", ""), changed["sequencer"])
    return tuple(map(str, found))


def _digest(*parts: Any) -> str:
    return hashlib.sha256(codec.encode([str(part) for part in parts])).hexdigest()
