"""What the queues of a deployment know about an execution."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.command_tries import S3CommandTries
from noetl.adapters.aws.gauges import count_messages, dead_letters, read_gauges
from noetl.adapters.aws.sqs import SqsQueue
from noetl.ports.command_tries import CommandTries
from noetl.ports.deliveries import DeadLetter
from noetl.ports.gauges import QueueGauge
from noetl.ports.results import ResultStore
from noetl.runtime.aws.readiness import queue_urls
from noetl.runtime.aws.settings import CloudSettings
from noetl.services.messaging.operate_dead_letters import LetterQueue
from noetl.services.orchestrator.dead_letters import look, of_execution

MOST = 200
"""Dead letters that are looked through for those of one execution."""


def letter_queues(settings: CloudSettings) -> list[LetterQueue]:
    """Return the queues of dead letters of the engine, with those they came from."""
    return [
        _letter_queue("events", settings.events_queue, fifo=True),
        _letter_queue("timers", settings.timers_queue, fifo=False),
    ]


def _letter_queue(name: str, url: str, *, fifo: bool) -> LetterQueue:
    sqs, dead = make_client("sqs"), dead_letters(url)
    return LetterQueue(
        name,
        SqsQueue(dead, sqs, fifo=fifo),
        SqsQueue(url, sqs, fifo=fifo),
        lambda: count_messages(sqs, dead),
    )


class CloudDeliveries:
    """Looking leaves messages where they are, hidden for the moment that it takes."""

    def __init__(self, settings: CloudSettings, results: ResultStore) -> None:
        self._settings = settings
        self._results = results

    def dead_letters(self, execution_id: int) -> Sequence[DeadLetter]:
        found: list[DeadLetter] = []
        for one in letter_queues(self._settings):
            found += of_execution(look(one.name, one.dead, self._results, MOST), execution_id)
        return found

    def tries(self, execution_id: int, command_id: str, attempt: int, turn: int) -> CommandTries | None:
        store = S3CommandTries(self._settings.results_bucket, make_client("s3"))
        return store.get(execution_id, command_id, attempt, turn)

    def gauges(self) -> Sequence[QueueGauge]:
        return read_gauges(make_client("sqs"), queue_urls(self._settings))
