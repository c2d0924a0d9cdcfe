"""The migrate function: it migrates the schema and registers the deployment's playbooks.

CloudFormation calls it. Follow ``runtime/aws/migrate.py`` from here. The function signs in as the owner of the schema. It also makes the
role of the other functions, where the deployment has one.
"""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.migrate import on_event, open_migration
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import telemetry

settings = CloudSettings.from_env()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle the creation, update or deletion of a custom resource.

    An error makes CloudFormation roll back.
    """
    with telemetry.invocation(context) as call:
        call.note(resource=event.get("ResourceType"), request=event.get("RequestType"))
        return on_event(event, lambda: open_migration(settings))
