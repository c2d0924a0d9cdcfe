"""A worker that fetches its own commands: how many at once, when it ends, and what it leaves behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from noetl.adapters.aws.sqs import LONGEST_VISIBILITY
from noetl.domain.errors import InfrastructureError
from noetl.domain.kinds import TaskContext
from noetl.runtime.aws import worker_loop
from noetl.runtime.aws.worker import CloudWorker
from noetl.runtime.aws.worker_loop import WorkerLoop
from tests.unit.services.batch_bench import HEAD, Bench
from tests.waiting import PATIENCE, wait_until


@contextmanager
def running(loop: WorkerLoop) -> Iterator[threading.Thread]:
    """The loop in a thread of its own; it has to end by itself or by the block."""
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        loop.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def send(bench: Bench, *numbers: int) -> None:
    """Commands that nobody has received yet."""
    for delivery in bench.put(*(bench.command(number) for number in numbers)):
        bench.commands.nack([delivery])


def test_it_runs_what_comes_and_ends_when_idle():
    bench = Bench()
    send(bench, *range(10))
    send(bench, *range(10, 14))
    loop = WorkerLoop(CloudWorker(bench.deps, capacity=3), grace=10, idle=0.3)
    with running(loop) as thread:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "idle"
    assert {event.execution_id for _, event in bench.said()} == {100 + number for number in range(14)}
    assert len(bench.commands) == 0, "and what is done is acknowledged"


def test_a_long_command_keeps_no_other_waiting_and_no_more_run_than_there_is_room_for():
    lock, long_one, now, most = threading.Lock(), threading.Event(), [0], [0]

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        if params["v"] == 0:
            assert long_one.wait(PATIENCE)
        time.sleep(0.02)
        with lock:
            now[0] -= 1

    bench = Bench(tool=tool)
    send(bench, *range(6))
    with running(WorkerLoop(CloudWorker(bench.deps, capacity=2), grace=10, idle=0.5)) as thread:
        wait_until(lambda: len(bench.commands) == 1)
        long_one.set()
        thread.join(PATIENCE)
    assert most[0] == 2 and len(bench.said()) == 6 and len(bench.commands) == 0


def test_told_to_end_it_gives_back_what_still_runs():
    begun, release = threading.Event(), threading.Event()

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        begun.set()
        release.wait(10 * PATIENCE)

    bench = Bench(tool=tool)
    send(bench, 1)
    loop = WorkerLoop(CloudWorker(bench.deps, capacity=1), grace=worker_loop.MARGIN_SECONDS + 0.3)
    with running(loop) as thread:
        assert begun.wait(PATIENCE)
        loop.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "it does not wait for the call"
    assert bench.said() == [] and len(bench.again()) == 1, "another worker has it at once"
    release.set()


def test_told_to_end_it_hears_out_what_ends_in_time():
    """And receives no more commands, although it has a place for one."""
    begun, told = threading.Event(), threading.Event()

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        begun.set()
        assert told.wait(PATIENCE)

    bench = Bench(tool=tool)
    send(bench, 1)
    receive, polls = bench.commands.receive, []
    bench.commands.receive = lambda limit, wait: polls.append(limit) or receive(limit, wait)
    loop = WorkerLoop(CloudWorker(bench.deps, capacity=1), grace=PATIENCE)
    with running(loop):
        assert begun.wait(PATIENCE)
        loop.stop()
        told.set()
    assert polls == [1]
    assert len(bench.said()) == 1 and len(bench.commands) == 0


def test_a_queue_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_loop, "RECONNECT_SECONDS", (0.01,))
    bench = Bench()
    send(bench, 1)
    receive, calls = bench.commands.receive, []

    def flaky(limit: int, wait_seconds: float = 0.0) -> Any:
        calls.append(limit)
        if len(calls) < 4:
            raise InfrastructureError("no queue")
        return receive(limit, wait_seconds)

    bench.commands.receive = flaky
    with running(WorkerLoop(CloudWorker(bench.deps, capacity=1), grace=10, idle=0.3)) as thread:
        thread.join(PATIENCE)
    assert len(bench.said()) == 1


def test_what_cannot_be_acknowledged_comes_again():
    bench = Bench()
    send(bench, 1)

    def ack(deliveries: Any) -> None:
        raise InfrastructureError("no queue")

    bench.commands.ack = ack
    loop = WorkerLoop(CloudWorker(bench.deps, capacity=1), grace=10, idle=0.3)
    with running(loop) as thread:
        thread.join(PATIENCE)
    assert len(bench.commands) == 1 and loop.running == 0


def test_a_command_for_which_no_thread_can_be_started_is_given_back_and_the_worker_goes_on(monkeypatch):
    bench = Bench()
    send(bench, 1)
    loop = WorkerLoop(CloudWorker(bench.deps, capacity=1), grace=10, idle=0.3)
    refused: list[str] = []
    start = threading.Thread.start

    def full(thread: threading.Thread) -> None:
        if thread.name == "noetl-command" and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", full)
    monkeypatch.setattr(worker_loop, "NO_THREAD_SECONDS", 0)
    with running(loop) as thread:
        thread.join(PATIENCE)
    assert refused and len(bench.said()) == 1 and len(bench.commands) == 0


@pytest.mark.parametrize(
    ("timeouts", "called", "told"),
    [
        ((43_176,), 0, "timeout_too_long"),
        ((43_175,), 1, "ok"),
        ((30_000, 30_000), 1, "suspended"),
        ((9_000, 9_000), 2, "ok"),
    ],
)
def test_no_call_outlasts_the_time_for_which_the_queue_holds_its_command(timeouts, called, told):
    """SQS ends at 12 hours: a second worker would run then what the first one runs. Each call takes as long as it may."""
    passed, calls = [0.0], []

    def tool(params: dict[str, Any], context: TaskContext) -> Any:
        calls.append(params["v"])
        passed[0] += params["v"]

    tasks = [
        f"      - t{n}: {{ kind: tool, v: {one}, spec: {{ timeout: {one} }} }}\n"
        for n, one in enumerate(timeouts)
    ]
    bench = Bench(HEAD + "  - step: s\n    tool:\n" + "".join(tasks), tool)
    send(bench, 1)
    receive = bench.commands.receive
    bench.commands.receive = lambda limit, wait: receive(limit, 0.01)
    loop = WorkerLoop(
        CloudWorker(bench.deps, capacity=1), grace=10, hold=LONGEST_VISIBILITY, clock=lambda: passed[0]
    )
    with running(loop):
        wait_until(lambda: len(bench.commands) == 0, "the end of the command")
    ((_, event),) = bench.said()
    assert calls == list(timeouts)[:called]
    assert told in (event.outcome.status, event.outcome.error and event.outcome.error.code)
    if told == "timeout_too_long":
        assert "`container`" in event.outcome.error.hint and "long: true" not in event.outcome.error.hint
