"""Dead letters for operators, on queues of SQS and on the double: list, send back, remove, choose, repeat."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from noetl.adapters.aws.gauges import count_messages
from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.events import CommandDone, TimerFired
from noetl.domain.messages import VERSION, Message, decode_message, encode_message
from noetl.domain.outcomes.outcomes import Outcome
from noetl.ports.queue import Outgoing, Queue
from noetl.services.messaging.operate_dead_letters import (
    DeadLetterPage,
    DeadLetterRequest,
    DeadLettersDone,
    LetterDeps,
    LetterQueue,
    Verb,
    handle_letters,
    list_letters,
    page_of,
)
from noetl.services.orchestrator import dead_letters as core
from tests.contract.clouds import Clock, mocked_aws
from tests.doubles.queue import MemoryQueue
from tests.unit.cli.fake_runtime import Database

TOKEN = "c0ffee" * 11
OUTCOME = CommandDone(7, "e1", "p", "3.1", 1, 0, 3, "pay", Outcome("ok", {"card": "4111-secret"}))


@dataclass
class Bench:
    deps: LetterDeps
    homes: dict[str, Queue]
    deads: dict[str, Queue]
    log: list[str]
    clock: Clock


def _memory(clock: Clock, name: str, fifo: bool) -> LetterQueue:
    dead, home = MemoryQueue(fifo=fifo, clock=clock), MemoryQueue(fifo=fifo, clock=clock)
    return LetterQueue(name, dead, home, lambda: len(dead))


def _sqs(client, name: str, fifo: bool) -> LetterQueue:
    from noetl.adapters.aws.sqs import SqsQueue

    suffix, kind = (".fifo", {"FifoQueue": "true"}) if fifo else ("", {})
    urls = [
        client.create_queue(QueueName=f"{name}{part}{suffix}", Attributes=kind)["QueueUrl"]
        for part in ("-dlq", "")
    ]
    dead, home = (SqsQueue(url, client, fifo=fifo) for url in urls)
    return LetterQueue(name, dead, home, lambda: count_messages(client, urls[0]))


@pytest.fixture(params=["memory", "sqs"])
def bench(request, monkeypatch):
    clock, log = Clock(), []
    monkeypatch.setattr(core, "WAIT_SECONDS", 0.0)

    def made(queues: list[LetterQueue]) -> Bench:
        store = Database().store
        deps = LetterDeps(queues, MemoryResultStore(), store, lambda: clock.now, log.append)
        homes, deads = ({one.name: getattr(one, part) for one in queues} for part in ("home", "dead"))
        return Bench(deps, homes, deads, log, clock)

    if request.param == "memory":
        yield made([_memory(clock, "events", True), _memory(clock, "timers", False)])
        return
    with mocked_aws(monkeypatch) as make_client:
        monkeypatch.setattr("moto.sqs.models.unix_time", clock)
        monkeypatch.setattr("moto.sqs.models.unix_time_millis", lambda: clock.now * 1000)
        client = make_client("sqs")
        yield made([_sqs(client, "events", True), _sqs(client, "timers", False)])


def fill(bench: Bench) -> None:
    """An outcome that the engine laid aside, a timer that its queue gave up, and a text that is no message."""
    outcome = encode_message(Message(VERSION, event=OUTCOME, token=TOKEN))
    timer = encode_message(Message(VERSION, event=TimerFired(8, "e2", "p", "t", 1)))
    bench.deads["events"].send([Outgoing(outcome, "7", "a", why=f"it broke with {TOKEN}")])
    bench.clock.sleep(60)
    bench.deads["timers"].send([Outgoing(timer), Outgoing("no message", why="it cannot be read")])
    bench.clock.sleep(30)


def listed(bench: Bench, **only: str) -> DeadLetterPage:
    """Look; what was looked at is visible again a moment later."""
    page = list_letters(bench.deps, **only)
    bench.clock.sleep(1)
    return page


def handled(bench: Bench, verb: Verb, wish: DeadLetterRequest, seconds: float = 1000.0) -> DeadLettersDone:
    done = handle_letters(verb, wish, bench.deps, lambda: seconds)
    bench.clock.sleep(1)
    return done


def drained(queue: Queue) -> list[str]:
    found = []
    while got := queue.receive(10):
        found += [one.body for one in got]
        queue.ack(got)
    return found


def test_each_is_listed_with_its_reason_and_work_and_without_its_data(bench):
    fill(bench)
    page = listed(bench)
    assert [(one.queue, one.count, one.read) for one in page.queues] == [("events", 1, 1), ("timers", 2, 2)]
    first, *others = page.letters
    assert (first.queue, first.kind, first.executions) == ("events", "command", ["7"])
    assert (first.step, first.run, first.command_id, first.laid_aside) == ("pay", 3, "3.1", True)
    assert (first.age, first.deliveries) == (90, 1)
    assert first.reason == "the engine laid it aside: it broke with c0ffeec0***"
    assert "noetl dead-letters retry" in first.next
    timer = next(one for one in others if one.kind)
    assert (timer.kind, timer.executions, timer.laid_aside, timer.age) == ("timer", ["8"], False, 30)
    assert "its queue moved it" in timer.reason and "by itself" in timer.next
    unread = next(one for one in others if not one.kind)
    assert (unread.executions, unread.step, unread.run) == ([], "", None)
    text = codec.encode(page).decode()
    assert "4111-secret" not in text and TOKEN not in text and "no message" not in text
    again = listed(bench)
    assert [one.id for one in again.letters] == [one.id for one in page.letters], "a look leaves them there"
    assert {one.deliveries for one in again.letters} == {2}
    assert [one.queue for one in listed(bench, queue="timers").letters] == ["timers", "timers"]
    assert [one.id for one in listed(bench, execution_id="7").letters] == [first.id]


def test_pages_hold_each_once(bench):
    fill(bench)
    everything = listed(bench)
    after, found = "", []
    while True:
        page, after = page_of(listed(bench), after, 1)
        found += [one.id for one in page.letters]
        if not after:
            break
    assert found == [one.id for one in everything.letters] and len(found) == 3


def test_a_dry_run_changes_nothing_and_a_chosen_one_goes_back_once(bench):
    fill(bench)
    chosen = listed(bench).letters[0].id
    wish = DeadLetterRequest(ids=[chosen, "unknown"])
    dry = handled(bench, "retry", DeadLetterRequest(ids=wish.ids, dry_run=True))
    assert (dry.dry_run, dry.ids, dry.missing, dry.left) == (True, [chosen], ["unknown"], 2)
    assert len(listed(bench).letters) == 3 and bench.log == []
    done = handled(bench, "retry", wish)
    assert (done.status, done.ids, done.missing, done.left) == ("complete", [chosen], ["unknown"], 2)
    (sent,) = drained(bench.homes["events"])
    assert decode_message(sent).event == OUTCOME and decode_message(sent).token == TOKEN
    assert drained(bench.homes["timers"]) == [] and TOKEN not in bench.log[0]
    assert bench.log[0].startswith(
        f"dead letter {chosen.removeprefix('events:')} is sent back; it was laid aside: it broke"
    )
    again = handled(bench, "retry", wish)
    assert (again.ids, again.missing, again.left) == ([], sorted([chosen, "unknown"]), 2)


def test_those_of_an_execution_are_removed_for_good(bench):
    fill(bench)
    done = handled(bench, "delete", DeadLetterRequest(execution_id="8"))
    assert len(done.ids) == 1 and done.left == 2
    assert {one.kind for one in listed(bench).letters} == {"command", ""}
    assert all(not drained(home) for home in bench.homes.values())
    done = handled(bench, "delete", DeadLetterRequest(all=True, queue="timers"))
    assert len(done.ids) == 1 and [one.kind for one in listed(bench).letters] == ["command"]


def test_more_of_an_execution_than_a_fifo_queue_shows_all_go_back(bench):
    """It gives out ten of a group at most: the list says how many there are, and a retry takes all."""
    body = encode_message(Message(VERSION, event=TimerFired(9, "e", "p", "t", 1)))
    bench.deads["events"].send([Outgoing(body, "9", f"d{number}") for number in range(23)])
    (events, _) = listed(bench).queues
    assert events.count == 23 and 10 <= events.read <= 23
    done = handled(bench, "retry", DeadLetterRequest(all=True))
    assert len(done.ids) == 23 and done.left == 0
    assert len(drained(bench.homes["events"])) == 23


def test_a_request_whose_time_is_over_says_that_there_may_be_more(bench):
    fill(bench)
    done = handled(bench, "delete", DeadLetterRequest(all=True), 0.0)
    assert (done.status, done.ids, done.left) == ("partly", [], 3)
    assert len(listed(bench).letters) == 3


class Closed(MemoryQueue):
    """It takes no message."""

    def send(self, messages):
        return list(range(len(messages)))


def test_what_its_queue_does_not_take_stays(bench):
    fill(bench)
    queues = [replace(one, home=Closed(clock=bench.clock)) for one in bench.deps.queues]
    done = handled(
        replace(bench, deps=replace(bench.deps, queues=queues)), "retry", DeadLetterRequest(all=True)
    )
    assert done.ids == [] and len(done.unsent) == 3 and done.left == 3
    assert len(listed(bench).letters) == 3


@pytest.mark.parametrize("wish", [{}, {"ids": []}, {"ids": ["x"], "all": True}, {"queue": "events"}])
def test_a_request_that_names_nothing_is_refused(bench, wish):
    fill(bench)
    with pytest.raises(InvalidInputError) as refused:
        handled(bench, "delete", DeadLetterRequest(**wish))
    assert refused.value.code == "dead_letters_invalid" and len(listed(bench).letters) == 3


def test_a_home_without_queues_says_so(bench):
    deps = replace(bench.deps, queues=[])
    page = list_letters(deps)
    assert (page.queues, page.letters) == ([], []) and "has no queue" in page.about
    done = handle_letters("retry", DeadLetterRequest(ids=["events:x"]), deps, lambda: 1000.0)
    assert (done.ids, done.missing, done.left) == ([], ["events:x"], 0) and "has no queue" in done.about
