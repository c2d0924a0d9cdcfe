"""Triggers as the services that watch for them want to be asked."""

from __future__ import annotations

from typing import Any

from noetl.dsl.program import EventBridgeTrigger, S3Trigger, SqsTrigger

_S3_EVENTS = {"created": "Object Created", "deleted": "Object Deleted"}


def event_pattern(trigger: S3Trigger | EventBridgeTrigger) -> dict[str, Any]:
    """Return the pattern of the EventBridge rule."""
    if isinstance(trigger, EventBridgeTrigger):
        return trigger.pattern
    detail: dict[str, Any] = {"bucket": {"name": [trigger.bucket]}}
    if trigger.prefix or trigger.suffix:
        detail["object"] = {"key": [_key(trigger.prefix, trigger.suffix)]}
    return {
        "source": ["aws.s3"],
        "detail-type": [_S3_EVENTS[event] for event in trigger.events],
        "detail": detail,
    }


def _key(prefix: str, suffix: str) -> dict[str, str]:
    if not suffix:
        return {"prefix": prefix}
    if not prefix:
        return {"suffix": suffix}
    literal = [part.replace("\\", "\\\\").replace("*", "\\*") for part in (prefix, suffix)]
    return {"wildcard": "*".join(literal)}


def queue_name(trigger: SqsTrigger) -> str:
    """Return the queue's name, also when the playbook has its ARN."""
    return trigger.queue.rpartition(":")[2]
