"""Whether a deployment has all it needs: what ``GET /ready`` asks, and maintenance before it sends dead letters back."""

from __future__ import annotations

from collections.abc import Callable

from noetl.adapters.aws.clients import answering, make_client
from noetl.adapters.postgres.migrations import check_current
from noetl.runtime.aws.database import database_address
from noetl.runtime.aws.settings import CloudSettings


def readiness(settings: CloudSettings) -> dict[str, Callable[[], None]]:
    """Checks by name. Each raises InfrastructureError when what it is named after is missing."""
    return {
        "database": lambda: check_current(database_address(settings)),
        "queues": lambda: _queues_answer(settings),
        "results": lambda: _bucket_answers(settings.results_bucket),
    }


def pools(settings: CloudSettings) -> frozenset[str]:
    """Pools that workers over HTTP can register for: every worker that there is a queue for."""
    return frozenset(settings.workers.keys() | set(settings.queues.values()))


def queue_urls(settings: CloudSettings) -> dict[str, str]:
    """Name → URL of every queue of the deployment."""
    return {
        "events": settings.events_queue,
        "timers": settings.timers_queue,
        **{f"commands-{worker}": f"{settings.queue_prefix}{worker}" for worker in sorted(pools(settings))},
    }


def _queues_answer(settings: CloudSettings) -> None:
    """Raises InfrastructureError when one is missing."""
    sqs = make_client("sqs")
    for url in queue_urls(settings).values():
        with answering("sqs"):
            sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])


def _bucket_answers(bucket: str) -> None:
    """Raises InfrastructureError. Listing is what this function may do; the bucket's head would need the same right."""
    with answering("s3"):
        make_client("s3").list_objects_v2(Bucket=bucket, MaxKeys=1, Prefix="programs/")
