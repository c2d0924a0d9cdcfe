"""The maintenance function: it relays unpublished rows and fails dead commands.

Follow ``services/orchestrator/sweep.py`` and ``services/orchestrator/fail_dead_commands.py`` from here.
"""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.maintenance import CloudMaintenance
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry

maintenance = CloudMaintenance(CloudSettings.from_env())


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle a tick of the clock, or a batch of dead letters from SQS.

    The answer names the messages that their queue has to keep.
    """
    with telemetry.invocation(context) as call:
        return maintenance.handle(event, lambda: context.get_remaining_time_in_millis() / 1000, call)
