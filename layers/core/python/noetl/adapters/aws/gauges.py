"""How full SQS queues are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.adapters.aws.clients import answering
from noetl.ports.gauges import QueueGauge

_NUMBERS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_FIFO = ".fifo"


def read_gauges(client: Any, queues: Mapping[str, str]) -> Sequence[QueueGauge]:
    """``queues``: name to show → URL; each has a dead-letter queue beside it (``dead_letters``). Raises InfrastructureError."""
    return [_gauge(client, name, url) for name, url in queues.items()]


def dead_letters(url: str) -> str:
    """``…-events.fifo`` → ``…-events-dlq.fifo``, ``…-timers`` → ``…-timers-dlq``."""
    if url.endswith(_FIFO):
        return f"{url.removesuffix(_FIFO)}-dlq{_FIFO}"
    return f"{url}-dlq"


def _gauge(client: Any, name: str, url: str) -> QueueGauge:
    waiting, in_flight, delayed = _numbers(client, url)
    return QueueGauge(name, waiting, in_flight, delayed, failed=_numbers(client, dead_letters(url))[0])


def _numbers(client: Any, url: str) -> list[int]:
    with answering("sqs"):
        answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=list(_NUMBERS))
    return [int(answer.get("Attributes", {}).get(name, 0)) for name in _NUMBERS]
