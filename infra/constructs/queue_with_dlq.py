"""Queues, and the queues for what they cannot deliver: sealed with the deployment's key, TLS only."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from ..constructs import nag

RECEIVES = 500
"""Deliveries before SQS moves a message to the dead letters. Its consumers judge a message by the errors that it causes; a
dependency that is unavailable only delays it. With the back-off of
services/messaging/back_off.py, 500 deliveries last five days, and the message is kept for nine more (docs/adr/0045)."""
RETENTION = cdk.Duration.days(14)
"""The longest that SQS keeps a message."""
DEAD_LETTERS_VISIBILITY = 60
"""Seconds: what maintenance, which takes dead letters, may run."""
KEY_REUSE = cdk.Duration.hours(1)
"""How long SQS uses one data key; shorter costs more requests to KMS."""


class QueueWithDlq(Construct):
    """``queue`` and ``dlq``, which several queues may share. ``timeout``: seconds of the function that consumes it.

    What a function that died had received stays hidden for that long, and no longer: a function that lives extends it (workers), or ends
    within it (the engine).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        timeout: int,
        key: kms.IKey,
        fifo: bool = False,
        dlq: sqs.Queue | None = None,
    ) -> None:
        """``name``: without `.fifo`. ``dlq``: None for one of its own."""
        super().__init__(scope, id)
        self.dlq = dlq or dead_letter_queue(self, "Dlq", f"{name}-dlq", key, fifo=fifo)
        self.queue = _queue(
            self,
            "Queue",
            name,
            key,
            fifo=fifo,
            visibility=timeout,
            dead_letters=sqs.DeadLetterQueue(queue=self.dlq, max_receive_count=RECEIVES),
        )


def dead_letter_queue(
    scope: Construct, id: str, name: str, key: kms.IKey, *, fifo: bool = False
) -> sqs.Queue:
    """Keep messages that were given up for as long as SQS keeps any."""
    made = _queue(scope, id, name, key, fifo=fifo, visibility=DEAD_LETTERS_VISIBILITY)
    nag.acknowledge(made, "SQS3", "a dead-letter queue itself")
    return made


def _queue(
    scope: Construct,
    id: str,
    name: str,
    key: kms.IKey,
    *,
    fifo: bool,
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
        retention_period=RETENTION,
        delivery_delay=cdk.Duration.seconds(0),
        receive_message_wait_time=cdk.Duration.seconds(20),
        visibility_timeout=cdk.Duration.seconds(visibility),
        dead_letter_queue=dead_letters,
    )
