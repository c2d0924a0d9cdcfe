"""Where a deployment runs containers of tasks."""

from __future__ import annotations

from functools import partial

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.ecs_jobs import EcsJobs, JobSettings
from noetl.domain.errors import InvalidInputError
from noetl.domain.workers.container_jobs import Jobs, NoJobs
from noetl.runtime.aws.settings import CloudSettings


def cloud_jobs(settings: CloudSettings) -> Jobs:
    """Fargate, where the environment has containers; no client is made before one is needed."""
    return _ecs_jobs(settings) or NoJobs(
        "this deployment runs no containers",
        "set `containers` of its environment (infra/environments.py), and deploy",
    )


def _ecs_jobs(settings: CloudSettings) -> EcsJobs | None:
    """None: this deployment has none. Raises InvalidInputError(code="setting_invalid")."""
    found = dict(settings.containers)
    if not found:
        return None
    try:
        subnets, groups = (
            tuple(filter(None, found.pop(name, "").split(","))) for name in ("subnets", "security_groups")
        )
        public = found.pop("public", "") == "1"
        ground = JobSettings(subnets=subnets, security_groups=groups, public=public, **found)
    except TypeError as error:
        raise InvalidInputError(f"NOETL_CONTAINERS does not fit: {error}", code="setting_invalid") from error
    return EcsJobs(ground, partial(make_client, "ecs"), partial(make_client, "logs"))
