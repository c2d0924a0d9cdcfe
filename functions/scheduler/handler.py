"""The scheduler function: it starts playbooks by their schedules and triggers.

EventBridge Scheduler, EventBridge rules and SQS queues invoke it. Follow ``services/automations/ingest_triggers.py`` from here.
"""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.schedules import open_scheduler
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry

scheduler = open_scheduler(CloudSettings.from_env())


def handler(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    """Handle one firing, one event, or a batch of messages.

    For a batch, the answer names the messages that the queue has to keep.
    """
    with telemetry.invocation(context) as call:
        return scheduler.handle(event, call)
