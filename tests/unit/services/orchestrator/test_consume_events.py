"""The engine behind queues: what is let in, what one bad message may do to others, what is published and what is given back."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from infra.workers import TIMEOUT
from noetl.adapters.memory import MemoryResultStore
from noetl.domain.capability_tokens import KeyRing, grant
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.events import Cancel, Pause, Resume
from noetl.domain.messages import VERSION, Message, decode_message
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.state import decode_state
from noetl.ports.executions.execution_store import CreatedExecution
from noetl.ports.queue import MAX_DELAY
from noetl.services.messaging.back_off import FIRST_SECONDS, LONGEST_SECONDS
from noetl.services.messaging.large_messages import pack, unpack
from noetl.services.orchestrator import authenticate
from noetl.services.orchestrator import fail_dead_commands as burying
from noetl.services.orchestrator.fail_dead_commands import bury
from noetl.services.orchestrator.failed_events import ASIDE_SECONDS, TRIES
from noetl.services.orchestrator.sweep import sweep
from noetl.services.results.prune import (
    DAY,
    LEAST_SECONDS,
    PruneDeps,
    PruneRequest,
    RetentionDays,
    keep_to,
    prune,
)
from tests.doubles.retention import MemoryRetention
from tests.doubles.schedule_store import MemoryScheduleStore
from tests.doubles.task_logs import MemoryTaskLogs
from tests.parts import over
from tests.unit.services.engine_bench import HEAD, NOW, RING, STEP, Bench, RefusingQueue, delivery

LOOP = (
    "  - step: start\n    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }\n"
    "    tool: { kind: http, url: 'http://a.test/' }\n"
)
ONE_AT_A_TIME = STEP.replace("metadata:", "executor: { spec: { concurrency: { limit: 1 } } }\nmetadata:")
RETRY = HEAD + (
    "  - step: start\n    spec: { timeout: 4000 }\n    tool:\n"
    "      - a: { kind: http, url: 'http://a.test/' }\n      - b: { kind: noop }\n"
)


def status(bench: Bench, execution_id: int) -> str:
    found = bench.store.info(execution_id)
    assert found is not None
    return found.status


def test_a_batch_is_committed_published_and_marked():
    bench = Bench()
    managed = bench.handle(bench.put(*(bench.start() for _ in range(4))))
    assert (managed.events, managed.commands, managed.give_back, managed.again) == (4, 4, [], False)
    given = bench.given()
    assert len(given) == len(managed.executions) == 4
    bench.time += 1e6
    assert bench.store.claim("sweeper", 9) == [] and bench.store.undelivered("sweeper", 9) == []
    managed = bench.handle(
        [delivery(bench.answer(command), name=str(n)) for n, (command, _) in enumerate(given)]
    )
    assert {status(bench, one) for one in managed.executions} == {"completed"}
    assert [token for command, token in given] == [grant(command, RING) for command, _ in given]


def test_commands_of_several_kinds_go_to_the_worker_that_has_all():
    bench = Bench(RETRY)
    bench.handle(bench.put(bench.start()))
    assert (len(bench.given("http")), len(bench.given("mixed"))) == (0, 1)
    (timer,) = bench.timers.sent
    assert timer.delay == MAX_DELAY and decode_message(timer.body).due == pytest.approx(NOW + 4000)


def test_what_waits_long_is_sent_again_until_it_is_due():
    bench = Bench(RETRY)
    start = bench.start()
    bench.handle(bench.put(start))
    (command, _), relays = bench.given("mixed")[0], 0
    while status(bench, start.execution_id) == "running":
        bench.time += 60
        got = list(bench.timers.receive(10))
        relays += len(got)
        assert bench.handle(got, bench.timers).refused == 0 if got else bench.time < NOW + 4200
    assert relays == 5 and NOW + 4000 <= bench.time <= NOW + 4300
    late = bench.handle([delivery(bench.answer(command))])
    assert late.give_back == [] and status(bench, start.execution_id) == "failed"


def test_a_long_delay_outlives_the_key_it_began_with():
    bench = Bench()
    bench.handle(bench.put(bench.start()))
    ((command, _),) = bench.given()
    text = bench.deps.publisher.command_message(command, due=NOW + 1000)
    after = KeyRing.of(["the key after a rotation", "the key of this deployment"])
    bench.rings = [after]
    bench.handle([delivery(text)], bench.timers)
    (again,) = bench.timers.sent
    assert again.delay == MAX_DELAY and decode_message(again.body).token == grant(command, after)
    bench.time += 1000
    bench.rings = [KeyRing.of(["the key after a rotation"])]
    assert bench.handle([delivery(again.body)], bench.timers).refused == 0
    assert [one.command_id for one, _ in bench.given()] == [command.command_id]


def test_a_start_that_comes_again_finds_its_execution_until_no_queue_can_bring_it_any_more():
    """Its outcome was committed, and its message was not deleted: the function died in between, and the queue waits as long as it can."""
    bench = Bench()
    text = bench.put(bench.start())[0].body
    managed = bench.handle([delivery(text)])
    ((command, _),) = bench.given()
    bench.handle([delivery(bench.answer(command), name="answer")])
    (execution,) = managed.executions
    assert status(bench, execution) == "completed"
    prune_deps = PruneDeps(
        MemoryRetention(bench.store, MemoryScheduleStore()),
        bench.results,
        MemoryTaskLogs(),
        lambda: bench.time,
    )
    bench.time += LONGEST_SECONDS + TIMEOUT
    with pytest.raises(InvalidInputError, match="between an hour"):
        prune(PruneRequest(0.99 * LEAST_SECONDS / DAY), prune_deps, lambda: True)
    assert prune(PruneRequest(LEAST_SECONDS / DAY), prune_deps, lambda: True).executions == 0
    history = bench.store.events(execution)
    assert bench.handle([delivery(text, 2, "again")]).give_back == [] and bench.given() == []
    assert bench.store.events(execution) == history and status(bench, execution) == "completed"


def test_a_large_command_keeps_its_body_and_its_proof_however_long_it_is_sent_again():
    """Its body goes with its execution, not by age; and every relay signs it with the key of the day."""
    bench = Bench(limit=300)
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    retention = MemoryRetention(bench.store, MemoryScheduleStore())
    prune = PruneDeps(retention, bench.results, MemoryTaskLogs(), lambda: bench.time, RetentionDays(1, 1))
    days = 400
    text = bench.deps.publisher.command_message(command, due=NOW + days * DAY)
    assert decode_message(text).ref is not None
    secrets = ["the key of this deployment", *(f"the key of day {number}" for number in range(1, days + 1))]
    for day in range(days):
        bench.rings = [KeyRing.of([secrets[day + 1], secrets[day]])]
        bench.timers.sent.clear()
        assert bench.handle([delivery(text)], bench.timers).give_back == []
        (again,) = bench.timers.sent
        text = again.body
        bench.time += DAY
        assert keep_to(prune, lambda: True).executions == 0
    assert bench.handle([delivery(text)], bench.timers).refused == 0
    assert [one for one, _ in bench.given()] == [command]


def test_a_message_whose_body_is_gone_is_dropped_with_its_execution_alone():
    bench = Bench(limit=300)
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    text = bench.deps.publisher.command_message(command, due=NOW + 1000)
    bench.results.delete_execution(start.execution_id)
    assert bench.handle([delivery(text)], bench.timers).give_back == ["m"], (
        "somebody removed it: an operator is told"
    )
    with bench.store.tables() as tables:
        del tables.executions[start.execution_id]
    managed = bench.handle([delivery(text)], bench.timers)
    assert (managed.give_back, managed.refused) == ([], 0) and "has been removed" in bench.log[-1]


@pytest.mark.parametrize("wait", [0.0, 5000.0])
def test_no_worker_reaches_another_one_through_the_engine(wait):
    """A command (or an event that is to wait) on the queue that workers send to is refused, whatever its token says."""
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, token),) = bench.given()
    due = NOW + wait if wait else 0.0
    texts = [
        pack(Message(VERSION, token, due, command=command), bench.results),
        pack(Message(VERSION, "x", NOW + 5000, event=Cancel(start.execution_id, "stop", "")), bench.results),
    ]
    managed = bench.handle([delivery(text, name=text[-9:]) for text in texts])
    assert (managed.refused, managed.give_back) == (2, [])
    forged = msgspec.structs.replace(command, step="other")
    text = pack(Message(VERSION, token, due, command=forged), bench.results)
    assert bench.handle([delivery(text)], bench.timers).refused == 1
    assert bench.given() == [] and bench.timers.sent == [] and status(bench, start.execution_id) == "running"


def test_what_is_forged_or_no_message_is_dropped_and_recorded_beside_history():
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, token),) = bench.given()
    before = bench.store.events(start.execution_id)
    other = msgspec.structs.replace(command, command_id="9")
    bad = ["", "{}", bench.answer(command, "0.0-0.0"), bench.answer(other, token), bench.answer(command, "")]
    managed = bench.handle([delivery(text, name=str(n)) for n, text in enumerate(bad)])
    assert (managed.refused, managed.give_back, managed.events) == (5, [], 0)
    assert token.rpartition(".")[2] not in "".join(bench.log), "whoever reads the log could use it"
    assert bench.store.events(start.execution_id) == before
    recorded = bench.store.item_events(start.execution_id, -1)
    assert [row.type for row in recorded] == ["command.superseded"] * 3
    assert status(bench, start.execution_id) == "running"
    strange = msgspec.structs.replace(command, execution_id=2**63)
    assert bench.handle([delivery(bench.answer(strange, "x"))]).refused == 1


def test_messages_nobody_can_read_yet_are_left_to_the_queue():
    bench = Bench(limit=700)
    bench.handle(bench.put(bench.start()))
    ((command, _),) = bench.given()
    large = bench.answer(command, result="x" * 300_000)
    assert len(large) < 1000
    bodies = ['{"v":3,"event":{"type":"tomorrow"}}', large]
    plain, empty = bench.deps, MemoryResultStore()
    bench.deps = replace(plain, door=replace(plain.door, results=empty))
    managed = bench.handle([delivery(text, name=str(n)) for n, text in enumerate(bodies)])
    assert (managed.give_back, managed.refused) == (["0", "1"], 0)
    bench.deps = plain
    assert bench.handle([delivery(large)]).give_back == []
    assert status(bench, command.execution_id) == "completed"


def test_a_rotated_key_is_looked_up_when_a_token_is_unknown():
    bench = Bench()
    bench.handle(bench.put(bench.start()))
    ((command, _),) = bench.given()
    after = KeyRing.of(["the key after a rotation", "the key of this deployment"])
    bench.rings = [RING, after]
    assert bench.handle([delivery(bench.answer(command, grant(command, after)))]).refused == 0
    assert status(bench, command.execution_id) == "completed"


def test_a_token_of_a_key_that_nobody_knows_comes_again_before_it_is_refused():
    """The engine had just read the keys when they were rotated: the outcome of the command is not lost."""
    bench = Bench()
    bench.handle(bench.put(bench.start()))
    ((command, _),) = bench.given()
    after = KeyRing.of(["the key after a rotation", "the key of this deployment"])
    text = bench.answer(command, grant(command, after))
    for received in (1, 2):
        managed = bench.handle([delivery(text, received)])
        assert (managed.give_back, managed.refused) == (["m"], 0) and after.current in bench.log[-1]
    assert bench.handle([delivery(text, authenticate.UNKNOWN_KEY_DELIVERIES)]).refused == 1
    (row,) = bench.store.item_events(command.execution_id, -1)
    assert (row.type, status(bench, command.execution_id)) == ("command.superseded", "running")
    bench.rings = [RING, after]
    assert bench.handle([delivery(text, 2)]).refused == 0
    assert status(bench, command.execution_id) == "completed"


class Poison:
    """A store that breaks the engine over one execution."""

    def __init__(self, store, execution_id, error):
        self.store, self.execution_id, self.error = store, execution_id, error
        self.batches: list[list[int]] = []

    def __getattr__(self, name):
        return getattr(self.store, name)

    def commit(self, changes, owner=None):
        self.batches.append([change.execution_id for change in changes])
        if self.execution_id in self.batches[-1]:
            raise self.error
        return self.store.commit(changes, owner)


DEFECTS = [RuntimeError("boom"), SystemExit("boom")]
"""A library may end its process, and the panic of a compiled one is no Exception either."""


@over("defect", DEFECTS)
@over("received", [1, 2])
def test_a_poisonous_event_takes_nothing_with_it(received, defect):
    bench = Bench()
    starts = [bench.start() for _ in range(3)]
    poison = Poison(bench.store, starts[1].execution_id, defect)
    bench.deps = replace(bench.deps, engine=replace(bench.deps.engine, store=poison))
    deliveries = [msgspec.structs.replace(one, received=received) for one in bench.put(*starts)]
    managed = bench.handle(deliveries)
    assert managed.give_back == [deliveries[1].message_id] and managed.failures == TRIES
    assert managed.again is (received > 1) and managed.commands == 2
    assert {command.execution_id for command, _ in bench.given()} == {
        starts[0].execution_id,
        starts[2].execution_id,
    }
    assert poison.batches[-1] == [starts[2].execution_id]
    # Three tries of the event alone; then its execution was to fail, which could not be committed either.
    assert [len(batch) for batch in poison.batches] == [3] * (received == 1) + [1, 1, 1, 1, 1, 1]
    noted = [row.event_id.partition(":")[0] for row in bench.store.item_events(starts[1].execution_id, -1)]
    assert noted == ["failed"], "a trace before it ends among the dead letters"
    bench.time += ASIDE_SECONDS
    assert len(bench.events.receive(10)) == 1


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such value\nDETAIL: Failing row contains (secret)"),
        InfrastructureError("no such value", code="aws_refused", retryable=False),
        SystemExit("Error: no such value"),
    ],
)
def test_an_execution_fails_when_its_event_cannot_be_handled(error):
    """What breaks is the commit of this outcome, each time: a check of the database on its data, or a bucket that refuses for good."""
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    answer = delivery(bench.answer(command))
    bench.deps = replace(
        bench.deps, engine=replace(bench.deps.engine, store=Choosy(bench.store, "cmd:1:0", error))
    )
    managed = bench.handle([answer])
    assert managed.give_back == [] and status(bench, start.execution_id) == "failed"
    failed = decode_state(bench.store.info(start.execution_id).state).error
    assert failed.code == "engine_error" and "Error: no such value" in failed.message
    assert "secret" not in failed.message
    assert not any(bench.store.open_work(start.execution_id).values())
    assert bench.handle([answer]).give_back == [], "a repeat changes nothing"


@pytest.mark.parametrize("times", [1, TRIES - 1])
def test_an_outage_uses_up_no_try_of_an_event(times):
    """After many deliveries into an outage, an event on which the engine fails now and then still has all its tries."""
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    answer, plain = delivery(bench.answer(command)), bench.deps.engine
    away = InfrastructureError("the database is away", code="database_unreachable")
    bench.deps = replace(bench.deps, engine=replace(plain, store=Choosy(bench.store, "cmd:1:0", away)))
    for received in range(1, 10):
        managed = bench.handle([msgspec.structs.replace(answer, received=received)])
        assert managed.give_back == ["m"]
    choosy = Choosy(bench.store, "cmd:1:0", RuntimeError("a hiccup"), times)
    bench.deps = replace(bench.deps, engine=replace(plain, store=choosy))
    managed = bench.handle([msgspec.structs.replace(answer, received=10)])
    assert (managed.give_back, managed.failures) == ([], times)
    assert status(bench, start.execution_id) == "completed"


def test_an_outage_between_the_tries_of_an_event_leaves_it_to_its_queue():
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    away = Choosy(bench.store, "cmd:1:0", InfrastructureError("away"))
    away = Choosy(away, "cmd:1:0", RuntimeError("a hiccup"), TRIES - 1)
    bench.deps = replace(bench.deps, engine=replace(bench.deps.engine, store=away))
    assert bench.handle([delivery(bench.answer(command))]).give_back == ["m"]
    assert status(bench, start.execution_id) == "running"


class Choosy:
    """A store that refuses a change which applies one event, ``times`` times."""

    def __init__(self, store, event_id, error, times=1000):
        self.store, self.event_id, self.error, self.times = store, event_id, error, times

    def __getattr__(self, name):
        return getattr(self.store, name)

    def commit(self, changes, owner=None):
        if self.times and any(row.event_id == self.event_id for change in changes for row in change.events):
            self.times -= 1
            raise self.error
        return self.store.commit(changes, owner)


def test_an_outage_gives_everything_back():
    bench = Bench()
    starts = [bench.start() for _ in range(2)]
    away = Poison(bench.store, starts[0].execution_id, InfrastructureError("away"))
    plain, bench.deps = bench.deps, replace(bench.deps, engine=replace(bench.deps.engine, store=away))
    managed = bench.handle(bench.put(*starts))
    assert len(managed.give_back) == 2 and managed.commands == 0
    bench.deps, bench.time = plain, bench.time + FIRST_SECONDS
    assert bench.handle(bench.receive()).commands == 2


def test_what_a_queue_refuses_is_free_for_the_sweep():
    bench = Bench()
    bench.commands["http"].refuses = {1}
    managed = bench.handle(bench.put(*(bench.start() for _ in range(3))))
    assert (managed.commands, managed.unsent, managed.give_back) == (2, 1, [])
    assert len(bench.given()) == 2
    bench.commands["http"].refuses = set()
    done = swept(bench)
    assert (done.commands, done.events, done.unsent) == (1, 0, 0), "at once: it belongs to nobody"
    ((command, token),) = bench.given()
    assert command.attempt == 2 and token == grant(command, RING)


def test_what_could_not_be_marked_is_published_again_when_its_owner_is_over():
    bench = Bench()
    publisher = replace(bench.deps.publisher, store=Unmarking(bench.store))
    bench.deps = replace(bench.deps, publisher=publisher)
    managed = bench.handle(bench.put(bench.start()))
    assert (managed.unsent, managed.give_back) == (1, [])
    assert len(bench.given()) == 1
    plain = replace(publisher, store=bench.store)
    for after, found in ((0, 0), (62, 1), (62, 0)):
        bench.time += after
        done = sweep(bench.store, plain, who="m", clock=lambda: bench.time, deadline=lambda: 50.0)
        assert done.commands == found


class Unmarking:
    def __init__(self, store):
        self.store = store

    def hand_over(self, owner, published, freed=None):
        raise InfrastructureError("the answer was lost")


@pytest.mark.parametrize(("left", "followed"), [(25.0, 1), (1.0, 0)])
def test_what_a_batch_causes_is_handled_at_once_or_through_the_queue_when_time_is_short(left, followed):
    """A loop is over when its last item is."""
    bench = Bench(HEAD + LOOP)
    start = bench.start()
    bench.handle(bench.put(start))
    first = bench.given()
    bench.handle([delivery(bench.items(command), name=command.command_id) for command, _ in first])
    ((last, _),) = bench.given()
    bench.left = left
    managed = bench.handle([delivery(bench.items(last))])
    assert (managed.followed, len(bench.events)) == (followed, 1 - followed)
    if not followed:
        bench.left = 25.0
        bench.handle(bench.receive())
    assert status(bench, start.execution_id) == "completed"
    bench.time += 1e6
    assert not any(bench.store.open_work(start.execution_id).values())


def test_an_event_that_is_held_again_after_its_release_is_not_lost_to_the_queue():
    """A FIFO queue remembers a deduplication id for five minutes, although the message was consumed."""
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()

    def say(kind, name):
        bench.handle([delivery(bench.text(kind(start.execution_id, name, bench.program.hash)))])

    say(Pause, "pause-1")
    bench.handle([delivery(bench.answer(command))])
    bench.left = 1.0  # Too little time: what is released goes through the queue.
    say(Resume, "resume-1")
    say(Pause, "pause-2")
    released = bench.receive()
    assert len(released) == 1 and bench.handle(released).give_back == [], "it is held once more"
    say(Resume, "resume-2")
    bench.handle(bench.receive())
    assert status(bench, start.execution_id) == "completed"


def test_a_second_run_of_a_chunk_that_cuts_its_messages_elsewhere_is_held_whole():
    """The worker died after its first message; the queue gave the same attempt to another one (docs/adr/0018)."""
    bench = Bench(HEAD + LOOP.replace("parallel", "sequential"))
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    bench.handle([delivery(bench.text(Pause(start.execution_id, "p", bench.program.hash)))])
    for text in (bench.items(command, 1), bench.items(command)):
        bench.handle([delivery(text)])
    bench.handle([delivery(bench.text(Resume(start.execution_id, "r", bench.program.hash)))])
    assert status(bench, start.execution_id) == "completed"


def test_a_start_that_waited_for_its_slot_is_not_lost_to_the_queue():
    """It was sent once before it was queued, and once more within five minutes when its slot came free."""
    bench = Bench(ONE_AT_A_TIME)
    first, second = bench.start(), bench.start()
    bench.handle(bench.put(first))
    ((command, _),) = bench.given()
    bench.time += 100
    assert swept(bench).events == 1 and bench.handle(bench.receive()).commands == 0, "no slot is free"
    bench.left = 1.0
    bench.handle([delivery(bench.answer(command))])
    bench.handle(bench.receive())
    assert len(bench.given()) == 1 and status(bench, second.execution_id) == "running"


def test_an_operator_may_have_a_row_published_again_at_once():
    """docs/operations.md, step 6: a message was lost, and its row is given back."""
    bench = Bench()
    bench.start()
    assert swept(bench).events == 1
    bench.events.ack(bench.receive())
    bench.store.release("queue")
    assert swept(bench).events == 1 and len(bench.receive()) == 1


def swept(bench):
    return sweep(bench.store, bench.deps.publisher, who="m", clock=lambda: bench.time, deadline=lambda: 50.0)


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_can_never_be_sent_keeps_nothing_else_from_being_sent(defect):
    """A sweep takes what is left all at once: poison in it would come back with its neighbours, each time."""
    bench = Bench()
    starts = [bench.start() for _ in range(3)]
    bad = msgspec.structs.replace(
        starts[1], execution_id=starts[1].execution_id + 1, payload={"x": "y" * 999}
    )
    bench.store.create(bad, CreatedExecution("it", "it"), "until:1:nobody")
    refusing = replace(bench.deps.publisher, results=Unstorable(defect), limit=500)
    bench.deps = replace(bench.deps, publisher=refusing)
    done = swept(bench)
    assert (done.events, done.unsent) == (4, 1) and len(bench.receive()) == 3
    unread = RefusingQueue(fifo=True, clock=lambda: bench.time)
    bench.deps = replace(bench.deps, publisher=replace(refusing, events=Strict(unread), limit=10**6))
    assert swept(bench).unsent == 1 and any("can never be sent" in line for line in bench.log)


class Unstorable(MemoryResultStore):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect

    def put(self, uri, data, media=""):
        raise self.defect


class Strict:
    """A queue that takes small messages alone."""

    def __init__(self, queue):
        self.queue = queue

    def send(self, messages):
        if any(len(message.body) > 900 for message in messages):
            raise InvalidInputError("too large", code="message_too_large")
        return self.queue.send(messages)


@over("where", ["signed", "unpack"])
@over("defect", DEFECTS)
def test_messages_that_cannot_be_looked_at_or_sent_on_keep_no_other_from_being_handled(
    monkeypatch, defect, where
):
    bench = Bench()
    start = bench.start()
    bad = msgspec.structs.replace(start, execution_id=1, event_id="bad")
    texts = [bench.text(bad), bench.text(start)]

    true = getattr(authenticate, where)

    def broken(*arguments):
        if '"bad"' in str(arguments):
            raise defect
        return true(*arguments)

    monkeypatch.setattr(authenticate, where, broken)
    managed = bench.handle([delivery(text, name=str(n)) for n, text in enumerate(texts)])
    assert managed.give_back == ["0"] and managed.commands == 1
    ((command, token),) = bench.given()
    due = pack(Message(VERSION, token, command=command), bench.results)
    bench.deps = replace(bench.deps, publisher=replace(bench.deps.publisher, workers={}))
    timers = [delivery(due, name="due"), delivery(bench.answer(command), name="answer")]
    assert bench.handle(timers, bench.timers).give_back == ["due"]
    assert status(bench, start.execution_id) == "completed"


@over("where", ["answer_lost", "unpack"])
@over("defect", DEFECTS)
def test_a_dead_letter_that_breaks_its_handler_is_left_and_the_others_are_answered(
    monkeypatch, defect, where
):
    bench = Bench()
    bench.handle(bench.put(*(bench.start() for _ in range(2))))
    letters = [
        delivery(pack(Message(VERSION, token, command=command), bench.results), name=command.step + str(n))
        for n, (command, token) in enumerate(bench.given())
    ]
    true = getattr(burying, where)
    broken = iter([True, False])

    def answer(*args):
        if next(broken):
            raise defect
        return true(*args)

    monkeypatch.setattr(burying, where, answer)
    buried = bury(
        letters, programs=bench.programs, results=bench.results, events=bench.events, limit=10**6,
        log=bench.log.append,
    )  # fmt: skip
    assert (buried.lost, buried.give_back) == (1, ["start0"])


def test_a_dead_letter_is_answered_for_its_worker():
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, token),) = bench.given()
    bodies = [pack(Message(VERSION, token, command=command), bench.results), "rubbish", '{"v":9}']
    buried = bury(
        [delivery(text, name=str(n)) for n, text in enumerate(bodies)],
        programs=bench.programs, results=bench.results, events=bench.events, limit=10**6, log=bench.log.append,
    )  # fmt: skip
    assert (buried.lost, buried.unreadable, buried.give_back) == (1, 1, ["2"])
    assert buried.executions == {start.execution_id}
    managed = bench.handle(bench.receive())
    assert managed.refused == 0 and status(bench, start.execution_id) == "failed"
    bench.events.refuses = {0}
    again = bury(
        [delivery(bodies[0])],
        programs=bench.programs,
        results=bench.results,
        events=bench.events,
        limit=10**6,
        log=bench.log.append,
    )
    assert (again.lost, again.give_back) == (0, ["m"])


def test_large_values_that_nobody_heard_of_are_in_nobodys_way():
    """Who died between a decision's large values and its commit decides again later, with other values."""
    big = "next: { arcs: [{ step: b, args: { at: '{{ [now()] * 3000 }}' } }] }"
    bench = Bench(STEP + f"    {big}\n  - step: b\n    tool: {{ kind: http, url: 'http://b.test/' }}\n")
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    answer, commit = delivery(bench.answer(command)), bench.store.commit

    def dies(*args):
        bench.store.commit = commit
        raise InfrastructureError("the process ends here")

    bench.store.commit = dies
    assert bench.handle([answer]).give_back == [answer.message_id]
    bench.time += 5
    assert bench.handle([answer]).give_back == []
    assert [one.step for one, _ in bench.given()] == ["b"]


def test_a_damaged_message_is_sent_past_what_lies_in_its_place():
    bench = Bench()
    start = bench.start()
    message = Message(VERSION, "t", event=msgspec.structs.replace(start, payload={"big": "x" * 1000}))
    first = decode_message(pack(message, bench.results, limit=500))
    bench.results.delete([first.ref.uri])
    bench.results.put(first.ref.uri, b"damage")
    assert unpack(pack(message, bench.results, limit=500), bench.results).event == message.event


def test_executions_that_fail_are_counted_for_the_alarm():
    bench = Bench()
    for error in (None, ErrorInfo(message="no")):
        bench.handle(bench.put(bench.start()))
        ((command, _),) = bench.given()
        managed = bench.handle([delivery(bench.answer(command, error=error))])
        assert managed.failed == (error is not None)
