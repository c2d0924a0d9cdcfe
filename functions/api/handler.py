"""The API function: it answers the REST API behind API Gateway.

Follow ``api/table.py`` from here: every route with its endpoint, scope and shapes.
"""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.api import open_api
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry

api = open_api(CloudSettings.from_env())


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a request of an HTTP API (payload 2.0)."""
    with telemetry.invocation(context) as call:
        return api.handle(event, context, call)
