"""Runs the worker in a process of its own, AWS within the process: its handler as Lambda loads it, or ``main.py`` as Fargate starts it.

Argument: a JSON file with ``program``, ``payloads`` (one command each), ``key``, ``task_root``, and ``left`` (seconds; for the handler) or
``marker`` (a file; when it appears, ``main.py`` is told to end). Prints one JSON line: what was answered, the messages on the engine's
queue, how many commands are visible again, and what was imported.
"""

from __future__ import annotations

import _multiprocessing
import importlib
import json
import os
import signal
import sys
import threading
import time
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
    from noetl.domain.capability_tokens import KeyRing, grant
    from noetl.domain.commands import Command, FrozenScope
    from noetl.domain.messages import VERSION, Message, encode_message
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
    before = set(sys.modules)
    sys.path.insert(0, str(Path(wanted["task_root"])))
    event: dict[str, Any] = {}
    if "marker" in wanted:
        answer = serve(Path(wanted["marker"]))
    else:
        event = {"Records": [record(one) for one in receive(sqs, commands)]}
        answer = importlib.import_module("handler").handler(event, Context(wanted["left"]))
    return {
        "answer": answer,
        "records": event.get("Records"),
        "events": [message["Body"] for message in receive(sqs, events)],
        "visible_again": len(receive(sqs, commands)),
        "imported": sorted({name.partition(".")[0] for name in set(sys.modules) - before}),
    }


def serve(marker: Path) -> float:
    """Run ``main.py`` until a command has made ``marker`` and SIGTERM was sent; seconds that it took to end."""
    sent = []

    def tell() -> None:
        while not marker.exists():
            time.sleep(0.05)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=tell, daemon=True).start()
    importlib.import_module("main").main(["--grace", "6"])
    return time.monotonic() - sent[0]


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
