"""Starts playbooks by their schedules and triggers: invoked by EventBridge Scheduler, EventBridge rules and SQS queues. Follow
``services/automations/ingest_triggers.py`` from here."""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.schedules import open_scheduler
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry

scheduler = open_scheduler(CloudSettings.from_env())


def handler(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    """``event``: one firing, one event, or a batch of messages; of the last, the answer names those that the queue has to keep."""
    with telemetry.invocation(context) as call:
        return scheduler.handle(event, call)
