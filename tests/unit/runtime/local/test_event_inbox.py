"""Events on their way to the engine, while something is away that the engine needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from noetl.domain.commands import ItemOutcome
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Cancel, CommandDone, Event, ItemsDone
from noetl.domain.outcomes.outcomes import Outcome
from noetl.runtime.local import event_inbox as inboxes
from noetl.runtime.local.event_inbox import Inbox
from noetl.services.orchestrator.engine_deps import BatchEffects
from tests.waiting import PATIENCE, wait_until


class Panic(BaseException):
    """As the panics of compiled libraries are: no Exception."""


class Engine:
    """``away``: the code of what cannot be reached; ``needs``: the executions that need it."""

    def __init__(self, away: str, needs: set[int]) -> None:
        self.away = away
        self.needs = needs
        self.handled: list[int] = []
        self.lines: list[str] = []
        self.failures: list[tuple[str, int, int]] = []
        self.settled: set[str] = set()
        self.inbox = Inbox(self.handle, self.failed, self.lines.append)
        self.changed = self.inbox.changed

    def failed(self, event: Event, error: Exception, tries: int) -> float | None:
        with self.changed:
            self.failures.append((event.event_id, getattr(event, "attempt", 0), tries))
            self.changed.notify_all()
        return None if event.event_id in self.settled else 0.01

    def handle(self, events: Sequence[Event]) -> BatchEffects:
        if any(event.event_id == "refused" for event in events):
            raise InfrastructureError("access denied", code="aws_refused", retryable=False)
        if any(event.event_id.startswith("poison") for event in events):
            raise ValueError("a defect")
        if any(event.event_id.startswith("panic") for event in events):
            raise Panic("a compiled library gives up")
        if self.away and any(event.execution_id in self.needs for event in events):
            raise InfrastructureError("it does not answer", code=self.away)
        with self.changed:
            self.handled += [event.execution_id for event in events]
            self.changed.notify_all()
        return BatchEffects(ended=[(event.execution_id, "completed") for event in events])

    def ask(self, threads: ThreadPoolExecutor, *events: Event) -> list[Future[BatchEffects | None]]:
        """Let threads ask for events, and see that all of them wait."""
        before = self.inbox.counts()[0]
        asked = [threads.submit(self.inbox.ask, event) for event in events]
        wait_until(lambda: self.inbox.counts()[0] == before + len(events), "threads that wait")
        return asked

    def wait(self, wanted: list[int]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.handled == wanted, PATIENCE), (self.handled, self.lines)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(inboxes, "RETRY_SECONDS", (0.01,))
    monkeypatch.setattr(inboxes, "ASIDE_SECONDS", (0.01,))
    yield


@pytest.mark.parametrize("code", ["aws_unreachable", "database_slow", "database_silent"])
def test_nobody_waits_for_a_tier_or_a_lock_that_others_need(code: str) -> None:
    engine = Engine(code, {2})
    engine.inbox.put(Cancel(number, "cancel", "p") for number in (1, 2, 3))
    engine.inbox.start()
    engine.wait([1, 3])
    engine.inbox.put([Cancel(2, "cancel", "p"), Cancel(4, "cancel", "p")])
    engine.wait([1, 3, 4])
    assert any(engine.inbox.counts()), "what waits is not settled"
    engine.away = ""
    engine.wait([1, 3, 4, 2])
    engine.inbox.close()
    assert any("execution 2" in line and "does not answer" in line for line in engine.lines)


def handled_by(engine: Engine) -> list[str]:
    """Return the names of the threads that handle, as they do."""
    threads: list[str] = []
    handle = engine.inbox._handle
    engine.inbox._handle = lambda events: (threads.append(threading.current_thread().name), handle(events))[1]
    return threads


def test_a_worker_handles_the_one_event_that_waits() -> None:
    engine = Engine("", set())
    threads, decided = handled_by(engine), []
    engine.inbox._decided = lambda: decided.append(engine.inbox.counts())
    engine.inbox.start()
    engine.inbox.turn()
    engine.inbox.put([Cancel(1, "cancel", "p")], turn=True)
    assert engine.inbox.holds(1) and engine.handled == []
    engine.inbox.turn()
    assert engine.handled == [1] and threads == [threading.current_thread().name]
    assert decided == [(0, 0)] and not engine.inbox.holds(1)
    engine.inbox.put([Cancel(2, "cancel", "p")])
    engine.wait([1, 2])
    assert threads[1] == "noetl-engine", "the inbox's thread is there as before"
    engine.inbox.close()


@pytest.mark.parametrize("reason", ["two", "urgent", "loaded"])
def test_a_worker_leaves_to_the_thread_what_is_more_than_its_event(reason: str) -> None:
    """A batch is one commit; and a worker of a loaded pool has commands to run."""
    engine, loaded = Engine("", set()), [reason == "loaded"]
    engine.inbox._loaded = lambda: loaded[0]
    threads = handled_by(engine)
    with ThreadPoolExecutor(1) as asking:
        engine.inbox.put([Cancel(1, "cancel", "p")], turn=True)
        if reason == "two":
            engine.inbox.put([Cancel(2, "cancel", "p")], turn=True)
        asked = engine.ask(asking, Cancel(2, "ask", "p")) if reason == "urgent" else []
        engine.inbox.turn()
        assert engine.handled == []
        engine.inbox.start()
        wanted = 1 if reason == "loaded" else 2
        wait_until(lambda: len(engine.handled) == wanted, "the inbox's thread")
        assert set(threads) == {"noetl-engine"} and [one.result() for one in asked] != [None]
    engine.inbox.close()


@pytest.mark.parametrize("event_id", ["poison", "panic"])
def test_what_fails_in_a_worker_is_tried_by_the_thread(event_id: str) -> None:
    """Nothing is lost, nothing else waits for it, and its failures are counted by the thread."""
    engine = Engine("", set())
    engine.settled.add(event_id)
    threads = handled_by(engine)
    engine.inbox.put([Cancel(1, event_id, "p")], turn=True)
    with pytest.raises(Panic) if event_id == "panic" else nullcontext():
        engine.inbox.turn()
    assert engine.inbox.counts() == (1, 0) and engine.failures == [] and engine.inbox.holds(1)
    engine.inbox.start()
    wait_until(lambda: engine.failures == [(event_id, 0, 1)], "the failure that is counted")
    engine.inbox.put([Cancel(2, "cancel", "p")])
    engine.wait([2])
    assert threads[1] == "noetl-engine" and not engine.inbox.holds(1)
    engine.inbox.close()


@pytest.mark.parametrize(
    ("code", "aside"),
    [("database_silent", True), ("aws_unreachable", True), ("database_contention", False)],
)
def test_a_stall_that_a_worker_meets_is_met_once(code: str, aside: bool) -> None:
    """It lasts for as long as the database may be silent: others would wait for it twice."""
    engine = Engine(code, {1})
    threads = handled_by(engine)
    engine.inbox.put([Cancel(1, "cancel", "p")], turn=True)
    engine.inbox.turn()
    assert engine.inbox.counts() == (1, 0) and bool(engine.inbox._aside) is aside
    assert engine.inbox.holds(1) is not aside and len(engine.lines) == aside
    engine.away = ""
    engine.inbox.start()
    engine.wait([1])
    assert threads == [threading.current_thread().name, "noetl-engine"]
    engine.inbox.close()


def test_an_outage_that_a_worker_meets_is_waited_for_by_the_thread() -> None:
    engine = Engine("database_unreachable", {1})
    engine.inbox.put([Cancel(1, "cancel", "p")], turn=True)
    engine.inbox.turn()
    assert engine.handled == []
    engine.inbox.start()
    wait_until(lambda: engine.lines != [], "the thread that meets it, too")
    engine.away = ""
    engine.wait([1])
    engine.inbox.close()


def test_the_thread_begins_no_batch_during_the_turn_of_a_worker_and_ends_after_it() -> None:
    """What comes meanwhile is in the next batch; a process that ends waits for the turn."""
    engine, inside, leave = Engine("", set()), threading.Event(), threading.Event()
    handle, batches = engine.inbox._handle, []

    def slow(events: Sequence[Event]) -> BatchEffects | None:
        batches.append([event.execution_id for event in events])
        if events[0].execution_id == 1:
            inside.set()
            assert leave.wait(PATIENCE)
        return handle(events)

    engine.inbox._handle = slow
    engine.inbox.start()
    engine.inbox.put([Cancel(1, "cancel", "p")], turn=True)
    worker = threading.Thread(target=engine.inbox.turn)
    worker.start()
    assert inside.wait(PATIENCE)
    engine.inbox.put([Cancel(2, "cancel", "p")])
    engine.inbox.put([Cancel(3, "cancel", "p")], turn=True)
    engine.inbox.turn()  # another worker: the next batch has its event
    assert batches == [[1]] and engine.inbox.counts() == (2, 1)
    ending = threading.Thread(target=engine.inbox.close)
    ending.start()
    wait_until(lambda: engine.inbox._closing, "a process that ends")
    assert batches == [[1]] and ending.is_alive()
    leave.set()
    worker.join(PATIENCE)
    ending.join(PATIENCE)
    assert batches == [[1], [2, 3]] and engine.handled == [1, 2, 3]


def test_an_inbox_that_closes_handles_what_a_worker_gives_back_and_all_behind_it() -> None:
    """Their outcomes are in memory only, and what failed once may succeed, or fail alone."""
    engine, inside, leave = Engine("", set()), threading.Event(), threading.Event()
    handle = engine.inbox._handle

    def fail_once(events: Sequence[Event]) -> BatchEffects | None:
        if not inside.is_set():
            inside.set()
            assert leave.wait(PATIENCE)
            raise InfrastructureError("it gave way to others", code="database_contention")
        return handle(events)

    engine.inbox._handle = fail_once
    engine.inbox.start()
    engine.inbox.put([Cancel(1, "cancel", "p")], turn=True)
    worker = threading.Thread(target=engine.inbox.turn)
    worker.start()
    assert inside.wait(PATIENCE)
    engine.inbox.put([Cancel(2, "cancel", "p")], turn=True)
    ending = threading.Thread(target=engine.inbox.close)
    ending.start()
    wait_until(lambda: engine.inbox._closing, "a process that ends")
    leave.set()
    worker.join(PATIENCE)
    ending.join(PATIENCE)
    assert engine.handled == [1, 2] and engine.inbox.counts() == (0, 0)


def test_an_execution_is_held_until_the_engine_has_decided_about_it() -> None:
    """What is set aside is not: nobody waits for what comes of it."""
    engine = Engine("aws_unreachable", {2})
    held: list[list[int]] = []
    engine.inbox._decided = lambda: held.append([one for one in (1, 2, 3) if engine.inbox.holds(one)])
    engine.inbox.put(Cancel(number, "cancel", "p") for number in (1, 2))
    engine.inbox.put([Cancel(1, "again", "p")])
    assert [engine.inbox.holds(number) for number in (1, 2, 3)] == [True, True, False]
    engine.inbox.start()
    engine.wait([1, 1])
    engine.away = ""
    engine.wait([1, 1, 2])
    engine.inbox.close()
    assert held and not any(held)


def test_everything_waits_for_the_database_in_its_order() -> None:
    engine = Engine("database_unreachable", {1, 2, 3})
    engine.inbox.put(Cancel(number, "cancel", "p") for number in (1, 2, 3))
    engine.inbox.start()
    with engine.changed:
        assert not engine.changed.wait_for(lambda: engine.handled, 0.05)
    engine.away = ""
    engine.wait([1, 2, 3])
    engine.inbox.close()


@pytest.mark.parametrize("name", ["poison", "refused", "panic"])
def test_what_the_engine_fails_on_is_tried_alone_until_it_is_settled(name: str) -> None:
    engine = Engine("", set())
    engine.inbox.put(Cancel(number, name if number == 2 else "fine", "p") for number in (1, 2, 3))
    engine.inbox.start()
    engine.wait([1, 3])
    with engine.changed:
        assert engine.changed.wait_for(lambda: len(engine.failures) >= 3, PATIENCE)
        assert any(engine.inbox.counts()), "it is not dropped"
        engine.settled.add(name)
        assert engine.changed.wait_for(lambda: engine.inbox.counts() == (0, 0), PATIENCE)
        assert engine.failures[:3] == [(name, 0, 1), (name, 0, 2), (name, 0, 3)]
    engine.inbox.close()


def test_outcomes_of_two_attempts_are_set_aside_both() -> None:
    engine = Engine("", set())
    engine.inbox.put(
        CommandDone(1, "poison", "p", "1", attempt, 0, 1, "s", Outcome("ok")) for attempt in (2, 1)
    )
    engine.inbox.start()
    with engine.changed:
        wanted = {("poison", 1, 3), ("poison", 2, 3)}
        assert engine.changed.wait_for(lambda: wanted <= set(engine.failures), PATIENCE), engine.failures
    engine.inbox.close()


def test_messages_of_one_command_that_were_cut_elsewhere_are_set_aside_both() -> None:
    """A worker that runs a chunk twice names its first message alike, and puts other items into it (docs/adr/0018)."""
    engine, items = Engine("aws_unreachable", {1}), [ItemOutcome(index, Outcome("ok")) for index in range(3)]
    engine.inbox.put(ItemsDone(1, "items", "p", "1.r0.0", 1, 0, 1, "s", 0, items[:size]) for size in (3, 1))
    engine.inbox.start()
    with engine.changed:
        assert engine.changed.wait_for(lambda: len(engine.lines) >= 4, PATIENCE), engine.lines
    engine.away = ""
    engine.wait([1, 1])
    engine.inbox.close()


def test_events_that_are_always_due_again_keep_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying them takes longer than their pauses, as it does when what they need hangs."""
    monkeypatch.setattr(inboxes, "ASIDE_SECONDS", (0.0,))
    engine = Engine("aws_unreachable", {2})
    engine.inbox.put([Cancel(2, "cancel", "p")])
    engine.inbox.start()
    with engine.changed:
        assert engine.changed.wait_for(
            lambda: engine.inbox.counts()[0] == 1 and len(engine.lines) > 1, PATIENCE
        )
    engine.inbox.put([Cancel(3, "cancel", "p")])
    try:
        engine.wait([3])
    finally:
        engine.away = ""
        engine.inbox.close()


def test_what_threads_wait_for_goes_first_and_shares_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much waits: a request is answered after the batch that is under way and its own."""
    monkeypatch.setattr(inboxes, "BATCH", 3)
    engine = Engine("", set())
    engine.inbox.put(Cancel(number, "cancel", "p") for number in (1, 2, 3))
    with ThreadPoolExecutor(2) as threads:
        asked = engine.ask(threads, Cancel(8, "a", "p"), Cancel(9, "b", "p"))
        assert engine.inbox.holds(8)
        engine.inbox.start()
        first, second = (one.result(PATIENCE) for one in asked)
        engine.wait([*engine.handled[:3], 2, 3])
    assert sorted(engine.handled[:3]) == [1, 8, 9]
    assert first is not None and first is second and len(first.ended) == 3
    wait_until(lambda: not engine.inbox.holds(8), "the end of the batch")
    engine.inbox.close()


@pytest.mark.parametrize("name", ["poison", "refused", "panic"])
def test_a_batch_that_fails_gives_up_what_threads_wait_for(name: str) -> None:
    """Nothing of it is handled later behind the back of who asked, and no other event is blamed."""
    engine = Engine("", set())
    engine.inbox.put([Cancel(1, "cancel", "p")])
    with ThreadPoolExecutor(2) as threads:
        asked = engine.ask(threads, Cancel(8, name, "p"), Cancel(9, "b", "p"))
        engine.inbox.start()
        assert [one.result(PATIENCE) for one in asked] == [None, None]
    engine.wait([1])
    wait_until(lambda: engine.inbox.counts() == (0, 0), "the end of the batch")
    assert engine.failures == [] and not engine.inbox.holds(8)
    engine.inbox.close()


def test_nobody_waits_for_an_event_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither who asked before nor who asks while it is waited for."""
    entered, back = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        entered.set()
        assert back.wait(PATIENCE)

    engine = Engine("database_unreachable", {1})
    engine.inbox.put([Cancel(1, "cancel", "p")])
    with ThreadPoolExecutor(1) as threads:
        (asked,) = engine.ask(threads, Cancel(8, "a", "p"))
        monkeypatch.setattr(inboxes, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
        engine.inbox.start()
        assert asked.result(PATIENCE) is None
        assert entered.wait(PATIENCE)
        assert engine.inbox.ask(Cancel(9, "b", "p")) is None
    engine.away = ""
    back.set()
    engine.wait([1])
    again = engine.inbox.ask(Cancel(9, "b", "p"))
    assert again is not None
    engine.inbox.close()


def test_nobody_waits_while_the_engine_waits_for_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result store that hangs keeps the batch that needs it, and no request; what the engine has begun with is waited for."""
    monkeypatch.setattr(inboxes, "TURN_SECONDS", 0.05)
    engine, hangs, back = Engine("", set()), threading.Event(), threading.Event()

    def hang(events: Sequence[Event]) -> BatchEffects:
        hangs.set()
        assert back.wait(2 * PATIENCE)
        return engine.handle(events)

    withdraw, withdrawn = engine.inbox._withdraw, list[bool]()

    def withdraw_late(one: inboxes._Aside) -> bool:
        assert hangs.wait(PATIENCE)
        withdrawn.append(withdraw(one))
        return withdrawn[-1]

    engine.inbox._handle = hang
    engine.inbox.put([Cancel(1, "cancel", "p")])
    engine.inbox.start()
    assert hangs.wait(PATIENCE)
    try:
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(engine.inbox.ask, Cancel(8, "a", "p"))
            try:
                assert asked.result(PATIENCE) is None
            finally:
                back.set()
        assert not engine.inbox.holds(8)
        engine.wait([1])
        hangs.clear()
        back.clear()
        monkeypatch.setattr(engine.inbox, "_withdraw", withdraw_late)
        with ThreadPoolExecutor(1) as threads:
            begun = threads.submit(engine.inbox.ask, Cancel(9, "b", "p"))
            wait_until(lambda: withdrawn == [False], "the end of the first wait")
            back.set()
            assert begun.result(PATIENCE) is not None
    finally:
        back.set()
        engine.inbox.close()
    assert engine.handled == [1, 9]


def test_nobody_waits_for_an_inbox_that_closes() -> None:
    engine = Engine("", set())
    with ThreadPoolExecutor(1) as threads:
        (asked,) = engine.ask(threads, Cancel(8, "a", "p"))
        engine.inbox._closing = True
        engine.inbox.start()
        assert asked.result(PATIENCE) is None
    engine.inbox.close()
    assert engine.inbox.ask(Cancel(9, "b", "p")) is None
    assert engine.handled == []


@pytest.mark.parametrize("broken", ["log", "report"])
def test_the_engine_goes_on_after_it_could_not_report_a_failure(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when standard error is a file of a full disk. Whoever waits for an event is answered, and nothing that was put is dropped."""
    full, told = OSError("No space left on device"), threading.Semaphore(0)

    def refuse(*report: object) -> None:
        told.release()
        raise full

    engine = Engine("database_unreachable", {7})
    engine.inbox.put([Cancel(1, "poison", "p"), Cancel(2, "cancel", "p"), Cancel(7, "cancel", "p")])
    with monkeypatch.context() as full_disk, ThreadPoolExecutor(1) as threads:
        full_disk.setattr(engine.inbox, "_failed" if broken == "report" else "_log", refuse)
        full_disk.setattr(threading, "excepthook", refuse)
        (asked,) = engine.ask(threads, Cancel(8, "a", "p"))
        engine.inbox.start()
        assert asked.result(PATIENCE) is None
        assert told.acquire(timeout=PATIENCE) and told.acquire(timeout=PATIENCE)
    engine.settled.add("poison")
    engine.away = ""
    with engine.changed:
        assert engine.changed.wait_for(lambda: {2, 7} <= set(engine.handled), PATIENCE), (
            "its thread has ended"
        )
    wait_until(lambda: engine.inbox.counts() == (0, 0), "the end of what was put")
    assert engine.inbox.ask(Cancel(9, "b", "p")) is not None
    engine.inbox.close()


def test_the_engine_gathers_events_while_workers_have_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit has what was reported meanwhile; the engine waits no longer once it has enough, or a worker has nothing to do."""
    monkeypatch.setattr(inboxes, "GATHER_SECONDS", 10 * PATIENCE)
    batches: list[list[int]] = []

    def handle(events: Sequence[Event]) -> BatchEffects:
        with engine.changed:
            batches.append([event.execution_id for event in events])
            engine.changed.notify_all()
        return BatchEffects()

    engine, loaded = Engine("", set()), [True]
    engine.inbox = Inbox(handle, engine.failed, engine.lines.append, loaded=lambda: loaded[0])
    engine.inbox.start()

    def put(*numbers: int) -> None:
        for number in numbers:
            engine.inbox.put([Cancel(number, "cancel", "p")])

    def handled(*wanted: list[int]) -> None:
        wait_until(lambda: batches == list(wanted), "the batches of the engine")
        batches.clear()

    put(1)
    wait_until(lambda: engine.inbox._gathering, "an engine that waits for more events")
    put(2, 3)
    engine.inbox.hurry()
    handled([1, 2, 3])
    put(0)
    wait_until(lambda: engine.inbox._gathering, "an engine that waits for more events")
    put(*range(1, inboxes.GATHER))
    handled(list(range(inboxes.GATHER)))
    loaded[0] = False
    put(4)
    handled([4])
    engine.inbox.close()


def test_a_worker_that_has_nothing_to_do_while_the_engine_begins_to_gather_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inboxes, "GATHER_SECONDS", 10 * PATIENCE)
    engine = Engine("", set())

    def loaded() -> bool:
        engine.inbox.hurry()  # another thread, between the answer and the wait
        return True

    engine.inbox._loaded = loaded
    engine.inbox.start()
    engine.inbox.put([Cancel(1, "cancel", "p")])
    engine.wait([1])
    engine.inbox.close()


def test_what_was_reported_is_handled_before_an_inbox_closes() -> None:
    """An outcome is in memory only: dropped, its task would run again. What follows from it is durable, and may wait."""
    engine, entered, on = Engine("", set()), threading.Event(), threading.Event()

    def handle(events: Sequence[Event]) -> BatchEffects:
        entered.set()
        assert on.wait(PATIENCE)
        engine.inbox.put(Cancel(event.execution_id + 100, "follows", "p") for event in events)
        return engine.handle(events)

    engine.inbox._handle = handle
    engine.inbox.start()
    engine.inbox.put([Cancel(1, "cancel", "p")])
    assert entered.wait(PATIENCE)
    engine.inbox.put(Cancel(number, "cancel", "p") for number in range(2, inboxes.BATCH + 5))
    closing = threading.Thread(target=engine.inbox.close)
    closing.start()
    wait_until(lambda: engine.inbox._closing, "an inbox that closes")
    on.set()
    closing.join(PATIENCE)
    assert engine.handled == list(range(1, inboxes.BATCH + 5))


def test_an_inbox_closes_during_an_outage() -> None:
    engine = Engine("database_unreachable", {1, 2})
    engine.inbox.put([Cancel(1, "cancel", "p"), Cancel(2, "cancel", "p")])
    engine.inbox.start()
    wait_until(lambda: bool(engine.lines), "a try during the outage")
    engine.inbox.close()
    assert not engine.inbox._thread.is_alive() and engine.handled == []
