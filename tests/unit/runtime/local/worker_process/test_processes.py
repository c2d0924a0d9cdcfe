"""Where commands run: here, or in a worker process when there is one."""

from __future__ import annotations

import time

import pytest

from noetl.domain.commands import Command, LoopSlice
from noetl.runtime import settings
from noetl.runtime.local.pools_of_process import share
from noetl.runtime.local.worker_process import processes
from noetl.runtime.local.worker_process.pool import AHEAD, STALLED_SECONDS, ProcessPool
from noetl.runtime.local.worker_process.processes import CROWDED, WorkerProcesses
from noetl.runtime.settings import worker_processes
from noetl.services.worker.ready_commands import PATIENCE
from tests.parts import over
from tests.waiting import wait_until


class Worker:
    """A worker process that is none."""

    def __init__(self, place: int, starts: bool = True) -> None:
        self.place, self.starts, self.over, self.last = place, starts, False, 0
        self.used = time.monotonic()
        self.withdrawn: list[tuple[list[int], list[tuple[int, int]], int]] = []
        self.closed = self.retired = False
        self.asked: list[tuple[str, int]] = []
        self.pools = {
            name: ProcessPool(name, 1, lambda pool, commands: None, lambda: 1) for name in ("io", "python")
        }

    @property
    def pid(self) -> int:
        return self.place

    @property
    def load(self) -> int:
        return sum(pool.load for pool in self.pools.values())

    def start(self) -> None:
        pass

    def is_ready(self, until: float) -> bool:
        self.until = until
        return self.starts

    def pool(self, name: str) -> ProcessPool | None:
        return self.pools.get(name, self.pools["io"])

    def has(self, execution_id: int) -> bool:
        return False

    def withdraw(self, executions, runs, last) -> None:
        self.withdrawn.append((list(executions), list(runs), last))

    def take_back(self, pool: ProcessPool, limit: int) -> None:
        self.asked.append((pool.name, limit))

    def retire(self) -> list[Command]:
        self.retired = True
        return []

    def close(self, until: float) -> None:
        self.closed = True


class Ground:
    def __init__(self, most: int = 1, load: int = 9, starts: bool = True) -> None:
        self.made: list[Worker] = []
        self.load, self.starts, self.again, self.lines = load, starts, 0, []
        self.processes = WorkerProcesses(
            most,
            self.make,  # type: ignore[arg-type]
            lambda: self.load,
            self.placed_again,
            self.lines.append,
        )

    def make(self, place: int) -> Worker:
        self.made.append(Worker(place, self.starts))
        return self.made[-1]

    def placed_again(self, left) -> None:
        self.again += 1

    def crowd(self, count: int = CROWDED) -> None:
        for _ in range(count):
            self.processes.pool_for(command())


def command(execution_id: int = 7, pool: str = "python", **more: object) -> Command:
    return Command(execution_id, "1", 1, "load", "p", pool, **more)  # type: ignore[arg-type]


def test_commands_alone_run_here_and_start_no_process():
    ground = Ground(load=processes.BUSY - 1)
    ground.crowd(3 * CROWDED)
    assert not ground.made and ground.processes.pool_for(command()) is None


def test_a_crowd_starts_a_process_which_then_has_all_commands_but_those_of_other_systems():
    ground = Ground()
    ground.crowd(CROWDED - 1)
    assert not ground.made
    ground.crowd(1)
    wait_until(lambda: ground.again, "the start")
    (worker,) = ground.made
    ground.load = 0
    assert ground.processes.pool_for(command()) is worker.pools["python"]
    assert ground.processes.pool_for(command(pool="other")) is worker.pools["io"]
    assert ground.processes.pool_for(command(remote=True)) is None


def test_an_execution_stays_in_its_process_and_chunks_go_where_least_waits():
    ground = Ground(most=2)
    ground.processes._start()
    one, other = ground.made
    assert (one.place, other.place) == (0, 1), "both at once: each has a share of what may run"
    ground.processes._start()
    assert len(ground.made) == 2
    assert ground.processes.pool_for(command(1)) is one.pools["python"]
    one.pools["python"].submit(command(1))
    assert ground.processes.pool_for(command(1)) is one.pools["python"]
    assert ground.processes.pool_for(command(2)) is other.pools["python"]
    slice_ = LoopSlice(0, 0, 1, 1, "item", "parallel", items=[1])
    assert ground.processes.pool_for(command(1, loop=slice_)) is other.pools["python"]
    one.last = 5
    marks = ground.processes.marks()
    one.last = 6
    ground.processes.withdraw([1], [(2, 9)], marks)
    assert (one.withdrawn, other.withdrawn) == ([([1], [(2, 9)], 5)], [([1], [(2, 9)], 0)])


def late(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch, seconds: float = STALLED_SECONDS) -> None:
    """Let what runs in a pool take long."""
    moment = pool._moved + seconds + 0.001
    monkeypatch.setattr(pool, "_clock", lambda: moment)


def started(ground: Ground) -> list[ProcessPool]:
    """Start the processes; return their pools of code."""
    ground.processes._start()
    return [made.pools["python"] for made in ground.made]


def test_an_execution_leaves_a_process_where_it_would_wait_for_a_long_command(monkeypatch):
    ground = Ground(most=2)
    one, other = started(ground)
    assert ground.processes.pool_for(command(1)) is one
    for _ in range(2):
        one.submit(command(1))
    other.submit(command(2))
    assert ground.processes.pool_for(command(1)) is one, "the one before it may take a moment"
    late(one, monkeypatch)
    assert ground.processes.pool_for(command(1)) is other
    assert ground.processes.pool_for(command(1)) is other, "its code is there now"
    ground.processes.withdraw([1], [], ground.processes.marks())
    assert [made.withdrawn for made in ground.made] == [[([1], [], 0)]] * 2, "both may keep its child"


def test_a_process_with_a_free_thread_takes_over_what_waits_for_another(monkeypatch):
    ground = Ground(most=3)
    one, two, three = started(ground)
    made = ground.made
    for execution in range(AHEAD + 6):
        one.submit(command(execution))
    one.pump()
    two.submit(command(99))
    assert ground.processes.relieve(made[1]) == PATIENCE and one.load == AHEAD + 6, "no thread is free there"
    assert ground.processes.relieve(made[2]) == STALLED_SECONDS
    assert (one.load, two.load, three.load) == (AHEAD, 4, 3), "what was not sent, to all others"
    three.limit = lambda: 9
    ground.processes.relieve(made[2])
    assert not made[0].asked, "those that were sent may be run in a moment"
    late(one, monkeypatch)
    ground.processes.relieve(made[2])
    assert made[0].asked == [("python", (AHEAD - 1) // 2)]
    given_back = [command(7), command(8)]
    one.taken_back(given_back)
    made[0].returned(given_back)
    assert (one.load, two.load + three.load) == (AHEAD - 2, 7 + 2)


def test_those_that_were_sent_are_asked_for_before_later_ones_are_taken(monkeypatch):
    ground = Ground(most=2)
    one, other = started(ground)
    for number in range(AHEAD):
        one.submit(command(number, priority=9))
    one.pump()
    for number in range(100, 104):
        one.submit(command(number))
    late(one, monkeypatch)
    ground.processes.relieve(ground.made[1])
    assert ground.made[0].asked == [("python", (AHEAD + 3) // 2)] and other.load == 4


def test_a_busy_process_takes_one_at_a_time_of_what_would_wait_for_ever(monkeypatch):
    ground = Ground(most=2)
    one, other = started(ground)
    for number in range(4):
        one.submit(command(number))
    one.pump()
    other.submit(command(9))
    other.pump()
    late(one, monkeypatch)
    ground.processes.relieve(ground.made[1])
    assert not ground.made[0].asked, "they may have a turn yet"
    late(one, monkeypatch, PATIENCE)
    ground.processes.relieve(ground.made[1])
    assert ground.made[0].asked == [("python", 1)]
    other.submit(command(10))
    late(other, monkeypatch)
    ground.processes.relieve(ground.made[1])
    assert len(ground.made[0].asked) == 1, "it has a long one itself"


def test_a_thread_that_begins_a_command_is_not_one_that_takes_long(monkeypatch):
    ground = Ground(most=1)
    (pool,) = started(ground)
    pool.limit = lambda: 2
    pool.submit(command(1))
    pool.pump()
    late(pool, monkeypatch)
    for number in (2, 3):
        pool.submit(command(number))
    pool.pump()
    assert pool.behind == 1 and not pool.stalled


def test_what_has_ended_meanwhile_moves_nowhere_and_is_not_remembered(monkeypatch):
    ground = Ground(most=2)
    one, other = started(ground)
    ended, finished = {7}, []
    monkeypatch.setattr(one, "_wanted", lambda command: command.execution_id not in ended)
    monkeypatch.setattr(one, "_dropped", finished.extend)
    for _ in range(AHEAD):
        one.submit(command(99))
    one.pump()
    for execution in (7, 8):
        one.submit(command(execution))
    ground.processes.relieve(ground.made[1])
    assert finished == [command(7)] and other.load == 1
    assert ground.processes._homes == {8: [ground.made[1]]}


def test_what_comes_back_when_all_others_have_ended_goes_back_or_is_placed_again():
    ground = Ground(most=2)
    one, other = started(ground)
    other.close()
    ground.made[0].returned([command(1)])
    assert (one.load, ground.again) == (1, 1)
    one.close()
    ground.made[0].returned([command(2)])
    assert (one.load, ground.again) == (1, 2)


def test_what_a_process_died_of_starts_one_however_little_there_is_to_do():
    ground = Ground(load=0)
    assert ground.processes.pool_for(command(lost=1)) is ground.made[0].pools["python"]


def test_no_process_at_all_when_none_is_wanted():
    ground = Ground(most=0)
    ground.crowd(2 * CROWDED)
    assert not ground.made and ground.processes.pool_for(command(lost=2)) is None


def test_one_that_does_not_start_is_left_alone_and_commands_run_here():
    ground = Ground(starts=False)
    assert ground.processes.pool_for(command(lost=1)) is None
    assert ground.made[0].closed and not ground.processes


def test_those_that_do_not_start_are_waited_for_once_and_all_together():
    """Who waits for them holds leases of commands."""
    ground = Ground(most=3, starts=False)
    for number in (1, 2, 3):
        assert ground.processes.pool_for(command(number, lost=1)) is None
    assert len(ground.made) == 3 and len({one.until for one in ground.made}) == 1
    ground.starts, ground.processes._none_before = True, 0.0
    assert ground.processes.pool_for(command(4, lost=1)) is not None


@pytest.mark.parametrize("end", ["retired", "dead", "there"])
def test_executions_that_have_ended_are_remembered_by_no_process(end):
    ground = Ground()
    ground.processes._start()
    (worker,) = ground.made
    for number in range(9):
        assert ground.processes.pool_for(command(number)) is worker.pools["python"]
    assert len(ground.processes._homes) == 9
    if end == "retired":
        worker.used -= processes.IDLE_SECONDS + 1
        ground.processes.tidy()
    elif end == "dead":
        ground.processes.gone(worker)  # type: ignore[arg-type]
    else:
        ground.processes.withdraw(range(9), [], ground.processes.marks())
    assert not ground.processes._homes


def test_after_a_death_another_is_started_when_its_time_has_come(monkeypatch: pytest.MonkeyPatch):
    ground = Ground()
    ground.processes._start()
    ground.processes.gone(ground.made[0])  # type: ignore[arg-type]
    ground.crowd(2 * CROWDED)
    assert len(ground.made) == 1 and not ground.processes
    ground.processes._not_before = 0.0
    ground.crowd(1)
    wait_until(lambda: ground.processes, "another one")


def test_one_that_dies_before_it_is_noted_is_not_taken_for_a_live_one():
    ground = Ground()

    class Dying(Worker):
        def start(self) -> bool:
            self.over = True  # it took commands, and ended
            ground.processes.gone(self)  # type: ignore[arg-type]
            return True

    ground.processes._make = Dying  # type: ignore[assignment]
    ground.processes._start()
    assert not ground.processes and ground.processes.pool_for(command()) is None


def test_the_place_of_a_dead_process_is_taken_first():
    """Where a pool is small, only the first places have a share of it."""
    ground = Ground(most=2)
    ground.processes._start()
    first, second = ground.made
    del second.pools["python"]
    second.pool = lambda name: None  # type: ignore[method-assign]
    ground.processes.gone(first)  # type: ignore[arg-type]
    assert ground.processes.pool_for(command(lost=1)) is ground.made[2].pools["python"]
    assert ground.made[2].place == 0


def test_commands_go_where_they_may_run_now():
    ground = Ground(most=2)
    ground.processes._start()
    one, other = ground.made
    assert ground.processes.pool_for(command(1)) is one.pools["python"]
    one.pools["python"].limit = lambda: 0
    other.pools["io"].submit(command(2, "io"))
    assert ground.processes.pool_for(command(1)) is other.pools["python"]


def test_processes_without_commands_end_and_what_comes_in_that_moment_is_placed_again(monkeypatch):
    ground = Ground()
    ground.processes._start()
    (worker,) = ground.made
    ground.processes.tidy()
    assert ground.processes and not worker.retired
    worker.used -= processes.IDLE_SECONDS + 1
    worker.pools["io"].submit(command(pool="io"))
    ground.processes.tidy()
    assert ground.processes, "a command waits"
    worker.pools["io"].take(1)
    ground.processes.tidy()
    wait_until(lambda: worker.closed, "its end")
    assert worker.retired and ground.again == 2 and not ground.processes


@over(("size", "count"), [(1, 4), (2, 1), (5, 3), (16, 4)])
def test_processes_share_what_may_run_at_once(size, count):
    shares = [share({"io": size}, place, count)["io"] for place in range(count)]
    assert sum(shares) == size and max(shares) - min(shares) <= 1


@over(("cores", "found"), [(1, 0), (2, 2), (3, 3), (64, 4)])
def test_there_is_a_process_for_each_processor(cores, found, monkeypatch):
    monkeypatch.setattr(settings, "count_processors", lambda: cores)
    assert worker_processes() == found
