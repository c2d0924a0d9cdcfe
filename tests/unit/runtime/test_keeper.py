"""The keeper holds the lease, so nothing that goes wrong in it may end it."""

import threading

import pytest

from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.runtime import keeper as keeping
from noetl.runtime.keeper import Keeper
from tests.waiting import PATIENCE, wait_until


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
        assert done.wait(PATIENCE)
        beats = store.beats
        wait_until(lambda: store.beats > beats, "a heartbeat")
    finally:
        keeper.close()
    assert [command.delay for command in given] == [0.0, 0.0]
    assert told and keeper.delayed() == 0
    assert (store.released > 0) == isinstance(error, InfrastructureError), (
        "after an outage leases are taken anew"
    )


class Panic(BaseException):
    """As the panics of compiled libraries are: no Exception."""


@pytest.mark.parametrize("defect", [ValueError, Panic])
def test_chores_are_done_again_and_again_whatever_one_of_them_raises(monkeypatch, defect):
    monkeypatch.setattr(keeping, "AGAIN_SECONDS", 0.05)
    done, told = threading.Semaphore(0), []
    keeper = Keeper(Counting(), "me", 0.3, lambda commands, events: None, lambda command: None, told.append)

    def broken():
        raise defect("a defect")

    keeper.chores += [keeping.Chore(0.05, broken), keeping.Chore(0.05, done.release)]
    keeper.start()
    try:
        assert all(done.acquire(timeout=PATIENCE) for _ in range(3)) and "a defect" in told[0]
    finally:
        keeper.close()


def test_a_duty_that_fails_every_time_keeps_no_other_from_being_done(monkeypatch):
    """A delayed command that can never be given, and commands that can never be claimed: timers fire all the same."""
    monkeypatch.setattr(keeping, "AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(keeping, "SWEEP_SECONDS", 0.02)
    fired, told, beats = threading.Semaphore(0), [], threading.Semaphore(0)

    class Broken(Counting):
        def claim(self, owner, limit, offer=None, *, lost=True):
            raise ValueError("a row that cannot be read")

        def due_timers(self, owner, limit):
            fired.release()
            return (), None

        def heartbeat(self, owner, lease_seconds):
            beats.release()

    def dispatch(command):
        raise TypeError("a defect")

    keeper = Keeper(Broken(), "me", 0.06, lambda commands, events: None, dispatch, told.append)
    keeper.delay(Command(1, "1", 1, "a", "hash", "io"))
    keeper.start()
    try:
        assert all(one.acquire(timeout=PATIENCE) for one in (fired, beats) for _ in range(4))
    finally:
        keeper.close()
    assert keeper.delayed() == 1 and {"a defect", "a row that cannot be read"} <= {
        word for line in told for word in line.split("'")
    }


class Slow(Counting):
    """A database that is so busy that a lease is over whenever a claim was answered."""

    claims = 0
    alive = False

    def heartbeat(self, owner, lease_seconds):
        self.alive = True

    def claim(self, owner, limit, **asked):
        self.claims += 1
        assert self.claims < 10, "its own commands are claimed again and again"
        lapsed, self.alive = not self.alive, False
        return [Command(1, "1", 1, "a", "hash", "io")] if lapsed or self.claims == 1 else []

    def undelivered(self, owner, limit):
        return ()


def test_leases_that_are_taken_anew_do_not_lapse_meanwhile():
    """What a claim gave would be lost to the next one, and every attempt be superseded before it ends."""
    store, given = Slow(), []
    keeper = Keeper(
        store, "me", 0.3, lambda commands, events: given.extend(commands), lambda one: None, lambda line: None
    )
    keeper.doubt()
    keeper._take_anew()
    assert len(given) == 1 and store.claims == 2
