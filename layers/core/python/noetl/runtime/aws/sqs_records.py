"""What Lambda hands over when SQS invokes it, and what it wants back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl.ports.queue import Delivery


def deliveries(event: Mapping[str, Any]) -> list[Delivery]:
    """Return the messages of an invocation. Raises KeyError when SQS did not send it."""
    return [_delivery(record) for record in event["Records"]]


def batch_answer(give_back: Iterable[str]) -> dict[str, Any]:
    """Return the partial batch response: the queue keeps these messages, deletes the others."""
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in give_back]}


def _delivery(record: Mapping[str, Any]) -> Delivery:
    about = record.get("attributes", {})
    return Delivery(
        message_id=record["messageId"],
        receipt=record.get("receiptHandle", ""),
        body=record["body"],
        received=int(about.get("ApproximateReceiveCount", 1)),
        sent_at=int(about.get("SentTimestamp", 0)) / 1000,
        group=about.get("MessageGroupId", ""),
    )
