"""Runs the commands of one queue; deployed once per worker (NOETL_WORKER). Follow ``services/work_batch.py`` from here."""

from __future__ import annotations

from typing import Any

from noetl.runtime.cloud_settings import CloudSettings
from noetl.runtime.cloud_worker import open_worker, report
from noetl.runtime.sqs_records import batch_answer, deliveries
from noetl.runtime.telemetry import telemetry

worker = open_worker(CloudSettings.from_env())


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """``event``: commands from SQS. The answer names those that the queue has to keep."""
    with telemetry.invocation(context) as call:
        worked = worker.work(deliveries(event), lambda: context.get_remaining_time_in_millis() / 1000)
        report(call, worked)
        return batch_answer(worked.give_back)
