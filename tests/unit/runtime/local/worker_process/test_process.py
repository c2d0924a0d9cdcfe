"""A worker process, as the process with the engine has it, loses no command at any moment of its life."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from noetl.domain.commands import Command
from noetl.domain.events import CommandDone
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.workers.process_need import Need
from noetl.runtime.local.pools_of_process import LocalCommands, make_process
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.local.thread_pools import Pool
from noetl.runtime.local.worker_process import main, process
from noetl.runtime.local.worker_process.main import Unwanted, Work
from noetl.runtime.local.worker_process.messages import (
    Begin,
    Channel,
    Failed,
    FromWorker,
    Line,
    Over,
    Ready,
    Report,
    Returned,
    Run,
    TakeBack,
    ToWorker,
    encode_settings,
)
from noetl.runtime.local.worker_process.pool import ProcessPool
from noetl.runtime.local.worker_process.process import WorkerProcess
from noetl.runtime.settings import Settings
from noetl.services.worker.issue_gate import IssueGate
from tests.waiting import PATIENCE, wait_until


class Other:
    """The other process: a thread that has its end of the sockets, until its channel closes."""

    pid = 1

    def __init__(self, words: Sequence[str], *, pass_fds: Sequence[int], **more: object) -> None:
        self.words = words
        self.channel = Channel(socket.socket(fileno=os.dup(pass_fds[0])), ToWorker)
        self.got: list[Any] = []
        self.killed = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        self.channel.send(Ready())
        while (messages := self.channel.receive()) is not None:
            self.got += messages

    def runs(self) -> list[tuple[int, Command]]:
        return [pair for one in self.got if isinstance(one, Run) for pair in one.commands]

    def wait(self, seconds: float | None = None) -> int:
        self.thread.join()
        return 0

    def kill(self) -> None:
        self.channel.close()


class Ground:
    """The process with the engine."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.lost: list[Command] = []
        self.unwanted: set[int] = set()
        self.finished: list[Command] = []
        self.failed: list[BaseException] = []
        self.log: Callable[[str], None] = lambda line: None

    def report_all(self, events: Collection[Any]) -> None:
        self.events += events

    def is_wanted(self, command: Command) -> bool:
        return command.execution_id not in self.unwanted

    def has_ended(self, execution_id: int) -> bool:
        return execution_id in self.unwanted

    def finish(self, commands: Collection[Command]) -> None:
        self.finished += commands

    def fail(self, command: Command, error: BaseException) -> None:
        self.failed.append(error)

    def lose(self, worker: object, begun: Sequence[Command], waiting: Sequence[Command], reason: str) -> None:
        self.lost += [*begun, *waiting]


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, ground: Ground):
    monkeypatch.setattr(process.subprocess, "Popen", Other)
    made = WorkerProcess(Begin("", "name", [], [], {"io": 1}, "", []), ground)
    made.pools["io"] = ProcessPool("io", 1, made.send, lambda: 1, wanted=ground.is_wanted)
    made.start()
    assert made.is_ready(time.monotonic() + PATIENCE)
    yield made
    made.close(0.0)


def command(number: int, execution_id: int = 7) -> Command:
    return Command(execution_id, str(number), number, "load", "p", "io")


def test_one_that_ends_for_want_of_commands_gives_back_what_is_on_its_way_to_it(worker, ground):
    def send(pool: ProcessPool, commands: Collection[Command]) -> None:
        worker.close(None)
        worker.send(pool, commands)

    worker.pools["io"] = ProcessPool("io", 1, send, lambda: 1)
    worker.pools["io"].submit(command(1))
    worker.pools["io"].pump()
    wait_until(lambda: ground.lost == [command(1)], "the command")


def test_what_is_withdrawn_on_its_way_is_withdrawn_there(worker, ground):
    sent = worker._channel.send

    def send(*messages: Any) -> None:
        if isinstance(messages[0], Run):
            # The execution ends in this moment, and the process does not have the command.
            ground.unwanted.add(7)
            sent(Over([7], [], 1))
        sent(*messages)

    worker._channel.send = send
    worker.pools["io"].submit(command(1))
    worker.pools["io"].pump()
    unwanted = Unwanted()

    def follow() -> bool:
        for message in list(worker._process.got):
            if isinstance(message, Over):
                unwanted.add(message)
            elif isinstance(message, Run):
                for number, one in message.commands:
                    unwanted.begin(one, number)
        return unwanted(7, 1)

    wait_until(follow, "the end")


def test_what_no_thread_has_begun_is_given_back_and_asked_for_once(worker, ground):
    back: list[Command] = []
    worker.returned = back.extend
    pool = worker.pools["io"]
    for number in range(4):
        pool.submit(command(number))
    pool.pump()
    for limit in (2, 9):
        worker.take_back(pool, limit)
    wait_until(lambda: [one for one in worker._process.got if isinstance(one, TakeBack)], "the question")
    run = worker._process.runs()
    worker._process.channel.send(
        Report(run[0][0], [], True), Returned("io", [run[2][0], run[3][0], run[0][0]])
    )
    wait_until(lambda: back, "the answer")
    assert back == [command(2), command(3)] and ground.finished == [command(0)] and pool.load == 1
    worker.take_back(pool, 3)
    wait_until(
        lambda: [one.limit for one in worker._process.got if isinstance(one, TakeBack)] == [2, 3],
        "another question",
    )


def test_a_worker_process_gives_back_what_no_thread_has_begun():
    near, far = socket.socketpair()
    channel, sent = Channel(near, FromWorker), Channel(far, ToWorker)
    work = Work(Begin("", "name", [], [], {"io": 1}, "", []), sent)
    begun, go = threading.Event(), threading.Event()

    def run(one: Command) -> None:
        work._numbers.pop(id(one))
        begun.set()
        go.wait(PATIENCE)

    reader = threading.Thread(target=work._receive, args=({"io": Pool("io", 1, run)},), daemon=True)
    reader.start()
    channel.send(Run([(1, command(1))]))
    assert begun.wait(PATIENCE)
    channel.send(Run([(2, command(2)), (3, command(3, 8))]), TakeBack("io", 5))
    assert channel.receive(PATIENCE) == [Returned("io", [2, 3])]
    assert work.unwanted.need(8) is Need.SOON, "it has no command here"
    channel.send(TakeBack("io", 5))
    assert channel.receive(PATIENCE) == [Returned("io", [])]
    go.set()
    channel.close()
    reader.join(PATIENCE)


def test_a_late_end_is_none_of_the_execution_that_was_redriven():
    unwanted = Unwanted()
    unwanted.begin(command(1), 1)
    unwanted.begin(command(2), 2)  # of the execution that was redriven
    unwanted.add(Over([7], [], 1))
    assert not unwanted(7, 2)
    unwanted.add(Over([7], [], 2))
    assert unwanted(7, 2)
    unwanted.end(command(1))
    unwanted.end(command(2))
    assert not unwanted(7, 2) and not unwanted._last


def test_what_breaks_the_reader_loses_no_command(worker, ground):
    def log(line: str) -> None:
        raise ValueError(line)

    ground.log = log
    worker.pools["io"].submit(command(1))
    worker.pools["io"].pump()
    wait_until(worker._process.runs, "the command")
    done = CommandDone.of(command(1), Outcome("ok", 1))
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        worker._process.channel.send(Report(1, [done], True), Line("broken"))
        worker._process.channel.close()
        wait_until(lambda: ground.lost or ground.finished, "the end")
    finally:
        threading.excepthook = hook
    assert ground.lost == [command(1)]


def test_the_reader_looks_again_without_being_told(worker):
    """Nothing ends in the other process, so no message comes: what has no place would wait for ever."""
    looks: list[int] = []
    worker.pools["io"].look_again = lambda: looks.append(1)
    wait_until(lambda: len(looks) > 1, "looks")


def test_it_does_not_look_for_modules_in_the_folder_where_it_is_started(worker):
    assert "-P" in worker._process.words


def test_processes_share_what_runs_in_this_one(ground):
    pool = SimpleNamespace(size=4, running=1)
    sizes = [2, 1, 1]
    made = [
        make_process(
            Begin("", "", [], [], {"io": size}, "", []),
            place,
            3,
            ground,
            {"io": pool},
            LocalCommands(lambda execution_id: False),
            lambda: None,
        )
        for place, size in enumerate(sizes)
    ]

    def limits() -> list[int]:
        return [one.pools["io"].limit() for one in made]

    assert limits() == [1, 1, 1]
    pool.running = 3
    assert limits() == [1, 0, 0]
    assert [one.pool("io").limit() > 0 for one in made] == [True, False, False]
    pool.running = 0
    assert limits() == sizes


def test_commands_that_began_early_stay_with_their_gates():
    early, other = command(1), command(2)
    ran: list[Command] = []
    dispatched: list[Command] = []
    pool = Pool("io", 1, ran.append)
    runtime = SimpleNamespace(
        _leave=lambda: [early, other],
        _early=SimpleNamespace(gate_of=lambda one: IssueGate() if one is early else None),
        _here=LocalCommands(lambda execution_id: False),
        pools={"io": pool},
        dispatch=lambda *commands: dispatched.extend(commands),
    )
    LocalRuntime._place_again(runtime, ())  # type: ignore[arg-type]
    wait_until(lambda: ran, "the command that began early")
    assert ran[0] is early and dispatched == [other]
    pool.close(time.monotonic())


def test_a_command_for_which_there_is_no_thread_waits_and_spares_the_others(monkeypatch):
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    near, far = socket.socketpair()
    with near, far:
        work = Work(Begin("", "name", [], [], {"io": 1}, "", []), Channel(far, ToWorker))
        pools = {"io": Pool("io", 1, lambda command: None)}
        channel = Channel(near, Report | Failed)
        channel.send(Run([(1, command(1))]))
        near.shutdown(socket.SHUT_WR)
        with monkeypatch.context() as patch:
            patch.setattr("noetl.runtime.local.thread_pools.threading.Thread", NoThread)
            work._receive(pools)
        (failed,) = channel.receive() or ()
        assert (failed.number, failed.outage, failed.retryable) == (1, True, True)
        assert not work.unwanted._here and not work._numbers


def test_one_that_is_not_wanted_any_more_when_it_is_ready_ends_in_order(tmp_path, monkeypatch):
    opened = SimpleNamespace(stack=ExitStack(), worker=None)
    monkeypatch.setattr(main, "open_engine", lambda settings, **more: opened)
    monkeypatch.setattr(main, "replace", lambda worker, **more: worker)
    monkeypatch.setattr(main, "collect_as_usual", lambda: None)
    settings = encode_settings(Settings.from_env({}, home=tmp_path))
    near, far = socket.socketpair()
    near.close()
    with far:
        Work(Begin(settings, "name", [], [], {"io": 1}, "", []), Channel(far, ToWorker)).run()
    assert not list((tmp_path / "owners").iterdir()), "nothing says that it was killed"
