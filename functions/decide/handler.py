"""The decide function: it decides the outcomes that workers send by request.

Follow ``services/orchestrator/answer_requests.py`` from here.
"""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.engine import CloudEngine
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry

engine = CloudEngine(CloudSettings.from_env())


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Decide a worker's outcomes, and answer with the commands that are leased to it.

    ``event``: messages of the worker (``domain/workers/direct_requests.py``).
    """
    with telemetry.invocation(context, brief=True) as call:
        return engine.answer(event, lambda: context.get_remaining_time_in_millis() / 1000, call)
