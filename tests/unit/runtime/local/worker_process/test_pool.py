"""A pool sends a few commands ahead, in order, and keeps the others for those who take them."""

from __future__ import annotations

from noetl.domain.commands import Command
from noetl.runtime.local.worker_process.pool import AHEAD, ProcessPool


class Other:
    """Has what was sent."""

    def __init__(self, size: int = 1, **options: object) -> None:
        self.sent: list[Command] = []
        self.dropped: list[Command] = []
        self.starved = 0
        self.pool = ProcessPool(
            "python",
            size,
            lambda pool, commands: self.sent.extend(commands),
            lambda: size,
            dropped=self.dropped.extend,
            starved=self.hungry,
            **options,  # type: ignore[arg-type]
        )

    def hungry(self) -> None:
        self.starved += 1


def command(number: int, execution_id: int = 7) -> Command:
    return Command(execution_id, str(number), number, "load", "p", "python")


def test_it_sends_as_many_as_it_may_and_one_for_each_that_has_been_run():
    other = Other()
    commands = [command(number, number) for number in range(AHEAD + 3)]
    assert all(other.pool.submit(one) for one in commands)
    assert other.sent == []
    other.pool.pump()
    assert other.sent == commands[:AHEAD] and other.pool.waits and other.pool.loaded
    other.pool.done([commands[0], commands[1]])
    assert other.sent == commands[: AHEAD + 2] and other.starved == 0
    assert other.pool.take(9) == [commands[-1]] and not other.pool.waits
    other.pool.done(commands[2:8])
    assert other.starved == 1 and other.pool.load == AHEAD + 2 - 8


def test_executions_that_keep_a_process_get_no_more_places_than_there_are():
    other = Other(size=2, places=3)
    commands = [command(1, execution) for execution in range(5)]
    for one in commands:
        other.pool.submit(one)
    other.pool.pump()
    assert other.sent == commands[:3] and other.pool.pause is None, "full"
    other.pool.done([commands[0]])
    other.pool.end([0])
    assert other.sent == commands[:4]


def test_what_is_not_wanted_is_not_sent():
    other = Other(wanted=lambda one: one.execution_id != 7)
    for number in range(3 * AHEAD):
        other.pool.submit(command(number))
    other.pool.submit(command(1, 8))
    other.pool.pump()
    assert other.sent == [command(1, 8)]
    assert len(other.dropped) == 3 * AHEAD and other.pool.load == 1


def test_a_closed_pool_takes_nothing_and_gives_back_what_waits():
    other = Other()
    commands = [command(number, number) for number in range(AHEAD + 2)]
    for one in commands:
        other.pool.submit(one)
    other.pool.pump()
    assert other.pool.close() == commands[AHEAD:]
    assert not other.pool.submit(command(99))
    other.pool.done(commands[:2])
    assert other.sent == commands[:AHEAD]


def test_the_gauge_counts_what_is_only_ahead_as_waiting():
    other = Other(size=2)
    for number in range(5):
        other.pool.submit(command(number, number))
    other.pool.pump()
    gauge = other.pool.gauge()
    assert (gauge.waiting, gauge.in_flight) == (3, 2)
