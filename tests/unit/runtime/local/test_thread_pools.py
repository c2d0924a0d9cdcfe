"""Threads of a pool: as many work as there is work for."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import msgspec
import pytest

from noetl.domain.commands import Command
from noetl.domain.events import Cancel
from noetl.domain.workers.process_need import Need
from noetl.runtime.local.event_inbox import Inbox
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.local.thread_pools import LOADED, Pool
from noetl.runtime.settings import Settings
from noetl.system_calls.deferred_work import defer
from tests.parts import over
from tests.waiting import PATIENCE, wait_until


def command(execution_id: int) -> Command:
    return Command(execution_id, "1", 1, "load", "p", "io")


def test_commands_that_come_while_one_thread_is_idle_run_beside_each_other():
    """The idle thread takes one of them: it has been told, but has not moved yet, when the others come."""
    together = threading.Barrier(3)
    met: list[int] = []

    def run(one: Command) -> None:
        if one.execution_id:
            together.wait(PATIENCE)
            met.append(one.execution_id)

    pool = Pool("io", 3, run)
    pool.submit(command(0))
    wait_until(lambda: pool.idle == 1, "a thread that has nothing to do")
    with pool.ready:  # nobody moves before all have come
        for number in (1, 2, 3):
            pool.submit(command(number))
        started = len(pool.threads)
    assert started == 3, "the others wait for the first"
    wait_until(lambda: len(met) == 3, "three commands at a time")
    wait_until(lambda: pool.gauge().in_flight == 0, "the end of all three")
    pool.close(0.0)


@over("error", [ValueError, SystemExit])
@over("full", [False, True])
def test_a_thread_whose_command_raises_runs_the_next_one(monkeypatch, error, full):
    """The runtime answers for what goes wrong with a command; that may go wrong as well, such as a log on a full disk. Python reports to
    the same place."""
    told, ran = [], threading.Semaphore(0)

    def report(args):
        told.append(args.exc_type)
        if full:
            raise OSError("No space left on device")

    monkeypatch.setattr(threading, "excepthook", report)

    def run(one: Command) -> None:
        if one.execution_id == 1:
            raise error("the log is closed")
        ran.release()

    pool = Pool("io", 1, run)
    pool.submit(command(1))
    wait_until(lambda: told == [error] and pool.gauge().in_flight == 0, "the end of the first")
    pool.submit(command(2))
    assert ran.acquire(timeout=PATIENCE), "no thread runs it"
    pool.close(0.0)


@pytest.mark.parametrize("apart", [False, True])
def test_a_thread_takes_the_command_that_it_submits_after_its_own(apart):
    """To wake another thread, or to start one, takes longer. What is to run beside it gets another thread."""
    ran: list[tuple[int, int]] = []
    wanted = {1: [2], 2: [3, 4]}
    pool = Pool("io", 3, lambda one: ran.append((one.execution_id, threading.get_ident())))

    def then(waits: bool) -> None:
        for number in wanted.pop(ran[-1][0], ()):
            pool.submit(command(number), apart)

    pool._then = then
    pool.submit(command(1))
    wait_until(lambda: len(ran) == 4 and pool.idle == len(pool.threads), "four commands")
    if not apart:
        assert [one for one, _ in ran[:2]] == [1, 2] and ran[0][1] == ran[1][1], "the same thread"
    assert len(pool.threads) > 1 if apart else len(pool.threads) == 2, (
        "of two commands, another thread takes one"
    )
    assert not pool._returning
    pool.close(0.0)


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_thread_that_fails_after_its_command_runs_the_next_one(monkeypatch, error):
    told, ran = [], []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_type))

    def then(waits: bool) -> None:
        if len(ran) == 1:
            raise error("it has no turn")

    pool = Pool("io", 1, lambda one: ran.append(one.execution_id), then=then)
    pool.submit(command(1))
    wait_until(lambda: told == [error] and pool.idle == 1, "the end of the first")
    pool.submit(command(2))
    wait_until(lambda: ran == [1, 2], "the second")
    pool.close(0.0)


@pytest.mark.parametrize("size", [1, 2])
def test_a_command_that_waits_for_a_thread_does_not_wait_for_a_decision(size):
    """The thread that has reported takes it, and leaves the decision to the engine's: the database may hang."""
    ran, decided, answers = [], [], threading.Event()

    def handle(events):
        decided.append(threading.current_thread().name)
        assert answers.wait(2 * PATIENCE)

    def run(one: Command) -> None:
        ran.append(one.execution_id)
        inbox.put([Cancel(one.execution_id, "cancel", "p")], turn=True)

    inbox = Inbox(handle, lambda event, error, tries: None, lambda line: None)
    pool = Pool("io", size, run, then=inbox.turn)
    inbox.start()
    with pool.ready:
        for number in range(2 * size):
            pool.submit(command(number))
    try:
        wait_until(lambda: decided != [], "the decision")
        assert decided == ["noetl-engine"]
        wait_until(lambda: len(ran) == 2 * size, "the commands that waited")
    finally:
        answers.set()
    pool.close(time.monotonic() + PATIENCE)
    inbox.close()


def test_work_that_a_command_defers_is_done_before_the_next_command():
    done: list[str] = []

    def run(one: Command) -> None:
        number = one.execution_id
        defer(lambda: done.append(f"deferred {number}"))
        done.append(f"run {number}")

    pool = Pool("io", 1, run)
    with pool.ready:
        for number in (1, 2):
            pool.submit(command(number))
    wait_until(lambda: len(done) == 4, "both commands")
    assert done == ["run 1", "deferred 1", "run 2", "deferred 2"]
    pool.close(0.0)


def test_a_thread_whose_command_was_taken_away_is_idle_again():
    pool = Pool("io", 1, lambda one: None)
    pool.submit(command(1))
    wait_until(lambda: pool.idle == 1, "a thread that has nothing to do")
    with pool.ready:
        pool.submit(command(2))
        assert pool.idle == 0
        assert [one.execution_id for one in pool.take(5)] == [2]
    wait_until(lambda: pool.idle == 1, "the same thread, idle")
    pool.close(0.0)


def test_only_what_was_refused_a_place_is_told_of_again():
    """The engine decides, and executions end, all the time; most threads have nothing to do with it."""
    pool = Pool("python", 2, lambda one: None, places=2, need=lambda execution_id: Need.SOON)
    for number in (1, 2):
        pool.submit(command(number))
    wait_until(lambda: pool.idle == len(pool.threads), "threads that have nothing to do")
    told: list[int] = []
    with pool.ready:
        pool.ready.notify = lambda n=1: told.append(n)  # type: ignore[method-assign]
        pool.submit(command(1))
        pool.look_again()
        pool.end([7])
        del pool.ready.notify
        pool.ready.notify()
    assert told == [1], "one thread for one command"
    pool.close(0.0)


@pytest.mark.parametrize("ended", [True, False])
def test_what_was_refused_a_place_begins_when_there_is_one(ended):
    """Its thread was told long ago that nothing can be had."""
    need, ran = [Need.SOON], []
    pool = Pool(
        "python", 1, lambda one: ran.append(one.execution_id), places=1, need=lambda execution_id: need[0]
    )
    pool._turns._patience = 10 * PATIENCE
    pool.submit(command(1))
    wait_until(lambda: ran == [1] and pool.idle == 1, "the first execution")
    pool.submit(command(2))
    wait_until(lambda: pool._refused == 1, "a thread that finds no place")
    if ended:
        pool.end([1])
    else:
        need[0] = Need.NONE
        pool.look_again()
    wait_until(lambda: ran == [1, 2], "the second execution")
    pool.close(0.0)


def test_the_engine_may_decide_at_the_moment_when_a_thread_is_refused_a_place():
    """The thread has looked at what the other execution needs, and does not wait yet."""
    need, ran, told = [Need.SOON], [], threading.Event()
    pool = Pool(
        "python", 1, lambda one: ran.append(one.execution_id), places=1, need=lambda execution_id: need[0]
    )
    teller = threading.Thread(target=pool.look_again)

    class Ready(threading.Condition):
        def __enter__(self):
            if threading.current_thread() is teller:
                told.set()
            return super().__enter__()

    pool.ready, choose = Ready(), pool._turns.next

    def refuse_once(now):
        found = choose(now)
        if found is None and pool._turns and teller.ident is None:
            need[0] = Need.NONE
            teller.start()
            wait_until(lambda: told.is_set() or not teller.is_alive(), "the word of the engine")
        return found

    pool._turns.next = refuse_once  # type: ignore[method-assign]
    pool._turns._patience = 10 * PATIENCE
    pool.submit(command(1))
    wait_until(lambda: ran == [1] and pool.idle == 1, "the first execution")
    pool.submit(command(2))
    wait_until(lambda: ran == [1, 2], "the second execution")
    teller.join()
    pool.close(0.0)


def test_a_worker_that_takes_what_waits_here_gets_nothing_of_an_execution_that_has_ended(tmp_path):
    """What has not begun when an execution is cancelled does not begin, wherever its thread or its worker is."""
    runtime = LocalRuntime(Settings(home=tmp_path))
    gone: list[Command] = []
    runtime.left_behind = SimpleNamespace(
        remove=gone.append,
        receive=lambda one: None,
        unwanted=lambda one: runtime._revoked(one.execution_id, one.run),
    )  # type: ignore[assignment]
    runtime.keeper = SimpleNamespace(delay=None)  # type: ignore[assignment]
    runtime.offers = SimpleNamespace(pass_on=lambda commands, later: commands)  # type: ignore[assignment]
    runtime.pools = {"io": Pool("io", 0, lambda one: None)}
    outside = msgspec.structs.replace(command(2), command_id="2", remote=True)
    runtime.dispatch(command(1), command(2), outside)
    runtime._ended.note([(2, "cancelled")])
    assert runtime.take("io", 5, None) == [command(1)] == gone
    assert len(runtime._here) == 1, "work that goes on elsewhere is ended here"
    assert runtime.pools["io"].take(5) == [outside]


def test_a_pool_says_when_it_is_loaded_and_when_no_longer():
    begun, go, starved = threading.Semaphore(0), threading.Semaphore(0), threading.Semaphore(0)

    def run(one: Command) -> None:
        begun.release()
        go.acquire()

    pool = Pool("io", 2, run, starved=starved.release)
    for number in range(2 * LOADED - 1):
        pool.submit(command(number))
    for _ in range(2):
        assert begun.acquire(timeout=PATIENCE)
    assert not pool.loaded
    pool.submit(command(number + 1))
    assert pool.loaded
    while starved.acquire(blocking=False):
        pass
    go.release()
    assert starved.acquire(timeout=PATIENCE), (
        "the thread that took the next command has seen how few are left"
    )
    assert not pool.loaded
    go.release(2 * LOADED)
    pool.close(PATIENCE)


def test_commands_that_wait_for_a_place_are_no_load():
    """Two executions have the places, and their next commands are what the engine decides about."""
    pool = Pool("python", 1, lambda one: None, places=2, need=lambda execution_id: Need.SOON)
    for number in range(10):
        pool.submit(command(number))
    wait_until(lambda: pool.idle == 0 and pool._refused == 1, "a thread that is refused a place")
    assert not pool.loaded
    pool.close(0.0)


def test_a_place_is_lent_while_a_pool_has_no_command_and_one_that_comes_waits_for_it():
    ran = threading.Event()
    pool = Pool("python", 1, lambda one: ran.set())
    with pool.lend() as free:
        assert free
        with pool.lend() as again:
            assert not again, "to one thread at a time"
        pool.submit(command(1))
        wait_until(lambda: pool.threads and pool._turns.ready == 1, "a command that waits")
        assert not ran.wait(0.05)
        with pool.lend() as beside:
            assert not beside, "the command goes first"
    assert ran.wait(PATIENCE), "the end of the loan is noticed"
    pool.close(0.0)
    with pool.lend() as late:
        assert not late


def test_a_thread_of_the_pool_has_its_own_place_after_its_command():
    lent = []

    def then(waits: bool) -> None:
        with pool.lend() as free:
            lent.append(free)
            if len(lent) == 1:
                pool.submit(command(2), apart=True)
                wait_until(lambda: len(lent) == 2, "a command in the other place")

    pool = Pool("python", 2, lambda one: None, then=then)
    pool.submit(command(1))
    wait_until(lambda: len(lent) == 2, "both turns")
    assert lent == [True, False], "its thread has its turn beside another one"
    pool.close(0.0)


def test_a_pool_without_places_lends_none():
    with Pool("python", 0, lambda one: None).lend() as free:
        assert not free
