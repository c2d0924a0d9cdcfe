"""A machine whose engine fails on an event: nothing that was committed, or that waits, is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from noetl.adapters.memory import MemoryExecutionStore
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Cancel, Pause, Resume, Start
from noetl.domain.kinds import TaskContext
from noetl.domain.unreadable import UnreadableRowError
from noetl.ports.executions.execution_store import (
    Change,
    Committed,
    CreatedExecution,
    ItemBatch,
    VersionConflictError,
)
from noetl.runtime.local import process
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.local.thread_pools import Pool
from noetl.runtime.server.http_worker_pool import RemoteWork
from noetl.runtime.settings import Settings
from noetl.services.executions.start_execution import start_event
from noetl.services.messaging.large_messages import unpack
from noetl.services.orchestrator import failed_events
from tests.unit.services.engine_bench import HEAD, STEP, Bench
from tests.waiting import PATIENCE

LOOP = STEP.replace(
    "    tool:",
    "    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel, max_in_flight: 1 } }\n    tool:",
)


class Breaking(MemoryExecutionStore):
    """``breaks``: whether a change can never be committed."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks: Callable[[Change], bool] = lambda change: False
        self.broken_items: set[int] = set()

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        if any(map(self.breaks, changes)):
            raise ValueError("value too long")
        return super().commit(changes, owner)

    def commit_items(self, batches: Sequence[ItemBatch], owner: str | None = None) -> Any:
        if any(batch.event.execution_id in self.broken_items for batch in batches):
            raise ValueError("value too long")
        return super().commit_items(batches, owner)


class Machine(Bench):
    """A runtime without its database and its workers: ``given`` collects what would run."""

    def __init__(self, tmp_path: Any, text: str) -> None:
        super().__init__(text)

        self.memory = Breaking()
        self.runtime: Any = LocalRuntime(Settings(home=tmp_path), on_log=self.log.append)
        me = self.runtime.owner
        engine = replace(self.deps.engine, store=self.memory, owner=me)
        self.memory.heartbeat(me, 1e9)
        self.runtime.opened = SimpleNamespace(engine=engine)
        self.runtime.store = self.memory
        self.runtime.left_behind = SimpleNamespace(hasten=lambda: None)
        self.ran: list[Command] = []
        self.runtime.dispatch = lambda *commands: self.ran.extend(commands)
        self.runtime._inbox.start()

    def begin(self, number: int) -> Start:
        event = start_event(self.program, {}, now_ms=int(self.time * 1000), random_bits=number)
        self.memory.create(event, CreatedExecution("it", "it"), self.runtime.owner)
        return event

    def settled(self, wanted: Callable[[], bool]) -> None:
        with self.runtime._changed:
            assert self.runtime._changed.wait_for(wanted, PATIENCE), self.log

    def status(self, start: Start) -> str:
        return self.memory.info(start.execution_id).status  # type: ignore[union-attr]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_events, "AGAIN_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(failed_events, "ASIDE_SECONDS", 0.01)


def outcomes(machine: Machine, *commands: Command) -> list[Any]:
    texts = [machine.items(one) if one.loop else machine.answer(one) for one in commands]
    return [unpack(text, machine.results).event for text in texts]


def test_neighbours_of_poison_keep_what_was_committed_for_them(tmp_path: Any) -> None:
    """Items are counted before the main lane breaks: what follows them is leased to this process."""
    machine = Machine(tmp_path, LOOP)
    good, bad = machine.begin(1), machine.begin(2)
    machine.runtime.accept([good])
    machine.settled(lambda: len(machine.ran) == 1)
    machine.memory.breaks = lambda change: (
        change.execution_id == bad.execution_id and change.status == "running"
    )
    machine.runtime._inbox.put([*outcomes(machine, machine.ran[0]), bad])
    machine.settled(lambda: len(machine.ran) == 2 and machine.status(bad) == "failed")
    machine.runtime._inbox.put(outcomes(machine, machine.ran[1]))
    machine.settled(lambda: len(machine.ran) == 3)
    machine.runtime._inbox.put(outcomes(machine, machine.ran[2]))
    machine.settled(lambda: machine.status(good) == "completed")
    assert not any(machine.memory.open_work(bad.execution_id).values())
    machine.runtime._inbox.close()


@pytest.mark.parametrize("where", ["load", "items", "commit", "program", "held"])
def test_an_execution_whose_event_breaks_the_engine_fails(tmp_path: Any, where: str) -> None:
    machine = Machine(tmp_path, LOOP if where == "items" else STEP)
    start = machine.begin(1)
    machine.runtime.accept([start])
    machine.settled(lambda: len(machine.ran) == 1)
    engine = machine.runtime.opened.engine
    if where == "load":
        load = machine.memory.load
        machine.memory.load = lambda requests: load(  # type: ignore[method-assign]
            requests if not any(one.commands for one in requests) else 1 / 0  # type: ignore[arg-type]
        )
    elif where == "items":
        machine.memory.broken_items.add(start.execution_id)
    elif where == "program":
        object.__setattr__(engine, "programs", lambda name: {}[name])
    else:
        machine.memory.breaks = lambda change: any(row.event_id == "cmd:1:0" for row in change.events)
    if where == "held":
        machine.runtime._handle([Pause(start.execution_id, "p", machine.program.hash)])
        machine.runtime._handle(outcomes(machine, machine.ran[0]))
        machine.runtime._handle([Resume(start.execution_id, "r", machine.program.hash)])
    else:
        machine.runtime._inbox.put(outcomes(machine, machine.ran[0]))
    machine.settled(lambda: machine.status(start) == "failed")
    assert not any(machine.memory.open_work(start.execution_id).values())
    machine.settled(lambda: machine.runtime._inbox.counts() == (0, 0))
    machine.runtime._inbox.close()


def test_an_event_whose_execution_cannot_fail_either_is_set_aside_where_it_can_be_seen(tmp_path: Any) -> None:
    machine = Machine(tmp_path, STEP)
    start = machine.begin(1)
    machine.runtime.accept([start])
    machine.settled(lambda: len(machine.ran) == 1)
    machine.memory.breaks = lambda change: True
    machine.runtime._inbox.put(outcomes(machine, machine.ran[0]))
    noted = lambda: machine.memory.item_events(start.execution_id, -1)  # noqa: E731
    machine.settled(lambda: any("is set aside" in line for line in machine.log) and bool(noted()))
    assert b"value too long" in noted()[0].facts
    machine.memory.breaks = lambda change: False
    machine.settled(lambda: machine.status(start) == "completed")
    assert len(noted()) == 1, "however often it was tried"
    machine.runtime._inbox.close()


def test_a_lost_answer_to_failing_an_execution_makes_the_process_doubt_what_it_holds(tmp_path: Any) -> None:
    """That commit may have given it work of other executions: those that waited for the slots of the failed one."""
    machine = Machine(tmp_path, STEP)
    start = machine.begin(1)
    doubts: list[bool] = []
    machine.runtime.keeper = SimpleNamespace(doubt=lambda: doubts.append(True))
    lost = InfrastructureError("the answer was lost", code="outcome_unknown")

    def commit(changes: Sequence[Change], owner: str | None = None) -> Committed:
        raise lost

    machine.memory.commit = commit  # type: ignore[method-assign]
    with pytest.raises(InfrastructureError):
        machine.runtime._after_failure(start, RuntimeError("boom"), failed_events.TRIES)
    assert doubts
    machine.runtime._inbox.close()


@pytest.mark.parametrize("code", ["outcome_unknown", "database_busy"])
def test_what_was_committed_before_a_statement_failed_is_followed(tmp_path: Any, code: str) -> None:
    """Items are counted, an execution ends, and the commit of another one fails. Commands come back to a process that doubts."""
    machine = Machine(tmp_path, LOOP)
    counted, ends, fails = (machine.begin(number) for number in (1, 2, 3))
    machine.runtime._handle([counted, ends, fails])
    doubts: list[bool] = []
    machine.runtime.keeper = SimpleNamespace(doubt=lambda: doubts.append(True))

    def commit(changes: Sequence[Change], owner: str | None = None) -> Committed:
        if len(changes) > 1:
            raise VersionConflictError([one.execution_id for one in changes])
        if changes[0].execution_id == fails.execution_id:
            raise InfrastructureError("away", code=code)
        return Breaking.commit(machine.memory, changes, owner)

    machine.memory.commit = commit  # type: ignore[method-assign]
    first = next(one for one in machine.ran if one.execution_id == counted.execution_id)
    cancels = [Cancel(one.execution_id, "c", machine.program.hash) for one in (ends, fails)]
    with pytest.raises(InfrastructureError):
        machine.runtime._handle([*outcomes(machine, first), *cancels])
    assert doubts == [True] * (code == "outcome_unknown")
    assert len(machine.ran) == (4 if code == "database_busy" else 3), (
        "the next item, now or when it is claimed"
    )
    assert machine.runtime._revoked(ends.execution_id, 1) and not machine.runtime._revoked(
        fails.execution_id, 1
    )
    machine.runtime._inbox.close()


def test_an_end_that_is_noted_late_takes_no_command_from_its_redriven_execution(
    tmp_path: Any, monkeypatch: Any
) -> None:
    """Another thread claims it between the commit of the end and the note of it: it would never run while this process lives."""
    machine = Machine(tmp_path, STEP)
    start = machine.begin(1)
    machine.runtime._handle([start])
    (command,) = machine.ran
    monkeypatch.setattr(process, "forget", lambda pools, ended: None)
    handle, redriven = process.handle_events, msgspec.structs.replace(command, run=2, command_id="2")

    def handle_and_lose_the_race(*asked: Any) -> Any:
        handled = handle(*asked)
        assert [one for one, _ in handled.ended] == [start.execution_id]
        machine.runtime._given([redriven])
        return handled

    with monkeypatch.context() as racing:
        racing.setattr(process, "handle_events", handle_and_lose_the_race)
        machine.runtime._handle(outcomes(machine, command))
    assert machine.ran[-1] == redriven and not machine.runtime._revoked(start.execution_id, redriven.run)
    machine.runtime._inbox.close()


def test_an_event_of_an_execution_whose_state_cannot_be_read_is_refused_by_its_name(tmp_path: Any) -> None:
    """What `noetl pause` shows: the row that cannot be read, and where the remedy is described. A cancel goes through."""
    machine = Machine(tmp_path, STEP)
    start = machine.begin(1)
    machine.runtime.accept([start])
    machine.settled(lambda: len(machine.ran) == 1)
    machine.memory._tables.executions[start.execution_id].state = b'{"status": 17}'
    with pytest.raises(UnreadableRowError) as refused:
        machine.runtime._handle([Pause(start.execution_id, "p", machine.program.hash)])
    assert f"the state of execution {start.execution_id} cannot be read" in refused.value.message
    assert "docs/operations.md" in str(refused.value.hint)
    machine.runtime._handle([Cancel(start.execution_id, "c", machine.program.hash)])
    assert machine.memory.info(start.execution_id).status == "cancelled"
    machine.runtime._inbox.close()


def test_a_kind_that_exits_takes_neither_its_thread_nor_its_command_with_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, STEP)
    told: list[Any] = []

    def leaves(command: Command, deps: TaskContext, emit: Callable[[Any], None]) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("noetl.runtime.local.lost_commands.run_command", leaves)
    machine.runtime.opened.worker = None
    machine.runtime.left_behind.remove = lambda command: None
    machine.runtime.keeper = SimpleNamespace(delay=lambda command: told.append(command.delay))
    machine.runtime.emit = told.append
    for _ in range(3):
        machine.runtime._run(Command(7, "1", 1, "load", "p", "io"))
    assert told[:2] == [1.0, 2.0] and "SystemExit" in told[2].outcome.error.message


def test_commands_wait_when_no_thread_can_be_started(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, HEAD + "  - step: start\n    tool: { kind: noop }\n")
    delayed: list[Command] = []
    ran = threading.Semaphore(0)
    runtime = machine.runtime
    del runtime.dispatch
    runtime.offers = SimpleNamespace(pass_on=lambda commands, later: commands)
    runtime.left_behind.receive = lambda command: None
    runtime.keeper = SimpleNamespace(delay=delayed.append)
    runtime.pools = {"io": Pool("io", 2, lambda command: ran.release())}

    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    commands = [Command(7, str(number), number, "load", "p", "io") for number in (1, 2, 3)]
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", full)
        runtime.dispatch(*commands[:2])
    assert [one.command_id for one in delayed] == ["1", "2"] and len(runtime._here) == 0
    runtime.dispatch(commands[2])
    assert ran.acquire(timeout=PATIENCE)
    runtime.pools["io"].close(0)


def test_commands_that_cannot_be_handed_to_a_worker_stay_this_process_s(tmp_path: Any) -> None:
    """They were taken out of its memory, and are leased to it."""
    machine = Machine(tmp_path, STEP)
    command = Command(7, "1", 1, "load", "p", "io")
    machine.runtime.take = lambda pool, limit, only: [command]
    work: Any = object.__new__(RemoteWork)
    work._runtime, work.store, work.lease_seconds = machine.runtime, machine.memory, 30.0
    seen = SimpleNamespace(worker=SimpleNamespace(pool="io", name="w"), now=0.0)

    def away(*args: Any, **more: Any) -> None:
        raise InfrastructureError("the database is away", code="database_unreachable")

    machine.memory.hand_over = away  # type: ignore[method-assign]
    with pytest.raises(InfrastructureError):
        work._take(seen, 1, None)
    assert machine.ran == [command]
    machine.runtime._inbox.close()


def test_what_no_thread_has_begun_runs_once_when_leases_are_taken_anew(tmp_path: Any) -> None:
    """A commit whose answer was lost makes the process take its leases again: as further attempts of the same commands."""
    machine = Machine(tmp_path, STEP)
    runtime = machine.runtime
    del runtime.dispatch
    runtime.offers = SimpleNamespace(pass_on=lambda commands, later: commands)
    runtime.left_behind.receive = lambda command: None
    runtime.pools = {"io": Pool("io", 0, lambda command: None)}
    keeper = runtime.keeper = runtime._new_keeper()
    runtime.accept([machine.begin(1)])
    machine.settled(lambda: runtime.pools["io"].gauge().waiting == 1)
    keeper.doubt()
    keeper._take_anew()
    assert [one.attempt for one in runtime.pools["io"].take(9)] == [2] and len(runtime._here) == 1
    machine.runtime._inbox.close()
