"""The keeper holds the lease, so nothing that goes wrong in it may end it."""

import itertools
import threading
from types import SimpleNamespace

import pytest

from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Cancel, TimerFired
from noetl.ports.executions.execution_store import LoadRequest, TimerChange
from noetl.runtime.local import lease_keeper as keeping
from noetl.runtime.local.lease_keeper import Keeper
from tests.contract.builders import Make
from tests.parts import over
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
    assert store.released == 0, "what runs is not done twice"


class Panic(BaseException):
    """As the panics of compiled libraries are: no Exception."""


@pytest.mark.parametrize("defect", [ValueError, Panic])
def test_chores_are_done_again_and_again_whatever_one_of_them_raises(monkeypatch, defect):
    monkeypatch.setattr(keeping, "AGAIN_SECONDS", 0.05)
    done, told = threading.Semaphore(0), []
    keeper = Keeper(Counting(), "me", 0.3, lambda commands, events: None, lambda command: None, told.append)

    def broken():
        raise defect("a defect")

    keeper.chores += [keeping.PeriodicDuty(0.05, broken), keeping.PeriodicDuty(0.05, done.release)]
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


def test_commands_that_are_due_together_do_not_outlast_the_lease(monkeypatch):
    """Each dispatch asks the store. Without a heartbeat meanwhile, another process takes what this one runs, and runs it too."""
    now, beats, given, done = [100.0], [], [], threading.Event()
    monkeypatch.setattr(keeping, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Watched(Counting):
        def heartbeat(self, owner, lease_seconds):
            beats.append(now[0])

    def dispatch(command):
        given.append(command.command_id)
        now[0] += 5.0
        if len(given) == 40:
            done.set()

    keeper = Keeper(Watched(), "me", 60.0, lambda commands, events: None, dispatch, lambda line: None)
    for number in range(40):
        keeper.delay(Command(1, str(number), 1, "a", "hash", "io"))
    keeper.start()
    try:
        assert done.wait(PATIENCE) and len(set(given)) == 40
    finally:
        keeper.close()
    ends = [100.0, *beats, 100.0 + 40 * 5.0]
    assert max(after - before for before, after in itertools.pairwise(ends)) < 60.0


def test_a_process_that_ends_holds_its_lease_and_takes_nothing_more(monkeypatch):
    """What runs has its time of grace, which may be longer than a lease."""
    for pause in ("SWEEP_SECONDS", "TIMER_SECONDS"):
        monkeypatch.setattr(keeping, pause, 0.0)
    entered, on, duties = threading.Event(), threading.Event(), []

    class Asked(Counting):
        def claim(self, owner, limit, offer=None, *, lost=True):
            entered.set()
            assert on.wait(PATIENCE)
            duties.append("claim")
            return ()

        def due_timers(self, owner, limit):
            duties.append("timers")
            return (), None

    store, given = Asked(), []
    keeper = Keeper(store, "me", 0.03, lambda commands, events: None, given.append, lambda line: None)
    keeper.chores.append(keeping.PeriodicDuty(0.0, lambda: duties.append("chore")))
    keeper.start()
    try:
        assert entered.wait(PATIENCE)
        keeper.retire()
        on.set()
        wait_until(lambda: "chore" in duties, "the end of the duties that were under way")
        done = list(duties)
        keeper.delay(Command(1, "1", 1, "a", "hash", "io"))
        keeper.doubt()
        beats = store.beats
        wait_until(lambda: store.beats > beats + 3, "heartbeats")
    finally:
        keeper.close()
    assert duties == done == ["claim", "timers", "chore"] and not given and store.released == 0


def test_what_waits_here_is_looked_at_before_it_runs_after_a_lease_that_was_over():
    """The machine slept, or an outage took longer: another process may run it by now."""
    now, given = [100.0], []
    store = MemoryExecutionStore(lambda: now[0])
    keeper = Keeper(store, "me", 30.0, lambda commands, events: None, given.append, lambda line: None)
    waiting = [Command(1, "1", 1, "a", "hash", "io"), Command(1, "2", 2, "b", "hash", "io")]
    keeper.leave = lambda: [waiting.pop() for _ in list(waiting)]
    keeper._beat()
    now[0] += 29.0
    keeper._beat()
    assert len(waiting) == 2 and not keeper.delayed()
    now[0] += 31.0
    keeper._beat()
    assert not waiting and keeper.delayed() == 2
    keeper._dispatch_due(float("inf"))
    assert {one.command_id for one in given} == {"1", "2"} and not keeper.delayed()


@pytest.mark.parametrize("doubtful", [False, True])
def test_processes_that_were_cut_off_together_take_nothing_of_each_other(monkeypatch, doubtful):
    """The database was away for longer than their leases. The first one back finds all others without a lease, though they live."""
    now, steps = [100.0], []
    monkeypatch.setattr(keeping, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(keeping, "_with_sleep", lambda: now[0])

    class Watched(MemoryExecutionStore):
        def heartbeat(self, owner, lease_seconds):
            steps.append("beat")
            return super().heartbeat(owner, lease_seconds)

        def claim(self, owner, limit, offer=None, *, lost=True):
            steps.append("claim")
            return super().claim(owner, limit, offer, lost=lost)

        def due_timers(self, owner, limit):
            steps.append("timers")
            return super().due_timers(owner, limit)

    store, rested = Watched(lambda: now[0]), threading.Semaphore(0)
    for owner in ("me", "other"):
        store.heartbeat(owner, 30.0)
    now[0] += 100.0
    keeper = Keeper(store, "me", 30.0, lambda commands, events: None, lambda one: None, lambda line: None)
    keeper.chores.append(keeping.PeriodicDuty(1.0, rested.release))
    if doubtful:
        keeper.doubt()
    keeper.start()
    try:
        for _ in range(11):
            assert rested.acquire(timeout=PATIENCE)
            assert "claim" not in steps and "timers" not in steps
            now[0] += 1.0
            keeper.hasten(lambda command: False)
        wait_until(lambda: "claim" in steps and "timers" in steps, "the turn of this process")
    finally:
        keeper.close()


def test_a_machine_that_slept_says_first_that_it_lives(monkeypatch):
    asleep, steps, done = [0.0], [], threading.Event()
    monkeypatch.setattr(keeping, "_with_sleep", lambda: keeping.time.monotonic() + asleep[0])

    class Watched(Counting):
        def heartbeat(self, owner, lease_seconds):
            steps.append("beat")

        def claim(self, owner, limit, offer=None, *, lost=True):
            steps.append("claim")
            asleep[0] += 3600.0
            if len(steps) >= 6:
                done.set()
            return ()

    monkeypatch.setattr(keeping, "SWEEP_SECONDS", 0.0)
    keeper = Keeper(
        Watched(), "me", 600.0, lambda commands, events: None, lambda one: None, lambda line: None
    )
    keeper.start()
    try:
        assert done.wait(PATIENCE)
    finally:
        keeper.close()
    assert steps[:6] == ["beat", "claim"] * 3


EID = Make().start().execution_id


def left_behind(store):
    """A command, an event and a timer that belong to nobody, of an execution that is live."""
    make = Make()
    timers = (TimerChange("step:1", 0, 0.0),)
    store.commit([make.change(issue=(make.command("1"),), timers=timers)])
    store.post(Cancel(EID, "ext:1", "prog", "why", "me"))


@pytest.mark.parametrize("broken", ["command", "event", "timer"])
@pytest.mark.parametrize("away", [False, True])
def test_what_was_claimed_and_could_not_be_handed_on_is_claimed_again(monkeypatch, broken, away):
    """``away``: the store cannot take it back at that moment."""
    for pause in ("AGAIN_SECONDS", "SWEEP_SECONDS", "TIMER_SECONDS"):
        monkeypatch.setattr(keeping, pause, 0.02)
    given, told, failed = [], [], []

    class Store(Counting):
        def hand_over(self, *asked, **over):
            if away and len(failed) == 1:
                failed.append("the way back")
                raise InfrastructureError("away")
            super().hand_over(*asked, **over)

    def give(commands, events):
        kinds = {"command" for _ in commands} | {
            "timer" if isinstance(event, TimerFired) else "event" for event in events
        }
        if broken in kinds and not failed:
            failed.append(broken)
            raise RuntimeError("no room for it")
        given.extend(kinds)

    store = Store()
    left_behind(store)
    keeper = Keeper(store, "me", 600.0, give, lambda command: None, told.append)
    keeper.start()
    try:
        wait_until(lambda: broken in given, f"the {broken}, which this process holds and has not begun")
    finally:
        keeper.close()
    assert any("no room for it" in line for line in told)
    assert store.released == int(away), "leases are taken anew only when they could not be given back"


@over("duty", ["claim", "undelivered", "due_timers", "heartbeat", "chore"])
@over("code", ["outcome_unknown", "database_silent", "database_unreachable", "database_busy"])
def test_leases_are_taken_anew_only_when_work_may_have_been_lost(monkeypatch, duty, code):
    """A process that takes them again runs everything twice that runs here. What a lost answer handed out is found all the same."""
    for pause in ("AGAIN_SECONDS", "SWEEP_SECONDS", "TIMER_SECONDS"):
        monkeypatch.setattr(keeping, pause, 0.02)
    store, given, calls = Counting(), [], threading.Semaphore(0)
    lost = code in keeping.DOUBTFUL
    left_behind(store)

    def fail_once(do):
        failed = []

        def call(*asked, **more):
            if lost or failed:
                found = do(*asked, **more)
            if not failed:
                failed.append(code)
                raise InfrastructureError("away", code=code)
            calls.release()
            return found

        return call

    def give(commands, events):
        given.extend(type(one) for one in (*commands, *events))

    keeper = Keeper(store, "me", 600.0, give, lambda command: None, lambda line: None)
    if duty == "chore":
        keeper.chores.append(keeping.PeriodicDuty(0.02, fail_once(lambda: None)))
    else:
        monkeypatch.setattr(store, duty, fail_once(getattr(store, duty)))
    keeper.start()
    try:
        assert calls.acquire(timeout=PATIENCE)
        wait_until(lambda: {Command, Cancel, TimerFired} <= set(given), "all that was left")
    finally:
        keeper.close()
    assert store.released == int(lost and duty in ("claim", "undelivered", "due_timers"))


def test_any_thread_may_adopt_and_lose_what_it_was_given():
    store, given, answers = Counting(), [], []
    left_behind(store)
    claim = store.claim

    def lose_one(*asked, **more):
        answers.append(claim(*asked, **more))
        if len(answers) == 1:
            raise InfrastructureError("away", code="outcome_unknown")
        return answers[-1]

    store.claim = lose_one
    keeper = Keeper(
        store,
        "me",
        600.0,
        lambda commands, events: given.extend(commands),
        lambda one: None,
        lambda line: None,
    )
    store.heartbeat("me", 600.0)
    with pytest.raises(InfrastructureError):
        keeper.adopt()
    keeper._take_anew()
    assert [len(one) for one in answers][:2] == [1, 1] and [one.attempt for one in given] == [3]


def test_what_can_never_be_handed_on_supersedes_nothing_else(monkeypatch):
    monkeypatch.setattr(keeping, "AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(keeping, "SWEEP_SECONDS", 0.02)
    tries = threading.Semaphore(0)

    def give(commands, events):
        if commands:
            tries.release()
            raise RuntimeError("no room for it")

    store = Counting()
    left_behind(store)
    make = Make()
    store.commit([make.change(0, EID + 1, issue=(make.command("1", EID + 1),))], "me")
    keeper = Keeper(store, "me", 600.0, give, lambda command: None, lambda line: None)
    keeper.start()
    try:
        assert all(tries.acquire(timeout=PATIENCE) for _ in range(4))
    finally:
        keeper.close()
    fence = store.load([LoadRequest(EID + 1, commands=("1",))]).executions[EID + 1].fences["1"]
    assert fence.attempt == 1 and not store.released, "what runs goes on"
