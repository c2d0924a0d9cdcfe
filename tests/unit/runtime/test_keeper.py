"""The keeper holds the lease, so nothing that goes wrong in it may end it."""

import threading
import time

import pytest

from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.runtime import keeper as keeping
from noetl.runtime.keeper import Keeper


class Counting(MemoryExecutionStore):
    def __init__(self) -> None:
        super().__init__()
        self.beats = 0
        self.released = 0

    def heartbeat(self, owner, lease_seconds):
        self.beats += 1
        super().heartbeat(owner, lease_seconds)

    def release(self, owner):
        self.released += 1
        super().release(owner)


@pytest.mark.parametrize("error", [InfrastructureError("away"), TypeError("a defect")])
def test_a_delayed_command_that_cannot_be_given_is_given_later_and_the_lease_is_held(monkeypatch, error):
    monkeypatch.setattr(keeping, "AGAIN_SECONDS", 0.05)
    given, told, done = [], [], threading.Event()

    def dispatch(command):
        given.append(command)
        if len(given) == 1:
            raise error
        done.set()

    store = Counting()
    keeper = Keeper(store, "me", 0.3, lambda commands, events: None, dispatch, told.append)
    keeper.start()
    try:
        keeper.delay(Command(1, "1", 1, "a", "hash", "io", delay=0.05))
        assert done.wait(10)
        beats = store.beats
        time.sleep(0.3)
        assert store.beats > beats
    finally:
        keeper.close()
    assert [command.delay for command in given] == [0.0, 0.0]
    assert told and keeper.delayed() == 0
    assert (store.released > 0) == isinstance(error, InfrastructureError), (
        "after an outage leases are taken anew"
    )


def test_chores_are_done_again_and_again_whatever_one_of_them_raises(monkeypatch):
    monkeypatch.setattr(keeping, "AGAIN_SECONDS", 0.05)
    done, told = threading.Semaphore(0), []
    keeper = Keeper(Counting(), "me", 0.3, lambda commands, events: None, lambda command: None, told.append)

    def broken():
        raise ValueError("a defect")

    keeper.chores += [keeping.Chore(0.05, broken), keeping.Chore(0.05, done.release)]
    keeper.start()
    try:
        assert all(done.acquire(timeout=10) for _ in range(3)) and "a defect" in told[0]
    finally:
        keeper.close()
