"""Deaths of processes, as the next process counts them."""

import os
from dataclasses import dataclass, field

import msgspec
import pytest

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.workers.lost_owners import MOST
from noetl.runtime.local.lost_commands import SharedRunRule, free_dead
from noetl.runtime.local.process_locks import ProcessLock


@dataclass
class Store:
    """Is away after it has counted, so many times."""

    away: int
    counted: list[tuple[int, str, int]] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)

    def record_lost(self, commands):
        self.counted += commands

    def release(self, owner):
        if self.away:
            self.away -= 1
            raise InfrastructureError("the database does not answer")
        self.freed.append(owner)


def test_a_death_counts_once_however_often_the_database_goes_away_meanwhile(tmp_path):
    """Three deaths give a command up, which may never have been the cause of one."""
    dead = ProcessLock(tmp_path, "dead")
    dead.announce()
    kept = dead.running(Command(7, "1", 1, "load", "p", "io", turn=3))
    kept.__enter__()
    os.close(dead._handle)
    dead._handle = -1
    store, mine = Store(away=3), ProcessLock(tmp_path, "mine")
    for _ in range(3):
        with pytest.raises(InfrastructureError):
            free_dead(store, mine)
    free_dead(store, mine)
    assert store.counted == [(7, "1", 3)] and store.freed == ["dead"]
    free_dead(store, mine)
    assert store.freed == ["dead"]


def test_executions_that_a_death_disturbed_are_named(tmp_path):
    dead = ProcessLock(tmp_path, "dead")
    dead.announce()
    kept = dead.running(Command(7, "1", 1, "load", "p", "io"))
    kept.__enter__()
    os.close(dead._handle)
    dead._handle = -1
    store, mine = Store(away=0), ProcessLock(tmp_path, "mine")
    assert free_dead(store, mine) == {7}
    assert free_dead(store, mine) == set()


def test_what_does_not_wait_is_refused_beside_a_suspect():
    rule, one = SharedRunRule(), Command(7, "1", 1, "load", "p", "io")
    with rule.beside(msgspec.structs.replace(one, lost=MOST - 1)) as alone:
        assert alone
        with rule.beside(one, wait=False) as may_run:
            assert not may_run
    with rule.beside(one, wait=False) as may_run:
        assert may_run
