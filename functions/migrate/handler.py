"""Migrates the schema and registers the deployment's playbooks, when CloudFormation says so. Follow ``runtime/aws/migrate.py`` from here.

Two roles: the owner of the schema (this function signs in as it) and, where the deployment has one, the role of the other functions,
which this function makes.
"""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.migrate import on_event, open_migration
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry

settings = CloudSettings.from_env()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """``event``: a custom resource is created, updated or deleted. An error makes CloudFormation roll back."""
    with telemetry.invocation(context) as call:
        call.note(resource=event.get("ResourceType"), request=event.get("RequestType"))
        return on_event(event, lambda: open_migration(settings))
