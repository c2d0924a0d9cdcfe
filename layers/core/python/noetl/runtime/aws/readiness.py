"""Readiness of a deployment.

``GET /ready`` reports it, and maintenance checks it before sending dead letters back.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.adapters.aws.clients import answering, make_client
from noetl.adapters.postgres.migrations import check_current
from noetl.runtime.aws.database import database_address
from noetl.runtime.aws.settings import CloudSettings


def readiness(settings: CloudSettings) -> dict[str, Callable[[], None]]:
    """Return the checks by name; each raises InfrastructureError when its part is missing."""
    return {
        "database": lambda: check_current(database_address(settings)),
        "queues": lambda: _queues_answer(settings),
        "results": lambda: _bucket_answers(settings.results_bucket),
    }


def pools(settings: CloudSettings) -> frozenset[str]:
    """Return the pools for workers over HTTP: every worker that there is a queue for."""
    return frozenset(settings.workers.keys() | set(settings.queues.values()))


def queue_urls(settings: CloudSettings) -> dict[str, str]:
    """Name → URL of every queue of the deployment."""
    return {
        "events": settings.events_queue,
        "timers": settings.timers_queue,
        **{f"commands-{worker}": f"{settings.queue_prefix}{worker}" for worker in sorted(pools(settings))},
    }


def _queues_answer(settings: CloudSettings) -> None:
    """Check that the queues answer. Raises InfrastructureError when one is missing."""
    sqs = make_client("sqs")
    for url in queue_urls(settings).values():
        with answering("sqs"):
            sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])


def _bucket_answers(bucket: str) -> None:
    """Check that the bucket answers a listing. Raises InfrastructureError.

    This function may list the bucket; asking for its head would need the same permission.
    """
    with answering("s3"):
        make_client("s3").list_objects_v2(Bucket=bucket, MaxKeys=1, Prefix="programs/")
