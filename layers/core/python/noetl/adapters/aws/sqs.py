"""SQS queues, FIFO and standard."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from noetl.adapters.aws.clients import FAILURES, answering, error_code, unreachable
from noetl.adapters.queue_text import MAX_BYTES, sendable, shown
from noetl.domain.errors import InfrastructureError
from noetl.ports.queue import Delivery, Outgoing

BATCH = 10
LONGEST_POLL = 20
LONGEST_VISIBILITY = 43_200
ATTEMPTS = 4
"""Requests for an entry that the queue refuses for reasons of its own."""
BACKOFF_SECONDS = 0.05
WHY = "noetl-why"
"""Message attribute with the reason of a dead letter."""

Entry = dict[str, Any]


class SqsQueue:
    """A queue of SQS.

    ``limit``: bytes of a message and of a request (regions that do not take 1 MiB yet: 262144). ``sleep``: for tests.
    """

    def __init__(
        self,
        url: str,
        client: Any,
        *,
        fifo: bool,
        limit: int = MAX_BYTES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url
        self.name = url.rpartition("/")[2]
        self._client = client
        self._fifo = fifo
        self._limit = limit
        self._sleep = sleep

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        """Send messages; return the positions of those that stay unsent.

        Raises InvalidInputError before anything was sent, InfrastructureError when nothing could be sent.
        """
        entries = list(
            enumerate(map(self._entry, messages, sendable(messages, fifo=self._fifo, limit=self._limit)))
        )
        unsent: list[int] = []
        reached = False
        for batch in self._batches(entries):
            try:
                unsent += self._send_batch(batch)
                reached = True
            except InfrastructureError:
                if not reached:
                    raise
                # A queue that just went away is asked once per call, not once per batch.
                first = batch[0][0]
                return sorted({*unsent, *range(first, len(entries))})
        return sorted(unsent)

    def receive(self, limit: int, wait_seconds: float = 0.0) -> Sequence[Delivery]:
        with answering("sqs"):
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=max(1, min(limit, BATCH)),
                WaitTimeSeconds=min(LONGEST_POLL, math.ceil(wait_seconds)),
                MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp", "MessageGroupId"],
                MessageAttributeNames=[WHY],
            )
        return [_delivery(message) for message in answer.get("Messages", ())]

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        entries = [{"ReceiptHandle": delivery.receipt} for delivery in deliveries]
        self._settle(self._client.delete_message_batch, entries)

    def nack(self, deliveries: Sequence[Delivery], delay_seconds: int = 0) -> None:
        seconds = max(0, min(delay_seconds, LONGEST_VISIBILITY))
        entries = [
            {"ReceiptHandle": delivery.receipt, "VisibilityTimeout": seconds} for delivery in deliveries
        ]
        self._settle(self._client.change_message_visibility_batch, entries)

    def _entry(self, message: Outgoing, body: str) -> Entry:
        entry: Entry = {"MessageBody": body}
        if message.group:
            entry["MessageGroupId"] = message.group
        if message.why:
            entry["MessageAttributes"] = {WHY: {"DataType": "String", "StringValue": shown(message.why)}}
        if self._fifo:
            entry["MessageDeduplicationId"] = message.dedup
        elif message.delay:
            entry["DelaySeconds"] = message.delay
        return entry

    def _batches(self, entries: list[tuple[int, Entry]]) -> Iterator[list[tuple[int, Entry]]]:
        batch: list[tuple[int, Entry]] = []
        total = 0
        for place, entry in entries:
            size = len(entry["MessageBody"].encode())
            if batch and (len(batch) == BATCH or total + size > self._limit):
                yield batch
                batch, total = [], 0
            batch.append((place, entry))
            total += size
        if batch:
            yield batch

    def _send_batch(self, batch: list[tuple[int, Entry]]) -> list[int]:
        """Send one batch; return the positions that stay unsent."""
        try:
            answer = self._repeat(self._client.send_message_batch, [entry for _, entry in batch])
        except FAILURES as error:
            if error_code(error) != "BatchRequestTooLong" or len(batch) == 1:
                raise unreachable(error, "sqs") from error
            # A region that takes less than we were told: smaller requests may pass.
            middle = len(batch) // 2
            return self._send_batch(batch[:middle]) + self._send_batch(batch[middle:])
        return [batch[index][0] for index in answer]

    def _settle(self, call: Callable[..., Any], entries: list[Entry]) -> None:
        """Acknowledge or hide messages by their receipts.

        Entries for which the queue blames the sender are receipts that have expired: the message is delivered again.
        """
        for start in range(0, len(entries), BATCH):
            with answering("sqs"):
                left = self._repeat(call, entries[start : start + BATCH])
            lost = [index for index, caused_here in left.items() if not caused_here]
            if lost:
                raise InfrastructureError(
                    f"{self._url} did not take {len(lost)} of {len(entries)} receipts", code="aws_failed"
                )

    def _repeat(self, call: Callable[..., Any], entries: list[Entry]) -> dict[int, bool]:
        """Call with all entries, then again with those that failed through the service's fault.

        Returns the entries that failed for good: index → whether the sender is at fault. Raises the error of botocore when the first
        request
        fails.
        """
        failed: dict[int, bool] = {}
        pending = list(range(len(entries)))
        for attempt in range(ATTEMPTS):
            if attempt:
                self._sleep(BACKOFF_SECONDS * 2**attempt * (0.5 + random.random() / 2))
            try:
                answer = call(
                    QueueUrl=self._url, Entries=[{"Id": str(index), **entries[index]} for index in pending]
                )
            except FAILURES:
                if not attempt:
                    raise
                break
            again = [failure for failure in answer.get("Failed", ()) if not failure.get("SenderFault")]
            failed.update(
                {
                    int(failure["Id"]): True
                    for failure in answer.get("Failed", ())
                    if failure.get("SenderFault")
                }
            )
            pending = [int(failure["Id"]) for failure in again]
            if not pending:
                return failed
        return {**failed, **dict.fromkeys(pending, False)}


def _delivery(message: dict[str, Any]) -> Delivery:
    about = message.get("Attributes", {})
    return Delivery(
        message_id=message["MessageId"],
        receipt=message["ReceiptHandle"],
        body=message["Body"],
        received=int(about.get("ApproximateReceiveCount", 1)),
        sent_at=int(about.get("SentTimestamp", 0)) / 1000,
        group=about.get("MessageGroupId", ""),
        why=message.get("MessageAttributes", {}).get(WHY, {}).get("StringValue", ""),
    )
