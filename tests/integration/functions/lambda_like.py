"""Runs the worker's handler in a process made like Lambda's: its environment, its way to load a handler, AWS within the process.

Arguments: a JSON file {"playbook": text, "payloads": [...], "left": seconds}. Prints one JSON line: the handler's answers, the messages on
the engine's queue, what is left in the command queue, and what was imported.
"""

from __future__ import annotations

import _multiprocessing
import importlib
import json
import sys
from pathlib import Path
from typing import Any

BUCKET = "results"


class Context:
    """Lambda's."""

    aws_request_id = "request-1"

    def __init__(self, left: float) -> None:
        self.left = left

    def get_remaining_time_in_millis(self) -> int:
        return int(self.left * 1000)


def no_semaphore(*args: Any) -> None:
    raise OSError(38, "Function not implemented")


def main() -> None:
    wanted = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    from moto import mock_aws

    # There is no /dev/shm in Lambda, and so there are no semaphores.
    _multiprocessing.SemLock = no_semaphore
    with mock_aws():
        print(json.dumps(run(wanted)))


def run(wanted: dict[str, Any]) -> dict[str, Any]:
    from noetl.adapters.aws.clients import make_client
    from noetl.domain.commands import Command, FrozenScope
    from noetl.domain.messages import VERSION, Message, encode_message
    from noetl.domain.tokens import KeyRing, grant
    from noetl.dsl.program import decode, encode

    program = decode(json.dumps(wanted["program"]).encode())
    s3, sqs = make_client("s3"), make_client("sqs")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=f"programs/v1/{program.hash}.json", Body=encode(program))
    commands = sqs.create_queue(QueueName="noetl-test-commands-python")["QueueUrl"]
    events = sqs.create_queue(QueueName="noetl-test-events.fifo", Attributes={"FifoQueue": "true"})[
        "QueueUrl"
    ]
    ring = KeyRing.of([wanted["key"]])
    for number, payload in enumerate(wanted["payloads"]):
        command = Command(
            100 + number,
            "1",
            1,
            program.steps[0].name,
            program.hash,
            "python",
            scope=FrozenScope(workload=payload),
        )
        text = encode_message(Message(VERSION, token=grant(command, ring), command=command))
        sqs.send_message(QueueUrl=commands, MessageBody=text)
    sqs.send_message(QueueUrl=commands, MessageBody="poison")
    records = receive(sqs, commands)
    before = set(sys.modules)
    sys.path.insert(0, str(Path(wanted["task_root"])))
    handler = importlib.import_module("handler").handler
    event = {"Records": [record(one) for one in records]}
    answer = handler(event, Context(wanted["left"]))
    return {
        "answer": answer,
        "records": event["Records"],
        "events": [message["Body"] for message in receive(sqs, events)],
        "visible_again": len(receive(sqs, commands)),
        "imported": sorted({name.partition(".")[0] for name in set(sys.modules) - before}),
    }


def receive(sqs: Any, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while got := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
    ).get("Messages"):
        found += got
    return found


def record(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:noetl-test-commands-python",
        "awsRegion": "eu-central-1",
    }


if __name__ == "__main__":
    main()
