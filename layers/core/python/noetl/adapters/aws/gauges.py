"""Fill levels of SQS queues."""

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
_COMMANDS = "commands-"


def read_gauges(client: Any, queues: Mapping[str, str]) -> Sequence[QueueGauge]:
    """Read how many messages each queue and its dead-letter queue hold.

    ``queues``: name to show → URL. Queues of commands share a dead-letter queue, which is shown as ``commands-dlq``; each other queue has
    its own (``dead_letters``). Raises InfrastructureError.
    """
    found = [_gauge(client, name, url) for name, url in queues.items()]
    for name, url in queues.items():
        if name.startswith(_COMMANDS):
            dead = _numbers(client, dead_commands(url.removesuffix(name.removeprefix(_COMMANDS))))
            return [*found, QueueGauge(f"{_COMMANDS}dlq", 0, dead[1], 0, failed=dead[0])]
    return found


def dead_commands(prefix: str) -> str:
    """Return the URL of the dead letters of all commands.

    ``prefix``: a queue of commands without its worker.
    """
    return f"{prefix}dlq"


def dead_letters(url: str) -> str:
    """Return the URL of a queue's dead letters.

    ``…-events.fifo`` → ``…-events-dlq.fifo``, ``…-timers`` → ``…-timers-dlq``.
    """
    if url.endswith(_FIFO):
        return f"{url.removesuffix(_FIFO)}-dlq{_FIFO}"
    return f"{url}-dlq"


def count_messages(client: Any, url: str) -> int:
    """Return how many messages a queue holds, as it counts them, hidden ones too.

    Raises InfrastructureError.
    """
    waiting, in_flight, _ = _numbers(client, url)
    return waiting + in_flight


def _gauge(client: Any, name: str, url: str) -> QueueGauge:
    waiting, in_flight, delayed = _numbers(client, url)
    failed = 0 if name.startswith(_COMMANDS) else _numbers(client, dead_letters(url))[0]
    return QueueGauge(name, waiting, in_flight, delayed, failed=failed)


def _numbers(client: Any, url: str) -> list[int]:
    with answering("sqs"):
        answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=list(_NUMBERS))
    return [int(answer.get("Attributes", {}).get(name, 0)) for name in _NUMBERS]
