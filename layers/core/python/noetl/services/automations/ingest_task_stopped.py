"""EventBridge's report of an ended Fargate container, which wakes the waiting task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain.events import WorkAdvanced
from noetl.domain.workers.container_jobs import WAKE


def take_job_end(event: Mapping[str, Any]) -> WorkAdvanced | None:
    """Turn an ``ECS Task State Change`` into the event that wakes a task.

    None when no execution waits for the task, or it is no task of NoETL.
    """
    detail = event.get("detail")
    if event.get("source") != "aws.ecs" or not isinstance(detail, Mapping):
        return None
    if detail.get("lastStatus") != "STOPPED":
        return None
    execution, _, command = _wake(detail).partition("/")
    if not (
        execution.isascii() and execution.isdigit() and 0 < int(execution) < 2**63 and 0 < len(command) <= 200
    ):
        return None
    return WorkAdvanced(int(execution), f"work:{detail.get('taskArn', '')}", "", command)


def _wake(detail: Mapping[str, Any]) -> str:
    overrides = detail.get("overrides")
    containers = overrides.get("containerOverrides") if isinstance(overrides, Mapping) else None
    for container in containers if isinstance(containers, list) else ():
        for variable in container.get("environment") or () if isinstance(container, Mapping) else ():
            if isinstance(variable, Mapping) and variable.get("name") == WAKE:
                return str(variable.get("value", ""))
    return ""
