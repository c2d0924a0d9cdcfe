"""The kind ``container``: runs a container to its end; no worker is held while it runs.

Docker or Podman on one machine, Fargate on a deployment.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import PollRequest
from noetl.domain.workers.container_jobs import Job, JobOrder
from noetl.kinds.support.subprocess_task import ProgramParams, Scalar, as_text, last_line_value

SPEC = KindSpec(
    name="container",
    summary="Runs a container image to its end.",
    pool="io",
    result_fields=("exit_code", "logs", "data"),
    default_timeout=3600.0,
    needs_network=True,
    poll_seconds=60.0,
    own_worker=True,
    extra="aws",
)

EXAMPLE: dict[str, Any] = {
    "image": "python:3.13-slim",
    "command": ["python", "-c", "print('{\"rows\": 3}')"],
    "env": {"DAY": "2026-11-21"},
    "cpu": 0.5,
    "memory": 1024,
}

FIRST_DELAY, LONGEST_DELAY, GROWTH = 0.5, 30.0, 1.5
MISSES = 10
"""Questions in a row that may go wrong on the way before the task does."""
LOG_LINES = 200
LOG_TAIL = 4000
"""Characters of the output that an error shows."""
_KINDS = {
    "image_pull_failed": ("not_found", False, "is the name right, and may this place pull it?"),
    "out_of_memory": ("storage_quota", False, "give it more `memory`"),
    "start_failed": ("client_error", False, "does the image have this command?"),
    "start_refused": ("connection", True, None),
    "host_lost": ("worker_lost", True, None),
    "stopped": ("cancelled", False, None),
}


class Params(ProgramParams):
    """``image`` with ``command`` and ``args``, ``env`` and ``secrets``."""

    refused: ClassVar[Mapping[str, str]] = {
        "volumes": "read and write through S3, a database or an API",
        "ports": "nothing can connect to it",
        "privileged": "it has no rights on its host",
        "auth": "name credentials under `secrets`: { VARIABLE: credential }",
        "timeout": "write `spec: { timeout: … }`",
    }
    sensitive: ClassVar[frozenset[str]] = frozenset({"env"})

    image: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][A-Za-z0-9._/:@-]{0,500}$",
            description="Name in a registry, best with a tag or a digest.",
        ),
    ]
    command: Annotated[
        list[Scalar],
        Field(
            default_factory=list,
            description="What it runs instead of the image's own command: a list, or a text that is split at spaces.",
        ),
    ]
    secrets: Annotated[
        dict[str, str],
        Field(
            default_factory=dict,
            description="Variable: name of a credential. The variable holds it as JSON, {type, data}.",
        ),
    ]
    cpu: Annotated[float, Field(gt=0, le=16, description="Processors, or parts of one.")] = 0.25
    memory: Annotated[
        int, Field(ge=64, le=122_880, description="MiB of memory; one that wants more is ended.")
    ] = 512

    @field_validator("command", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        return shlex.split(value) if isinstance(value, str) else value

    @field_validator("command", "secrets")
    @classmethod
    def _no_nul(cls, value: Any) -> Any:
        if any("\0" in str(item) for item in value):
            raise ValueError("it cannot hold a NUL character")
        return value

    def words(self) -> tuple[str, ...]:
        """Return the command line of the container; empty: the image's own."""
        return tuple(as_text(value) for value in (*self.command, *self.args))


def run(params: Params, context: TaskContext) -> TaskResult | PollRequest:
    """Run the container: ``{exit_code, logs, data}``.

    ``data`` is the last line of the output when that is JSON, else None.

    Raises TaskError: ``exit_<n>`` (``details``: the end of the output), ``image_pull_failed``, ``out_of_memory``, ``start_failed``,
    ``start_refused``, ``host_lost``, ``stopped``, ``containers_unavailable``, ``container_lost``.
    """
    if context.pending is None:
        name = context.jobs.start(_order(params, context))
        return PollRequest({"name": name, "delay": FIRST_DELAY}, FIRST_DELAY)
    pending = dict(context.pending)
    try:
        job = context.jobs.look(pending["name"])
    except TaskError as error:
        pending["misses"] = pending.get("misses", 0) + 1
        if not error.retryable or pending["misses"] > MISSES:
            raise
        return _later(pending)
    if job is None and not pending.get("seen"):
        # Whoever was preparing it is gone: the same order again starts it once.
        context.jobs.start(_order(params, context))
        return _later(pending)
    if job is None:
        raise TaskError(
            f"the container {pending['name']} is not known any more: its outcome is lost",
            kind="worker_lost",
            code="container_lost",
            retryable=True,
        )
    if job.state != "ended":
        return _later({**pending, "misses": 0, "seen": job.state == "running"})
    return _ended(job, pending["name"], params, context)


def stop(state: Mapping[str, Any], context: TaskContext) -> None:
    """End the container."""
    context.jobs.stop(str(state["name"]), "no step waits for it any more")


def _order(params: Params, context: TaskContext) -> JobOrder:
    return JobOrder(
        params.image,
        f"{context.idempotency_key}/{context.attempt}",
        params.words(),
        {name: as_text(value) for name, value in params.env.items()},
        params.secrets,
        params.cpu,
        params.memory,
        context.left or context.timeout,
        context.wake,
        context.credential,
    )


def _later(pending: dict[str, Any]) -> PollRequest:
    delay = min(LONGEST_DELAY, float(pending["delay"]) * GROWTH)
    return PollRequest({**pending, "delay": delay}, delay)


def _ended(job: Job, name: str, params: Params, context: TaskContext) -> TaskResult:
    logs = _logs(name, context)
    meta = {"container": {"name": name, "exit_code": job.exit_code}}
    if not job.problem and job.exit_code == 0:
        return TaskResult({"exit_code": 0, "logs": logs, "data": last_line_value(logs)}, meta)
    details: dict[str, Any] = {"container": name, "image": params.image, "logs": logs[-LOG_TAIL:]}
    if job.exit_code is not None:
        details["exit_code"] = job.exit_code
    if job.problem:
        kind, retryable, hint = _KINDS.get(job.problem, ("unknown", False, None))
        message = f"the container of {params.image} {_WORDS.get(job.problem, 'failed')}"
        reason = f"{message}: {job.reason}" if job.reason else message
        raise TaskError(reason, kind=kind, code=job.problem, retryable=retryable, hint=hint, details=details)
    last = logs.strip().rsplit("\n", 1)[-1][:300]
    raise TaskError(
        f"the container of {params.image} ended with exit code {job.exit_code}"
        + (f": {last}" if last else ""),
        kind="unknown",
        code=f"exit_{job.exit_code}",
        details=details,
    )


_WORDS = {
    "image_pull_failed": "has no image",
    "out_of_memory": "wanted more memory than it has",
    "start_failed": "could not be started",
    "start_refused": "was given no place to run",
    "host_lost": "lost its host",
    "stopped": "was stopped from outside",
}


def _logs(name: str, context: TaskContext) -> str:
    """Read the end of the output; without it, how the container ended counts all the same."""
    try:
        return context.jobs.logs(name, LOG_LINES)[-context.settings.output_max_bytes // 4 :]
    except TaskError as error:
        context.log(f"the output of the container {name} cannot be read: {error}")
        return ""
