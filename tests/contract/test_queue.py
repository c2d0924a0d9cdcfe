"""Queues: what SQS promises, and nothing more. Its own peculiarities are tested in tests/unit/adapters/test_sqs.py."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from moto.core.botocore_stubber import BotocoreStubber

from noetl.adapters.aws.sqs import SqsQueue
from noetl.domain.errors import InvalidInputError
from noetl.ports.queue import MAX_DELAY, Delivery, Outgoing, Queue
from tests.contract.clouds import Clock, mocked_aws
from tests.doubles.queue import MemoryQueue
from tests.parts import over, parted
from tests.waiting import PATIENCE


@dataclass
class Bench:
    """``make``: a queue with these settings and its dead-letter queue. ``clock.sleep`` lets its time pass."""

    make: Callable[..., tuple[Queue, Queue]]
    clock: Clock
    kind: str


@pytest.fixture(params=["memory", "sqs"])
def bench(request, monkeypatch):
    clock = Clock()
    if request.param == "memory":

        def make(*, fifo: bool, visibility: int = 30, max_receives: int = 0):
            dead = MemoryQueue(fifo=fifo, clock=clock)
            return MemoryQueue(
                fifo=fifo, visibility=visibility, max_receives=max_receives, dead_letters=dead, clock=clock
            ), dead

        yield Bench(make, clock, "memory")
        return
    with mocked_aws(monkeypatch) as make_client:
        monkeypatch.setattr("moto.sqs.models.unix_time", clock)
        monkeypatch.setattr("moto.sqs.models.unix_time_millis", lambda: clock.now * 1000)
        client = make_client("sqs")
        yield Bench(lambda **wanted: sqs_queue(client, **wanted), clock, "sqs")


def sqs_queue(client: Any, *, fifo: bool, visibility: int = 30, max_receives: int = 0):
    suffix, kind = (".fifo", {"FifoQueue": "true"}) if fifo else ("", {})
    dead = client.create_queue(QueueName=f"dead{suffix}", Attributes=kind)["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    attributes = {**kind, "VisibilityTimeout": str(visibility)}
    if max_receives:
        attributes["RedrivePolicy"] = json.dumps(
            {"deadLetterTargetArn": arn, "maxReceiveCount": max_receives}
        )
    url = client.create_queue(QueueName=f"main{suffix}", Attributes=attributes)["QueueUrl"]
    return SqsQueue(url, client, fifo=fifo), SqsQueue(dead, client, fifo=fifo)


@pytest.fixture(params=[False, True], ids=["standard", "fifo"])
def fifo(request):
    return request.param


def outgoing(*names: str, group: str = "g") -> list[Outgoing]:
    return [Outgoing(json.dumps(name), group=group, dedup=f"d-{name}") for name in names]


def drain(queue: Queue) -> list[Delivery]:
    """Everything that is visible now, one group after the other where a group has to be finished first."""
    found: list[Delivery] = []
    while batch := queue.receive(10):
        found += batch
        queue.ack(batch)
    return found


def bodies(deliveries: Sequence[Delivery]) -> list[Any]:
    return [json.loads(delivery.body) for delivery in deliveries]


def test_what_is_sent_arrives_with_its_facts(bench, fifo):
    queue, _ = bench.make(fifo=fifo)
    names = [f"m{number}" for number in range(23)]
    sent = [message for name in names for message in outgoing(name, group=f"g{name[-1]}")]
    assert list(queue.send(sent)) == []
    first = queue.receive(3)
    assert 1 <= len(first) <= 3
    queue.ack(first)
    found = [*first, *drain(queue)]
    assert Counter(bodies(found)) == Counter(names)
    assert len({delivery.message_id for delivery in found}) == len({d.receipt for d in found}) == 23
    for delivery in found:
        assert (delivery.received, delivery.group) == (1, f"g{json.loads(delivery.body)[-1]}")
        assert abs(delivery.sent_at - bench.clock.now) < 1
    assert queue.receive(10) == []


def test_sending_nothing_is_nothing(bench, fifo):
    queue, _ = bench.make(fifo=fifo)
    assert list(queue.send([])) == []
    queue.ack([])
    queue.nack([])
    assert queue.receive(1) == []


def test_what_is_not_acknowledged_comes_again(bench, fifo):
    queue, _ = bench.make(fifo=fifo, visibility=30)
    queue.send(outgoing("a"))
    (first,) = queue.receive(10)
    bench.clock.sleep(29)
    assert queue.receive(10) == []
    bench.clock.sleep(2)
    (second,) = queue.receive(10)
    assert (second.message_id, second.body, second.received) == (first.message_id, first.body, 2)
    assert second.receipt != first.receipt
    queue.ack([second])
    bench.clock.sleep(60)
    assert queue.receive(10) == []


def test_a_receipt_that_is_of_no_use_any_more_is_no_error(bench, fifo):
    queue, _ = bench.make(fifo=fifo)
    queue.send(outgoing("a", "b"))
    done = queue.receive(10)
    queue.ack(done)
    queue.ack(done)
    queue.nack(done)
    queue.send(outgoing("c"))
    (left,) = queue.receive(10)
    # One receipt of no use does not keep the others of its batch from being acknowledged.
    queue.ack([*done, left])
    bench.clock.sleep(60)
    assert queue.receive(10) == []


def test_what_is_handed_back_is_visible_when_asked_for(bench, fifo):
    queue, _ = bench.make(fifo=fifo, visibility=300)
    queue.send([*outgoing("now", group="a"), *outgoing("later", group="b")])
    now, later = sorted(queue.receive(10), key=lambda delivery: delivery.group)
    queue.nack([now])
    queue.nack([later], delay_seconds=20)
    bench.clock.sleep(1)
    assert bodies(drain(queue)) == ["now"]
    bench.clock.sleep(20)
    (again,) = queue.receive(10)
    assert (json.loads(again.body), again.received) == ("later", 2)


def test_a_delay_hides_a_message(bench):
    queue, _ = bench.make(fifo=False)
    queue.send([Outgoing('"soon"', delay=5), Outgoing('"late"', delay=MAX_DELAY), Outgoing('"now"')])
    assert bodies(drain(queue)) == ["now"]
    bench.clock.sleep(6)
    assert bodies(drain(queue)) == ["soon"]
    bench.clock.sleep(MAX_DELAY - 10)
    assert drain(queue) == []
    bench.clock.sleep(10)
    assert bodies(drain(queue)) == ["late"]


def test_given_out_too_often_it_goes_to_the_dead_letters(bench, fifo):
    queue, dead = bench.make(fifo=fifo, visibility=10, max_receives=2)
    queue.send(outgoing("poison", group="p") + outgoing("fine", group="f"))
    for turn in (1, 2):
        received = {json.loads(delivery.body): delivery for delivery in queue.receive(10)}
        assert received["poison"].received == turn
        queue.ack([received["fine"]] if "fine" in received else [])
        bench.clock.sleep(11)
    assert queue.receive(10) == []
    (found,) = dead.receive(10)
    assert (json.loads(found.body), found.group) == ("poison", "p")
    bench.clock.sleep(11)
    assert queue.receive(10) == []


def test_a_fifo_group_has_one_batch_in_flight(bench):
    queue, _ = bench.make(fifo=True, visibility=30)
    queue.send(outgoing("a1", "a2", "a3", group="a"))
    queue.send(outgoing("b1", group="b"))
    first = queue.receive(2)
    assert bodies(first) == ["a1", "a2"]
    others = queue.receive(10)
    assert bodies(others) == ["b1"]
    queue.ack(first[:1])
    assert queue.receive(10) == []
    queue.nack(first[1:])
    bench.clock.sleep(1)
    assert bodies(queue.receive(10)) == ["a2", "a3"]


def test_a_fifo_group_is_free_again_when_its_batch_expired(bench):
    queue, _ = bench.make(fifo=True, visibility=30)
    queue.send(outgoing("a1", "a2", group="a"))
    assert bodies(queue.receive(1)) == ["a1"]
    assert queue.receive(10) == []
    bench.clock.sleep(31)
    assert bodies(queue.receive(10)) == ["a1", "a2"]


def test_fifo_drops_repeats_for_five_minutes(bench):
    queue, _ = bench.make(fifo=True)
    queue.send([Outgoing("1", "a", "same"), Outgoing("2", "a", "same"), Outgoing("3", "b", "same")])
    queue.send([Outgoing("4", "a", "same"), Outgoing("5", "a", "other")])
    assert sorted(bodies(drain(queue))) == [1, 5]
    if bench.kind == "memory":
        # SQS remembers the id although the message is gone; moto looks among the messages it still has.
        queue.send([Outgoing("6", "a", "same")])
        assert drain(queue) == []
    bench.clock.sleep(301)
    queue.send([Outgoing("7", "a", "same")])
    assert bodies(drain(queue)) == [7]


def test_standard_queues_drop_nothing(bench):
    queue, _ = bench.make(fifo=False)
    queue.send([Outgoing("1", "a", "same"), Outgoing("2", "a", "same")])
    queue.send([Outgoing("3", "a", "same")])
    assert sorted(bodies(drain(queue))) == [1, 2, 3]


@over(
    ("message", "code"),
    [
        (Outgoing('"' + "x" * (1024 * 1024 - 1) + '"', "g", "d"), "message_too_large"),
        (Outgoing('"' + "ä" * (512 * 1024) + '"', "g", "d"), "message_too_large"),
        (Outgoing('"' + "\uffff" * (256 * 1024) + '"', "g", "d"), "message_too_large"),
        (Outgoing("", "g", "d"), "message_empty"),
        (Outgoing("1", "with space", "d"), "message_group"),
        (Outgoing("1", "g" * 129, "d"), "message_group"),
        (Outgoing("1", "g", "ü"), "message_group"),
        (Outgoing("1", "g", "d", delay=MAX_DELAY + 1), "message_delay"),
        (Outgoing("1", "g", "d", delay=-1), "message_delay"),
    ],
)
def test_what_a_queue_never_takes_is_refused_before_anything_is_sent(bench, fifo, message, code):
    queue, _ = bench.make(fifo=fifo)
    with pytest.raises(InvalidInputError) as caught:
        queue.send([*outgoing("fine"), message])
    assert caught.value.code == code
    assert queue.receive(10) == []


@over("message", [Outgoing("1", dedup="d"), Outgoing("1", group="g"), Outgoing("1", "g", "d", delay=1)])
def test_fifo_needs_group_and_dedup_and_has_no_delay(bench, message):
    queue, _ = bench.make(fifo=True)
    with pytest.raises(InvalidInputError):
        queue.send([message])


def test_large_messages_share_requests_only_as_far_as_they_fit(bench, fifo):
    queue, _ = bench.make(fifo=fifo)
    largest = '"' + "x" * (1024 * 1024 - 2) + '"'
    texts = [json.dumps(f"{number}" + "ä" * 140_000, ensure_ascii=False) for number in range(9)]
    texts.insert(4, largest)
    messages = [Outgoing(text, f"g{place}", f"d{place}") for place, text in enumerate(texts)]
    assert list(queue.send(messages)) == []
    assert sorted(delivery.body for delivery in drain(queue)) == sorted(texts)


def test_any_text_survives_and_is_what_xml_allows(bench, fifo):
    queue, _ = bench.make(fifo=fifo)
    everything = "".join(map(chr, [*range(0x100), 0x2028, 0xDFFF, 0xD800, 0xFFFD, 0xFFFE, 0xFFFF, 0x1F600]))
    # msgspec writes U+FFFE and U+FFFF as they are; what it does not take (lone surrogates) json.dumps may leave in the text.
    raw = json.dumps(everything, ensure_ascii=False)
    queue.send([Outgoing(raw, "g", "d")])
    (found,) = queue.receive(1)
    assert json.loads(found.body) == everything
    for sign in map(ord, found.body):
        assert sign in (9, 10, 13) or 0x20 <= sign <= 0xD7FF or 0xE000 <= sign <= 0xFFFD or sign >= 0x10000


def test_waiting_ends_when_something_arrives(bench, fifo):
    queue, _ = bench.make(fifo=fifo)
    timer = threading.Timer(0.1, queue.send, [outgoing("a")])
    timer.start()
    found = queue.receive(10, wait_seconds=20)
    timer.join()
    assert bodies(found) == ["a"]


def test_waiting_in_memory_ends_with_what_becomes_visible_or_with_the_time():
    queue = MemoryQueue(visibility=0.05)
    assert queue.receive(1, wait_seconds=0.05) == []
    queue.send(outgoing("a"))
    assert [queue.receive(1, wait_seconds=PATIENCE)[0].received for _ in range(3)] == [1, 2, 3]
    assert len(queue) == 1


@pytest.fixture
def one_at_a_time(monkeypatch):
    """Have moto serve one request at a time: it changes its queues without a lock, and fails where two threads meet."""
    serve, lock = BotocoreStubber.__call__, threading.Lock()

    def locked(self, *args, **kwargs):
        with lock:
            return serve(self, *args, **kwargs)

    monkeypatch.setattr(BotocoreStubber, "__call__", locked)


def test_many_consumers_share_the_work(bench, one_at_a_time):
    queue, _ = bench.make(fifo=False)
    queue.send([Outgoing(str(number)) for number in range(60)])
    seen: list[int] = []

    def consume() -> None:
        while batch := queue.receive(5):
            seen.extend(bodies(batch))
            queue.ack(batch)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(60))


class Unkind:
    """A queue as it may behave: what it gives out is shuffled across groups, some of it again, even after it was acknowledged."""

    def __init__(self, queue: Queue, seed: int) -> None:
        self._queue = queue
        self._random = random.Random(seed)
        self._given: list[Delivery] = []

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        shuffled = self._random.sample(list(messages), len(messages))
        left = {shuffled[place] for place in self._queue.send(shuffled)}
        return [place for place, message in enumerate(messages) if message in left]

    def receive(self, limit: int, wait_seconds: float = 0.0) -> Sequence[Delivery]:
        fresh = list(self._queue.receive(max(1, limit - 2), wait_seconds))
        again = self._random.sample(self._given, min(len(self._given), limit - len(fresh))) if fresh else []
        self._given += fresh
        return self._random.sample([*fresh, *again], len(fresh) + len(again))

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._queue.ack([delivery for delivery in deliveries if self._random.random() < 0.8])

    def nack(self, deliveries: Sequence[Delivery], delay_seconds: int = 0) -> None:
        self._queue.nack(deliveries, delay_seconds)


@pytest.mark.parametrize("seed", parted(range(3), [0]))
def test_reordered_and_repeated_nothing_is_lost_or_invented(bench, fifo, seed):
    """The guarantees that may be relied on: each message at least once, unchanged, under one message id; acknowledged ones end."""
    plain, _ = bench.make(fifo=fifo, visibility=10)
    queue = Unkind(plain, seed)
    messages = [Outgoing(str(number), f"g{number % 7}", f"d{number}") for number in range(40)]
    assert list(queue.send(messages)) == []
    seen: Counter[int] = Counter()
    names: dict[int, str] = {}
    applied: list[int] = []
    for _ in range(200):
        batch = queue.receive(6)
        for delivery in batch:
            number = json.loads(delivery.body)
            assert names.setdefault(number, delivery.message_id) == delivery.message_id
            assert delivery.group == f"g{number % 7}"
            if not seen[number]:
                applied.append(number)
            seen[number] += 1
        queue.ack(batch)
        bench.clock.sleep(1)
    assert sorted(applied) == list(range(40))
    assert seen.total() > 40, "the wrapper repeated nothing"
    assert applied != sorted(applied), "the wrapper reordered nothing"
    bench.clock.sleep(11)
    assert plain.receive(10) == []
