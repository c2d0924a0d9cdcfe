"""Messages during an outage: they wait, however long it is, and go on by themselves. What the engine can do nothing with is laid aside."""

from __future__ import annotations

import threading
from dataclasses import replace

import msgspec
import pytest

from noetl.domain.errors import InfrastructureError
from noetl.domain.messages import VERSION, Message, MessageRef, encode_message
from noetl.ports.command_tries import CommandTries
from noetl.services.messaging.back_off import USUAL
from noetl.services.messaging.send_events import signed_event
from noetl.services.orchestrator.dead_letters import look, send_back
from noetl.services.queries.analyze import Analysis, AnalyzeDeps
from noetl.services.worker.consume_commands import work_batch
from noetl.services.worker.crew import CREW
from tests.conformance.explained import check_explained
from tests.doubles.deliveries import MemoryDeliveries
from tests.doubles.inspection import MemoryInspection
from tests.doubles.queue import MemoryQueue
from tests.unit.services.batch_bench import Bench as WorkerBench
from tests.unit.services.engine_bench import NOW, RING, Bench, delivery
from tests.waiting import wait_until

HOUR = 3600.0
RECEIVES = 500
"""What the template says (infra/constructs/queue_with_dlq.py; held together by tests/infra/test_defaults.py)."""


class Away:
    """A store that is away until ``back``."""

    def __init__(self, store, bench, back):
        self.store, self.bench, self.back = store, bench, back

    def __getattr__(self, name):
        if self.bench.time < self.back:
            raise InfrastructureError("the database does not answer", code="database_unreachable")
        return getattr(self.store, name)


def outage(bench: Bench, back: float) -> None:
    """The store is away until ``back``; the queue gives a message up as the deployed one does."""
    store = Away(bench.store, bench, back)
    dead = MemoryQueue(fifo=True, clock=lambda: bench.time)
    bench.events._dead_letters, bench.events._max_receives = dead, RECEIVES  # type: ignore[attr-defined]
    bench.deps = replace(
        bench.deps,
        engine=replace(bench.deps.engine, store=store),
        publisher=replace(bench.deps.publisher, store=store),
        dead_letters=lambda queue: dead,
    )
    bench.dead = dead  # type: ignore[attr-defined]


def explained(bench: Bench, damage: tuple[str, ...] = ()) -> list[Analysis]:
    """What `analyze` says of every execution, by the store itself: the database is back."""
    dead = {"events": bench.dead} if hasattr(bench, "dead") else {}
    queues = {"events": bench.events, **{f"commands-{name}": one for name, one in bench.commands.items()}}
    deps = AnalyzeDeps(
        bench.store,
        MemoryInspection(bench.store),
        bench.programs,
        lambda: bench.time,
        MemoryDeliveries(queues, dead, bench.results),
    )
    return [check_explained(info, deps, damage) for info in bench.store.executions(limit=100)]


def kinds(found: list[Analysis]) -> set[str]:
    return {finding.kind for one in found for finding in one.findings}


@pytest.mark.parametrize("hours", [1, 24 * 4])
def test_executions_go_on_by_themselves_after_an_outage_of_hours_or_days(hours):
    bench = Bench()
    starts = [bench.start() for _ in range(20)]
    bench.events.send([signed_event(one, "client", RING, bench.results, 10**6) for one in starts])
    outage(bench, NOW + hours * HOUR)
    deliveries = 0
    while bench.time < NOW + (hours + 1) * HOUR:
        while got := bench.receive():
            deliveries += len(got)
            if bench.time >= NOW + hours * HOUR:
                assert kinds(explained(bench)) <= {"not_started", "running"}, (
                    "nothing has gone on yet, or some"
                )
            bench.handle(got)
        bench.time += 5
    assert kinds(explained(bench)) == {"long_running"}
    assert len(bench.given()) == 20, "every execution has its command"
    assert len(bench.dead) == 0 and len(bench.events) == 0  # type: ignore[attr-defined]
    assert deliveries <= 20 * (hours * 4 + 10), "the pauses grow to a quarter of an hour"


def test_keys_that_are_away_cost_no_message_anything():
    bench = Bench()
    got = bench.put(bench.start())

    def keys(fresh):
        raise InfrastructureError("the secret cannot be read", code="aws_refused", retryable=False)

    bench.deps = replace(bench.deps, door=replace(bench.deps.door, keys=keys))
    managed = bench.handle(got)
    assert managed.give_back == [got[0].message_id] and managed.failures == 1
    assert kinds(explained(bench)) == {"not_started"}
    bench.time += USUAL.first - 1
    assert bench.receive() == []


def test_what_the_engine_can_do_nothing_with_is_laid_aside_and_retried_by_an_operator_alone():
    """A message whose text is gone holds up its group; what its queue gave up goes back by itself."""
    bench = Bench()
    start = bench.start()
    outage(bench, 0)
    ref = MessageRef(f"noetl://execution/{start.execution_id}/result/message/{'0' * 64}", "0" * 64, 10)
    text = encode_message(Message(VERSION, ref=ref))
    for received in (1, 2):
        assert bench.handle([delivery(text, received=received)]).give_back == ["m"]
    managed = bench.handle([delivery(text, received=3)])
    assert (managed.give_back, managed.laid_aside) == ([], 1)
    (found,) = explained(bench, damage=("dead_letter",))
    assert found.findings[0].kind == "dead_letter" and "0000" in found.verdict and found.stuck
    dead = bench.dead  # type: ignore[attr-defined]
    (letter,) = look("events", dead, bench.results)
    assert letter.executions == [str(start.execution_id)] and "0000" in letter.why
    dead.adopt(bench.text(start), "1")
    given = {"deadline": lambda: 50.0, "log": bench.log.append}
    done = send_back(dead, bench.events, wanted=lambda one: not one.why, **given)
    assert (len(done.done), done.left) == (1, 1)
    assert bench.handle(bench.receive()).commands == 1
    done = send_back(dead, bench.events, wanted=lambda one: True, **given)
    assert (len(done.done), done.left, len(dead)) == (1, 0, 0)
    assert kinds(explained(bench)) == {"running"}


def test_a_message_that_waits_for_another_one_does_not_use_up_its_deliveries():
    """It came early, and what it waits for may wait for a quarter of an hour itself."""
    seconds = sum(USUAL.after(received, 1.0) for received in range(1, RECEIVES))
    assert seconds > 5 * 24 * HOUR
    assert [USUAL.after(received) for received in (1, 2, 3, 8, 9, 400)] == [5, 10, 20, 640, 900, 900]


class Tries:
    """Entries of commands, as the bucket keeps them; ``away``: the bucket cannot be reached."""

    def __init__(self):
        self.kept: dict[tuple[int, str, int, int], CommandTries] = {}
        self.away = False

    def get(self, execution_id, command_id, attempt, turn):
        return self.kept.get((execution_id, command_id, attempt, turn))

    def put(self, command, tries):
        if self.away:
            raise InfrastructureError("no bucket")
        self.kept[command.execution_id, command.command_id, command.attempt, command.turn] = tries


def worker(tool=lambda params, context: params["v"]):
    bench = WorkerBench(tool=tool, tries=Tries())
    (got,) = bench.put(bench.command(1))
    return (
        bench,
        got,
        lambda received: work_batch([msgspec.structs.replace(got, received=received)], bench.deps),
    )


def test_a_command_is_lost_after_three_workers_died_of_it_and_not_after_three_deliveries():
    bench, got, deliver = worker()
    plain, loads = bench.deps.worker.programs, iter(range(13))

    def programs(hash_):
        if next(loads) < 12:
            raise InfrastructureError("no bucket: it answers 503")
        return plain(hash_)

    bench.deps = replace(bench.deps, worker=replace(bench.deps.worker, programs=programs))
    for received in range(1, 13):
        assert deliver(received).give_back == [got.message_id]
    tries = bench.deps.tries.get(101, "1", 1, 0)
    assert (tries.began, tries.received) == (0, 12) and "503" in tries.why
    assert deliver(13).give_back == [] and bench.said()[0][1].outcome.result == 1


def test_a_command_that_kills_its_workers_is_answered_without_being_begun_a_fourth_time():
    """The first worker left no entry behind, the next ones an entry that nobody ended."""
    begun = []
    bench, _, deliver = worker(lambda params, context: begun.append(params["v"]))
    deliver(2)
    deliver(3)
    # Outcomes are not counted: two that took the same time are the same message, which the queue takes once.
    assert len(begun) == 2 and {event.outcome.status for _, event in bench.said()} == {"ok"}
    worked = deliver(4)
    assert len(begun) == 2
    ((_, event),) = bench.said()
    assert (worked.give_back, worked.lost) == ([], 1) and event.outcome.error.kind == "worker_lost"


@pytest.mark.parametrize("why", ["no time", "an outage"])
def test_a_delivery_that_never_began_the_command_is_no_try(why):
    """The worker that gives it back unbegun lives, and says so; three workers may begin it after that."""
    begun = []
    bench, got, deliver = worker(lambda params, context: begun.append(params["v"]))

    def revoked(execution_id, run):
        raise InfrastructureError("no bucket: it answers 503")

    usual, late = bench.deps, got.sent_at + 3600.0
    if why == "no time":
        bench.left[0] = 0.0
    else:
        bench.deps = replace(usual, revoked=revoked, now=lambda: late)
    assert deliver(1).give_back == [got.message_id] and not begun
    bench.left[0], bench.deps = 1e9, usual
    for received in (2, 3, 4):
        deliver(received)
    assert len(begun) == 3 and {event.outcome.status for _, event in bench.said()} == {"ok"}
    assert deliver(5).lost == 1 and len(begun) == 3


def test_a_delivery_whose_worker_died_unseen_counts_so_that_a_command_ends_three_processes_at_most():
    """Whether the first worker had begun it is unknown. What died later before it began the command left the count as it was."""
    begun = []
    bench, _, deliver = worker(lambda params, context: begun.append(params["v"]))
    dies, real = [3], bench.deps.tries.put

    def put(command, tries):
        if dies and tries.received == dies[0]:
            raise InfrastructureError("the process ends before its entry is written")
        real(command, tries)

    bench.deps.tries.put = put
    deliver(2)
    deliver(3)
    dies.clear()
    deliver(4)
    assert len(begun) == 2 and {event.outcome.status for _, event in bench.said()} == {"ok"}
    assert deliver(5).lost == 1 and len(begun) == 2


@pytest.mark.parametrize(("received", "held"), [(1, []), (2, [60])])
def test_a_command_that_came_again_is_held_from_the_first_moment(received, held):
    """The wait after the death of its worker is then the length of a lease, from the start of the batch."""
    nacked: list[int] = []

    def tool(params, context):
        wait_until(lambda: nacked == held, "the hold")  # a batch that is over at once needs none
        return params["v"]

    bench, _, deliver = worker(tool)
    real = bench.commands.nack
    bench.commands.nack = lambda found, seconds=0: (nacked.append(seconds), real(found, seconds))[1]
    deliver(received)
    assert nacked == held


PILL, OTHER = 1, 2


def test_a_command_is_not_given_up_with_the_one_that_its_workers_died_of(monkeypatch):
    """They come in one batch each time, for the queue offers again at once what a dead worker had."""
    died, held = threading.Event(), threading.Event()
    begun: list[tuple[int, int]] = []
    started: list[object] = []
    begin = CREW.begin
    monkeypatch.setattr(CREW, "begin", lambda work: (started.append(work), begin(work)))

    def tool(params, context):
        begun.append((received, params["v"]))
        if received < 4:
            died.wait()
        return params["v"]

    def all_begun():
        """Whoever was started by this worker is in its call, and dies there."""
        return held.is_set() and (received, PILL) in begun and len(started) == len(begun)

    bench = WorkerBench(tool=tool, tries=Tries())
    batch = bench.put(bench.command(PILL), bench.command(OTHER))
    monkeypatch.setattr(bench.commands, "nack", lambda *given: held.set())
    for received in (2, 3):
        held.clear()
        tried = [msgspec.structs.replace(one, received=received) for one in batch]
        threading.Thread(target=work_batch, args=(tried, bench.deps), daemon=True).start()
        wait_until(all_begun)
    assert begun[:2] in ([(2, PILL), (2, OTHER)], [(2, OTHER), (2, PILL)])
    received = 4
    work_batch([msgspec.structs.replace(one, received=received) for one in batch], bench.deps)
    outcomes = {event.execution_id: event.outcome for _, event in bench.said()}
    assert outcomes[100 + PILL].error.kind == "worker_lost"
    assert outcomes[100 + OTHER].status == "ok"
    assert begun[2:] == [(3, PILL), (4, OTHER)]
    bench.left[0] = 0.0
    died.set()
