"""Ports that count what they are asked, for the cost model: the same adapters in memory, with a bill."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.adapters.memory.results import MemoryResultStore
from noetl.ports.executions.execution_store import Change, ItemBatch
from noetl.ports.queue import Delivery, Outgoing
from tests.bench.prices import SQS_UNIT
from tests.doubles.programs import MemoryProgramStore
from tests.doubles.queue import MemoryQueue

BATCH = 10
"""Messages of one request to SQS."""
REQUEST_BYTES = 256 * 1024
"""What one request may carry (NOETL_MESSAGE_LIMIT)."""
READS = frozenset({"load", "info", "loop_progress", "loop_items"})

Bill = Counter[str]


def units(bodies: Iterable[str]) -> int:
    """Requests that SQS bills for one request with these bodies: each 64 KiB begun is one."""
    return max(1, math.ceil(sum(len(body.encode()) for body in bodies) / SQS_UNIT))


def requests(bodies: Sequence[str]) -> list[list[str]]:
    """The batch requests that ``SqsQueue.send`` would make."""
    batches: list[list[str]] = []
    size = 0
    for body in bodies:
        length = len(body.encode())
        if not batches or len(batches[-1]) == BATCH or size + length > REQUEST_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(body)
        size += length
    return batches


class MeteredQueue:
    """A queue in memory; ``bill`` counts requests under ``<name>.send``, ``.receive`` and ``.delete``."""

    def __init__(self, name: str, bill: Bill, *, fifo: bool) -> None:
        self.name = name
        self.bill = bill
        self.queue = MemoryQueue(fifo=fifo, visibility=5400)

    def __len__(self) -> int:
        return len(self.queue)

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        for batch in requests([message.body for message in messages]):
            self.bill[f"{self.name}.send"] += units(batch)
            self.bill["calls.sqs"] += 1
        self.bill[f"{self.name}.messages"] += len(messages)
        self.bill[f"{self.name}.bytes"] += sum(len(message.body.encode()) for message in messages)
        return self.queue.send(messages)

    def receive(self, limit: int, wait_seconds: float = 0.0) -> Sequence[Delivery]:
        """What Lambda's pollers do. Polls that find nothing are part of what an idle deployment costs."""
        found = self.queue.receive(limit, wait_seconds)
        if found:
            self.bill[f"{self.name}.receive"] += units([one.body for one in found])
        return found

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self.bill[f"{self.name}.delete"] += math.ceil(len(deliveries) / BATCH)
        self.queue.ack(deliveries)

    def nack(self, deliveries: Sequence[Delivery], delay_seconds: int = 0) -> None:
        if deliveries:
            self.bill[f"{self.name}.visibility"] += math.ceil(len(deliveries) / BATCH)
            self.bill["calls.sqs"] += 1
        self.queue.nack(deliveries, delay_seconds)


class MeteredResults(MemoryResultStore):
    """Large values; a put and a get are a request to S3 each."""

    def __init__(self, bill: Bill) -> None:
        super().__init__()
        self.bill = bill

    def put(self, uri: str, data: bytes) -> None:
        self.bill["s3.put"] += 1
        super().put(uri, data)

    def get(self, uri: str) -> bytes:
        self.bill["s3.get"] += 1
        return super().get(uri)


class MeteredPrograms(MemoryProgramStore):
    """Compiled programs, which lie in the same bucket."""

    def __init__(self, bill: Bill) -> None:
        super().__init__()
        self.bill = bill

    def get(self, program: str) -> bytes | None:
        self.bill["s3.get"] += 1
        return super().get(program)

    def put(self, program: str, data: bytes) -> None:
        self.bill["s3.put"] += 1
        super().put(program, data)


class MeteredStore:
    """Every call counts as one round trip to Postgres, every call that writes as one commit: what the real store takes for it."""

    def __init__(self, store: MemoryExecutionStore, bill: Bill) -> None:
        self._store = store
        self._bill = bill

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._bill["postgres.round_trips"] += 1
            if name not in READS:
                self._bill["postgres.commits"] += 1
                self._bill["postgres.rows"] += _rows(name, args)
            return call(*args, **kwargs)

        return counted


def _rows(name: str, args: Sequence[Any]) -> int:
    """Rows that a call writes, as far as its arguments tell."""
    if name == "commit":
        return sum(_rows_of_change(change) for change in args[0])
    if name == "commit_items":
        return sum(_rows_of_items(batch) for batch in args[0])
    if name == "hand_over":
        return len(args[1].commands) + len(args[1].events) + len(args[1].timers)
    return 2 if name == "create" else 1


def _rows_of_change(change: Change) -> int:
    """The execution itself, and everything that came, changed or went with this transition."""
    parts = (change.events, change.slots, change.unset, change.issue, change.waiting, change.close)
    return 1 + sum(map(len, parts)) + sum(map(len, (change.loops, change.timers, change.outbox)))


def _rows_of_items(batch: ItemBatch) -> int:
    return 1 + len(batch.rows) + len(batch.resumed) + len(batch.waiting) + len(batch.outbox)
