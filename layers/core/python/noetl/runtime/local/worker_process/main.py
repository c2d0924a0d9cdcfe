"""A worker process: it runs the commands that a process with an engine sends.

It ends when that process ends.

Usage: python -m noetl.runtime.local.worker_process.main DESCRIPTOR
"""

from __future__ import annotations

import importlib
import math
import os
import random
import signal
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import CommandDone, Event
from noetl.domain.workers.process_need import Need
from noetl.kinds.registry import default_registry
from noetl.kinds.sandbox.ended import report_ended
from noetl.kinds.sandbox.needed import reporting_needs
from noetl.runtime.bootstrap import open_engine
from noetl.runtime.collector import collect_as_usual, collect_rarely
from noetl.runtime.local.lost_commands import SharedRunRule, attempt
from noetl.runtime.local.process_locks import ProcessLock
from noetl.runtime.local.thread_pools import Pool
from noetl.runtime.local.worker_process.messages import (
    Begin,
    Channel,
    Failed,
    Line,
    Over,
    Ready,
    Report,
    Returned,
    Run,
    Size,
    TakeBack,
    ToWorker,
    decode_settings,
)
from noetl.services.worker.worker_deps import WorkerDeps

LESS = 5
"""How much lower the priority of a worker process is, in steps of nice(2): it gets a third of what the engine gets of a processor."""
TRIES = 20
"""Of lowering the priority of the session, where Linux wants more time between two."""


class Unwanted:
    """Executions and step runs that are over, of which commands may still run here.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._executions: set[int] = set()
        self._runs: set[tuple[int, int]] = set()
        self._here: Counter[int] = Counter()
        self._last: dict[int, int] = {}
        """By execution, the number of its last command."""
        self._lock = threading.Lock()

    def __call__(self, execution_id: int, run: int) -> bool:
        """Return whether the work of a step run is not wanted. It takes no lock."""
        return execution_id in self._executions or (execution_id, run) in self._runs

    def begin(self, command: Command, number: int) -> None:
        """Note a command: its execution is live, even if it had ended before."""
        with self._lock:
            self._last[command.execution_id] = max(number, self._last.get(command.execution_id, 0))
            self._here[command.execution_id] += 1
            self._executions.discard(command.execution_id)

    def end(self, command: Command) -> None:
        """Note that a command has been run."""
        one = command.execution_id
        with self._lock:
            self._here[one] -= 1
            if not self._here[one]:
                del self._here[one], self._last[one]
                self._executions.discard(one)
                self._runs = {pair for pair in self._runs if pair[0] != one} if self._runs else self._runs

    def add(self, over: Over) -> None:
        """Note what is over."""
        with self._lock:
            # One of which a command came later is live again.
            self._executions.update(
                one for one in over.executions if self._last.get(one, math.inf) <= over.last
            )
            self._runs = self._runs | {pair for pair in map(tuple, over.runs) if pair[0] in self._here}  # type: ignore[misc]  # pairs

    def need(self, execution_id: int) -> Need:
        """Return how much an execution needs its child process; the engine is in another process."""
        return Need.NOW if execution_id in self._here else Need.SOON


class Work:
    """The commands of this process."""

    def __init__(self, begin: Begin, channel: Channel) -> None:
        self._begin, self._channel = begin, channel
        self.unwanted, self._company = Unwanted(), SharedRunRule()
        self._numbers: dict[int, int] = {}
        """By the identity of the command, from its arrival until a thread takes it."""

    def run(self) -> None:
        """Take commands until the other process ends."""
        settings = decode_settings(self._begin.settings)
        kinds = default_registry()
        if self._begin.kinds:
            sys.path += [one for one in self._begin.path if one not in sys.path]
        for name in self._begin.kinds:
            kinds.add(importlib.import_module(name))
        opened = open_engine(
            settings,
            owner=self._begin.owner,
            data_dirs=self._begin.data_dirs,
            log=self._log,
            revoked=self.unwanted,
            registry=kinds,
        )
        with opened.stack, reporting_needs(self.unwanted.need):
            self._worker: WorkerDeps = replace(opened.worker, callback_base=self._begin.callback_base)
            self._presence = ProcessLock(settings.home / "owners", self._begin.owner)
            self._presence.announce()
            pools = {name: Pool(name, size, self._run) for name, size in self._begin.sizes.items()}
            collect_as_usual()
            with suppress(OSError):  # the other process has ended meanwhile, as is seen next
                self._channel.send(Ready())
            self._receive(pools)
            self._presence.leave()

    def _receive(self, pools: dict[str, Pool]) -> None:
        while (messages := self._channel.receive()) is not None:
            for message in messages:
                if isinstance(message, Size):
                    self._resize(pools[message.pool], message.size)
                elif isinstance(message, TakeBack):
                    self._give_back(message.pool, pools[message.pool].take(message.limit))
                elif isinstance(message, Over):
                    self.unwanted.add(message)
                    report_ended(message.executions)
                elif isinstance(message, Run):
                    for number, command in message.commands:
                        self.unwanted.begin(command, number)
                        self._numbers[id(command)] = number
                        try:
                            pools.get(command.pool, pools["io"]).submit(command)
                        except RuntimeError as error:
                            self._refuse(command, error)

    def _resize(self, pool: Pool, size: int) -> None:
        try:
            pool.resize(size)
        except RuntimeError as error:
            if not pool.threads:
                for command in pool.take(sys.maxsize):
                    self._refuse(command, error)

    def _give_back(self, pool: str, commands: list[Command]) -> None:
        """Return commands that no thread has begun, so that another process runs them."""
        numbers = [self._numbers.pop(id(command)) for command in commands]
        for command in commands:
            self.unwanted.end(command)
        with suppress(OSError):
            self._channel.send(Returned(pool, numbers))

    def _refuse(self, command: Command, error: RuntimeError) -> None:
        """Give back a command for which the system starts no thread now.

        It is tried again after a pause.
        """
        number = self._numbers.pop(id(command))
        self.unwanted.end(command)
        with suppress(OSError):
            self._channel.send(Failed(number, str(error), "no_thread", outage=True, retryable=True))

    def _run(self, command: Command) -> None:
        number = self._numbers.pop(id(command))
        last: list[Event] = []

        def emit(event: Event) -> None:
            if isinstance(event, CommandDone):
                last.append(event)  # sent with the end of the command
            else:
                self._channel.send(Report(number, [event], False))

        try:
            with self._company.beside(command) as may_run:
                if may_run and not self.unwanted(command.execution_id, command.run):
                    attempt(command, self._presence, self._worker, emit, self._log)
            self._channel.send(Report(number, last, True))
        except BaseException as error:
            # A kind may call sys.exit(): the thread and the other process continue.
            outage = isinstance(error, InfrastructureError)
            text = str(error) if outage else f"{type(error).__name__}: {error}"
            code, again = (
                (error.code, error.retryable) if isinstance(error, InfrastructureError) else ("", False)
            )
            with suppress(OSError):
                self._channel.send(Failed(number, text, code, outage, again))
        finally:
            self.unwanted.end(command)

    def _log(self, line: str) -> None:
        with suppress(OSError):
            self._channel.send(Line(line))


def _yield_to_engine() -> None:
    """Lower the priority of this process.

    All commands wait for the engine, which wants the same processors.
    """
    with suppress(OSError):
        os.nice(LESS)
    # Where Linux shares processors between sessions first (sched_autogroup), and this process is one.
    threading.Thread(target=_lower_session, name="noetl-priority", daemon=True).start()


def _lower_session() -> None:
    """Lower the priority of this session, again where it is refused with EAGAIN.

    An ordinary user may do so to one session in 0.1 s (kernel/sched/autogroup.c).
    """
    with suppress(OSError):
        for _ in range(TRIES):
            with suppress(BlockingIOError):
                Path("/proc/self/autogroup").write_text(str(LESS))
                return
            time.sleep(random.uniform(0.1, 0.3))


def main() -> None:
    """Take commands from the process at the other end of the inherited socket."""
    # The process with the engine ends this one, after the commands that run. A supervisor may send SIGTERM to every process of a service.
    # A handler, because programs of tasks would inherit that a signal is ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    _yield_to_engine()
    collect_rarely()
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)  # another holder would hide the end of this process
    channel = Channel(end, ToWorker)
    messages = channel.receive()
    if messages and isinstance(messages[0], Begin):
        Work(messages[0], channel).run()
    # Commands that still run are not waited for: the other process has given them back, or has ended.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
