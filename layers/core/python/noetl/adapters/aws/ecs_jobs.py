"""Containers of tasks as Fargate tasks.

There is a task definition per image and size, and a Fargate task per order.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from noetl.adapters.aws.clients import FAILURES, error_code, error_message, is_refusal
from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.workers.container_jobs import WAKE, Job, JobOrder

NAME = "job"
UNTIL = "NOETL_UNTIL"
"""The variable of a container that says until when it may run (epoch seconds)."""
STARTED_BY = "noetl-job"
TIDY_SECONDS = 300.0
MOST_OVERRIDES = 8000
"""Characters that ECS takes for command and variables together are 8192."""
_SIZES: Mapping[int, tuple[int, ...]] = {
    256: (512, 1024, 2048),
    512: tuple(range(1024, 4097, 1024)),
    1024: tuple(range(2048, 8193, 1024)),
    2048: tuple(range(4096, 16_385, 1024)),
    4096: tuple(range(8192, 30_721, 1024)),
    8192: tuple(range(16_384, 61_441, 4096)),
    16_384: tuple(range(32_768, 122_881, 8192)),
}
"""CPU units → MiB that Fargate has."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The place where jobs run.

    ``family``: prefix of the names of their task definitions. ``secrets``: ARN of credentials, up to their name.
    """

    cluster: str
    family: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
    execution_role: str
    task_role: str
    log_group: str
    region: str
    secrets: str = ""
    public: bool = False
    arch: str = "ARM64"


class EcsJobs:
    """Jobs as Fargate tasks of ECS. ``ecs``, ``logs``: makers of clients, called on first use."""

    def __init__(
        self,
        ground: JobSettings,
        ecs: Callable[[], Any],
        logs: Callable[[], Any],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._ground = ground
        self._ecs = ecs
        self._logs = logs
        self._now = now
        self._tidied = 0.0

    def start(self, order: JobOrder) -> str:
        self._tidy()
        ground = self._ground
        variables = {
            **order.env,
            UNTIL: str(int(self._now() + order.seconds)),
            **({WAKE: order.wake} if order.wake else {}),
        }
        override: dict[str, Any] = {
            "name": NAME,
            "environment": [{"name": name, "value": value} for name, value in sorted(variables.items())],
        }
        if order.command:
            override["command"] = list(order.command)
        if len(codec.encode(override)) > MOST_OVERRIDES:
            raise TaskError(
                "command and variables of a container have more than 8000 characters together",
                kind="schema",
                code="kind_params",
                hint="pass what is large by its address: an object in S3, a row",
            )
        try:
            answer = self._ecs().run_task(
                cluster=ground.cluster,
                taskDefinition=self._definition(order),
                launchType="FARGATE",
                count=1,
                clientToken=hashlib.sha256(order.token.encode("utf-8", "surrogatepass")).hexdigest(),
                networkConfiguration={
                    "awsvpcConfiguration": {
                        "subnets": list(ground.subnets),
                        "securityGroups": list(ground.security_groups),
                        "assignPublicIp": "ENABLED" if ground.public else "DISABLED",
                    }
                },
                overrides={"containerOverrides": [override]},
                startedBy=STARTED_BY,
                propagateTags="TASK_DEFINITION",
            )
        except FAILURES as error:
            raise _task_error(error) from error
        if not answer.get("tasks"):
            why = ", ".join(str(one.get("reason")) for one in answer.get("failures", ())) or "no reason given"
            raise TaskError(
                f"Fargate started no container: {why}",
                kind="connection",
                code="start_refused",
                retryable=True,
            )
        return str(answer["tasks"][0]["taskArn"])

    def look(self, name: str) -> Job | None:
        try:
            answer = self._ecs().describe_tasks(cluster=self._ground.cluster, tasks=[name])
        except FAILURES as error:
            if _is_unknown(error):
                return None
            raise _task_error(error) from error
        return next((job_of(task) for task in answer.get("tasks", ())), None)

    def logs(self, name: str, lines: int) -> str:
        stream = f"{NAME}/{NAME}/{name.rpartition('/')[2]}"
        try:
            answer = self._logs().get_log_events(
                logGroupName=self._ground.log_group, logStreamName=stream, limit=lines, startFromHead=False
            )
        except FAILURES as error:
            if error_code(error) == "ResourceNotFoundException":
                return ""
            raise _task_error(error) from error
        return "".join(f"{event['message']}\n" for event in answer.get("events", ()))

    def stop(self, name: str, reason: str) -> None:
        try:
            self._ecs().stop_task(cluster=self._ground.cluster, task=name, reason=reason[:255])
        except FAILURES as error:
            if not _is_unknown(error):
                raise _task_error(error) from error

    def _tidy(self) -> None:
        """Stop overdue Fargate tasks that no worker stopped; runs at most now and then."""
        if self._now() - self._tidied < TIDY_SECONDS:
            return
        self._tidied = self._now()
        try:
            pages = self._ecs().get_paginator("list_tasks")
            for page in pages.paginate(cluster=self._ground.cluster, startedBy=STARTED_BY):
                tasks = page.get("taskArns", ())
                if not tasks:
                    continue
                described = self._ecs().describe_tasks(cluster=self._ground.cluster, tasks=list(tasks))
                for task in described.get("tasks", ()):
                    if 0 < _until(task) < self._now():
                        self.stop(task["taskArn"], "its time is over")
        except FAILURES as error:
            raise _task_error(error) from error

    def _definition(self, order: JobOrder) -> str:
        """Return the family of the matching task definition, and register it when it is missing."""
        cpu, memory = size_of(order.cpu, order.memory)
        ground = self._ground
        container: dict[str, Any] = {
            "name": NAME,
            "image": order.image,
            "essential": True,
            "memory": memory,
            "secrets": [
                {"name": variable, "valueFrom": f"{ground.secrets}{name}"}
                for variable, name in sorted(order.secrets.items())
            ],
            "logConfiguration": {
                "logDriver": "awslogs",
                "options": {
                    "awslogs-group": ground.log_group,
                    "awslogs-region": ground.region,
                    "awslogs-stream-prefix": NAME,
                },
            },
        }
        wanted: dict[str, Any] = {
            "requiresCompatibilities": ["FARGATE"],
            "networkMode": "awsvpc",
            "cpu": str(cpu),
            "memory": str(memory),
            "executionRoleArn": ground.execution_role,
            "taskRoleArn": ground.task_role,
            "runtimePlatform": {"cpuArchitecture": ground.arch, "operatingSystemFamily": "LINUX"},
            "containerDefinitions": [container],
        }
        family = f"{ground.family}{hashlib.sha256(codec.encode(wanted)).hexdigest()[:24]}"
        try:
            self._ecs().describe_task_definition(taskDefinition=family)
        except FAILURES as error:
            if error_code(error) != "ClientException":
                raise
            self._ecs().register_task_definition(family=family, **wanted)
        return family


def size_of(cpu: float, memory: int) -> tuple[int, int]:
    """Return the smallest Fargate size, in CPU units and MiB, that has enough of both.

    Raises TaskError.
    """
    for units, sizes in _SIZES.items():
        for size in sizes:
            if units >= cpu * 1024 and size >= memory:
                return units, size
    raise TaskError(
        f"Fargate has no size with {cpu:g} processors and {memory} MiB",
        kind="schema",
        code="kind_params",
        hint="at most 16 processors and 122,880 MiB",
    )


def job_of(task: Mapping[str, Any]) -> Job:
    """Convert the description of a Fargate task by ECS to a Job."""
    if task.get("lastStatus") not in ("STOPPED", "DELETED"):
        return Job("running")
    task_containers: list[Mapping[str, Any]] = [
        one for one in task.get("containers", ()) if one.get("name") == NAME
    ]
    container = task_containers[0] if task_containers else {}
    code = container.get("exitCode")
    reason = str(container.get("reason") or task.get("stoppedReason") or "")
    return Job("ended", code, _problem(str(task.get("stopCode", "")), code, reason), reason[:500])


def _problem(stop_code: str, code: int | None, reason: str) -> str:
    if "OutOfMemory" in reason:
        return "out_of_memory"
    if "CannotPull" in reason or "pull image" in reason.lower():
        return "image_pull_failed"
    if stop_code in ("UserInitiated", "ServiceSchedulerInitiated"):
        return "stopped"
    if stop_code in ("SpotInterruption", "TerminationNotice") or "Host EC2" in reason:
        return "host_lost"
    if code is not None:
        return ""
    if "ResourceInitializationError" in reason or "Timeout waiting for network" in reason:
        return "start_refused"
    return "start_failed"


def _until(task: Mapping[str, Any]) -> float:
    for container in task.get("overrides", {}).get("containerOverrides", ()):
        for variable in container.get("environment", ()):
            if variable.get("name") == UNTIL and str(variable.get("value", "")).isdigit():
                return float(variable["value"])
    return 0.0


def _task_error(error: Exception) -> TaskError:
    if is_refusal(error):
        return TaskError(
            f"Fargate refuses: {error_message(error)}", kind="auth", code=error_code(error) or "refused"
        )
    return TaskError(
        f"Fargate cannot be reached: {error_message(error)}",
        kind="connection",
        code=error_code(error) or "containers_away",
        retryable=True,
    )


def _is_unknown(error: Exception) -> bool:
    """Return whether ECS has forgotten the task, or the text names no task."""
    return error_code(error) == "InvalidParameterException" and "task" in error_message(error).lower()
