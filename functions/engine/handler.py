"""The engine function: it handles the events of the FIFO queue, and the timers of theirs.

Follow ``services/orchestrator/consume_events.py`` from here.
"""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.engine import CloudEngine
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry

engine = CloudEngine(CloudSettings.from_env())


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle SQS messages; the answer names those that the queue has to keep."""
    with telemetry.invocation(context) as call:
        return engine.handle(event, lambda: context.get_remaining_time_in_millis() / 1000, call)
