"""What the queues of a deployment know about an execution."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.command_tries import S3CommandTries
from noetl.adapters.aws.gauges import dead_letters, read_gauges
from noetl.adapters.aws.sqs import SqsQueue
from noetl.ports.command_tries import CommandTries
from noetl.ports.deliveries import DeadLetter
from noetl.ports.gauges import QueueGauge
from noetl.ports.results import ResultStore
from noetl.runtime.aws.readiness import queue_urls
from noetl.runtime.aws.settings import CloudSettings
from noetl.services.orchestrator.dead_letters import look, of_execution

MOST = 200
"""Dead letters that are looked through for those of one execution."""


class CloudDeliveries:
    """Looking leaves messages where they are, hidden for the moment that it takes."""

    def __init__(self, settings: CloudSettings, results: ResultStore) -> None:
        self._settings = settings
        self._results = results

    def dead_letters(self, execution_id: int) -> Sequence[DeadLetter]:
        settings = self._settings
        found: list[DeadLetter] = []
        for name, url, fifo in (
            ("events", settings.events_queue, True),
            ("timers", settings.timers_queue, False),
        ):
            dead = SqsQueue(dead_letters(url), make_client("sqs"), fifo=fifo)
            found += of_execution(look(name, dead, self._results, MOST), execution_id)
        return found

    def tries(self, execution_id: int, command_id: str, attempt: int, turn: int) -> CommandTries | None:
        store = S3CommandTries(self._settings.results_bucket, make_client("s3"))
        return store.get(execution_id, command_id, attempt, turn)

    def gauges(self) -> Sequence[QueueGauge]:
        return read_gauges(make_client("sqs"), queue_urls(self._settings))
