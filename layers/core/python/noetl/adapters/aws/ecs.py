"""Workers as Fargate tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from noetl.adapters.aws.clients import FAILURES, answering, away, error_code, error_message
from noetl.domain.errors import ConflictError, InfrastructureError
from noetl.ports.containers import Container

State = Literal["starting", "running", "stopping", "stopped"]
_STATES: Mapping[str, State] = {
    "PROVISIONING": "starting",
    "PENDING": "starting",
    "ACTIVATING": "starting",
    "RUNNING": "running",
    "DEACTIVATING": "stopping",
    "STOPPING": "stopping",
    "DEPROVISIONING": "stopping",
    "STOPPED": "stopped",
    "DELETED": "stopped",
}


class FargateTasks:
    """``container``: the name of the worker's container in the task definition. ``public``: give tasks a public address (subnets
    without NAT). ECS forgets a stopped task after about an hour."""

    def __init__(
        self,
        cluster: str,
        task_definition: str,
        subnets: Sequence[str],
        security_groups: Sequence[str],
        client: Any,
        *,
        container: str = "worker",
        public: bool = False,
    ) -> None:
        self._cluster = cluster
        self._task_definition = task_definition
        self._network = {
            "awsvpcConfiguration": {
                "subnets": list(subnets),
                "securityGroups": list(security_groups),
                "assignPublicIp": "ENABLED" if public else "DISABLED",
            }
        }
        self._client = client
        self._container = container

    def start(self, token: str, environment: Mapping[str, str]) -> str:
        variables = [{"name": name, "value": value} for name, value in sorted(environment.items())]
        with answering("ecs"):
            try:
                answer = self._client.run_task(
                    cluster=self._cluster,
                    taskDefinition=self._task_definition,
                    launchType="FARGATE",
                    count=1,
                    clientToken=hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest(),
                    networkConfiguration=self._network,
                    overrides={"containerOverrides": [{"name": self._container, "environment": variables}]},
                    startedBy="noetl",
                    propagateTags="TASK_DEFINITION",
                )
            except FAILURES as error:
                if error_code(error) != "ConflictException":
                    raise
                raise ConflictError(
                    f"token {token!r} has started a task with other variables", code="container_token"
                ) from error
        if not answer.get("tasks"):
            failures = ", ".join(str(failure.get("reason")) for failure in answer.get("failures", ()))
            raise InfrastructureError(
                f"Fargate started no task: {failures or 'no reason given'}", code="container_refused"
            )
        return str(answer["tasks"][0]["taskArn"])

    def stop(self, container_id: str, reason: str) -> None:
        with answering("ecs"):
            try:
                self._client.stop_task(cluster=self._cluster, task=container_id, reason=reason[:1000])
            except FAILURES as error:
                if not is_unknown(error):
                    raise

    def describe(self, container_id: str) -> Container | None:
        try:
            answer = self._client.describe_tasks(cluster=self._cluster, tasks=[container_id])
        except FAILURES as error:
            if is_unknown(error):
                return None
            raise away(error, "ecs") from error
        return next((self._read(task) for task in answer.get("tasks", ())), None)

    def _read(self, task: dict[str, Any]) -> Container:
        codes = [
            found.get("exitCode")
            for found in task.get("containers", ())
            if found.get("name") == self._container
        ]
        state = _STATES.get(task.get("lastStatus", ""), "starting")
        return Container(
            container_id=task["taskArn"],
            state=state,
            exit_code=codes[0] if codes and state == "stopped" else None,
            reason=task.get("stoppedReason") or "",
        )


def is_unknown(error: Exception) -> bool:
    """A task that ECS has forgotten, or a text that names no task."""
    return error_code(error) == "InvalidParameterException" and "task" in error_message(error).lower()
