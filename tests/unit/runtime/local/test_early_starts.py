"""Which commands begin before they are issued, and what becomes of each."""

from __future__ import annotations

import msgspec
import pytest

from noetl.domain.commands import Command
from noetl.domain.limits import Limit
from noetl.ports.executions.execution_store import Change
from noetl.runtime.local.early_starts import MOST_CHANGES, EarlyStarts
from noetl.runtime.local.thread_pools import Pool
from noetl.services.worker.issue_gate import NotIssuedError
from tests.parts import over


def command(execution_id: int = 1, run: int = 1, **given) -> Command:
    return Command(execution_id, str(run), run, "start", "p", given.pop("pool", "python"), **given)


def change(*issue: Command, **given) -> Change:
    execution_id = issue[0].execution_id if issue else 1
    return Change(execution_id, 0, "running", b"", "p", (), issue=issue, **given)


class Ground:
    def __init__(self, threads: int = 2, fails: BaseException | None = None) -> None:
        self.submitted: list[Command] = []
        self.over: set[int] = set()
        self.offered: set[str] = set()
        pools = {
            "python": Pool("python", threads, lambda command: None, places=4),
            "io": Pool("io", threads, lambda command: None),
        }

        def submit(one: Command) -> None:
            if fails is not None:
                raise fails
            self.submitted.append(one)
            pools[one.pool]._turns.add(one, one.execution_id, 0, 0.0)

        self.starts = EarlyStarts(
            pools.get, self.offered.__contains__, lambda execution, run: execution in self.over, submit
        )
        self.pools = pools


def test_a_command_that_is_issued_passes_its_gate_and_is_not_dispatched_again():
    ground, one, other = Ground(), command(1), command(2, pool="io")
    begun = ground.starts.begin([change(one), change(other)])
    gate = ground.starts.gate_of(one)
    assert ground.submitted == [one] and gate is not None and gate.closed
    assert begun.settle([msgspec.structs.replace(one), other]) == [other]
    gate.enter()
    assert ground.starts.is_issued(one) and ground.starts.is_issued(other)
    ground.starts.forget(one)
    assert ground.starts.gate_of(one) is None


def test_a_command_that_is_not_issued_never_begins_and_an_equal_one_may():
    ground, one = Ground(), command()
    begun = ground.starts.begin([change(one)])
    again = msgspec.structs.replace(one, attempt=2)
    assert begun.settle([again]) == [again]
    gate = ground.starts.gate_of(one)
    assert gate is not None and not ground.starts.is_issued(one)
    with pytest.raises(NotIssuedError):
        gate.enter()
    assert ground.starts.gate_of(msgspec.structs.replace(one)) is None


def test_a_write_that_fails_refuses_all():
    ground, one = Ground(), command()
    ground.starts.begin([change(one)]).refuse()
    assert not ground.starts.is_issued(one)


@over(
    "given",
    [{"pool": "io"}, {"pool": "container"}, {"delay": 1.0}, {"remote": True}],
    ids=lambda given: next(iter(given)),
)
def test_commands_that_would_gain_nothing_or_wait_anyway(given):
    ground, one = Ground(), command(**given)
    begun = ground.starts.begin([change(one)])
    assert not ground.submitted and begun.settle([one]) == [one]


def test_no_command_of_an_execution_that_keeps_a_process():
    ground, one = Ground(), command()
    turns = ground.pools["python"]._turns
    turns.add(command(run=7), 1, 0, 0.0)
    assert turns.next(0.0) is not None
    turns.done(1)
    ground.starts.begin([change(one)])
    assert not ground.submitted


def test_no_command_of_a_change_with_limits_or_of_what_is_over_or_runs_elsewhere():
    ground = Ground()
    ground.starts.begin([change(command(limits=(Limit("k", 1),)), limited=True)])
    ground.over.add(2)
    ground.starts.begin([change(command(2))])
    ground.offered.add("python")
    ground.starts.begin([change(command(3))])
    assert not ground.submitted


def test_no_more_commands_than_threads_and_none_of_a_large_batch():
    ground = Ground(threads=2)
    several = [change(command(number)) for number in range(1, 4)]
    begun = ground.starts.begin(several)
    assert [one.execution_id for one in ground.submitted] == [1, 2]
    assert begun.settle([one.issue[0] for one in several]) == [several[2].issue[0]]
    ground = Ground(threads=MOST_CHANGES + 1)
    ground.starts.begin([change(command(number)) for number in range(1, MOST_CHANGES + 2)])
    assert not ground.submitted


def test_without_a_thread_it_begins_when_it_is_issued():
    ground, one = Ground(fails=RuntimeError("can't start new thread")), command()
    begun = ground.starts.begin([change(one)])
    assert ground.starts.gate_of(one) is None and begun.settle([one]) == [one]


def test_an_interrupt_leaves_nothing_waiting():
    ground, one = Ground(), command(1)
    submit = ground.starts._submit

    def interrupted(next_one: Command) -> None:
        if next_one is not one:
            raise KeyboardInterrupt
        submit(next_one)

    ground.starts._submit = interrupted
    with pytest.raises(KeyboardInterrupt):
        ground.starts.begin([change(one), change(command(2))])
    assert not ground.starts.is_issued(one)
