"""A queue and the queue for what it cannot deliver: sealed with our key, TLS only."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.constructs import nag

VISIBILITY_FACTOR = 6
"""Visibility timeout over function timeout: what AWS asks for, so that a slow or throttled batch is not delivered twice."""
KEY_REUSE = cdk.Duration.hours(1)
"""How long SQS uses one data key; shorter costs more requests to KMS."""


class QueueWithDlq(Construct):
    """``queue`` and ``dlq``. ``timeout``: seconds of the function that consumes it (the longest, when there are several)."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        timeout: int,
        key: kms.IKey,
        receives: int = 5,
        fifo: bool = False,
    ) -> None:
        """``name``: without `.fifo`. ``receives``: deliveries before a message is given up."""
        super().__init__(scope, id)
        self.dlq = dead_letter_queue(self, "Dlq", f"{name}-dlq", key, fifo=fifo)
        self.queue = _queue(
            self,
            "Queue",
            name,
            key,
            fifo=fifo,
            retention=cdk.Duration.days(14 if fifo else 4),
            visibility=VISIBILITY_FACTOR * timeout,
            dead_letters=sqs.DeadLetterQueue(queue=self.dlq, max_receive_count=receives),
        )


def dead_letter_queue(
    scope: Construct, id: str, name: str, key: kms.IKey, *, fifo: bool = False
) -> sqs.Queue:
    """Where messages wait for somebody to look at them, as long as SQS keeps any."""
    made = _queue(
        scope, id, name, key, fifo=fifo, retention=cdk.Duration.days(14), visibility=VISIBILITY_FACTOR * 60
    )
    nag.acknowledge(made, "SQS3", "a dead-letter queue itself")
    return made


def _queue(
    scope: Construct,
    id: str,
    name: str,
    key: kms.IKey,
    *,
    fifo: bool,
    retention: cdk.Duration,
    visibility: int,
    dead_letters: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    return sqs.Queue(
        scope,
        id,
        queue_name=f"{name}.fifo" if fifo else name,
        fifo=True if fifo else None,
        deduplication_scope=sqs.DeduplicationScope.MESSAGE_GROUP if fifo else None,
        fifo_throughput_limit=sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID if fifo else None,
        encryption=sqs.QueueEncryption.KMS,
        encryption_master_key=key,
        data_key_reuse=KEY_REUSE,
        enforce_ssl=True,
        retention_period=retention,
        visibility_timeout=cdk.Duration.seconds(visibility),
        dead_letter_queue=dead_letters,
    )
