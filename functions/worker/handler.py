"""The worker function: it runs the commands of one queue.

It is deployed once per worker (NOETL_WORKER). Follow ``services/worker/consume_commands.py`` from here.
"""

from __future__ import annotations

from typing import Any

from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.sqs_records import batch_answer, deliveries
from noetl.runtime.aws.telemetry import telemetry
from noetl.runtime.aws.worker import open_worker, report
from noetl.runtime.collector import collect_as_usual

worker = open_worker(CloudSettings.from_env())
collect_as_usual()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run SQS commands; the answer names those that the queue has to keep."""
    with telemetry.invocation(context) as call:
        worked = worker.work(deliveries(event), lambda: context.get_remaining_time_in_millis() / 1000)
        report(call, worked)
        return batch_answer(worked.give_back)
