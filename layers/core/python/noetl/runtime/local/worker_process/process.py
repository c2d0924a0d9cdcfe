"""A worker process, as the process with the engine has it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from noetl.domain.commands import Command
from noetl.domain.events import Event
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
    Size,
    TakeBack,
)
from noetl.runtime.local.worker_process.pool import ProcessPool
from noetl.services.worker.ready_commands import PATIENCE

MODULE = "noetl.runtime.local.worker_process.main"
START_SECONDS = 15.0
"""Most time from the start of processes to the first message of each.

The keeper of a lease may wait for it, and extends the lease every ten seconds.
"""
END_SECONDS = 2.0
"""Time that it has to end by itself."""


class Runtime(Protocol):
    """The process with the engine, as a worker process needs it.

    Any thread may call the methods.
    """

    def log(self, line: str) -> None:
        """Write a line."""

    def report_all(self, events: Collection[Event]) -> None:
        """Give the engine events."""

    def is_wanted(self, command: Command) -> bool:
        """Return whether a command has to be run still. It takes no lock."""

    def has_ended(self, execution_id: int) -> bool:
        """Return whether an execution has ended. It takes no lock."""

    def finish(self, commands: Collection[Command]) -> None:
        """Note that commands have been run."""

    def fail(self, command: Command, error: BaseException) -> None:
        """Note that a command could not be run."""

    def lose(
        self, process: WorkerProcess, begun: Sequence[Command], waiting: Sequence[Command], reason: str
    ) -> None:
        """Take back the commands of a process that has ended.

        ``begun``: those that were sent to it.
        """


class WorkerProcess:
    """A process that runs commands.

    ``pools``: by name; they are put in by the one who makes it. ``used``: when it was last given a command (monotonic
    seconds). ``last``: the number of its last command. ``place``: its number among the processes. ``over``: it has
    ended, and what it had was taken back. ``relieve``: is called by its reader, takes commands over from other processes
    for its free threads, and returns the seconds after which to look again. ``returned``: is called with commands
    that it gave back.
    """

    def __init__(self, begin: Begin, runtime: Runtime) -> None:
        self.pools: dict[str, ProcessPool] = {}
        self.used = time.monotonic()
        self.name = begin.owner
        self._begin, self._runtime = begin, runtime
        self.last, self.place, self.over = 0, 0, False
        self._sent: dict[int, tuple[ProcessPool, Command]] = {}
        self._executions: Counter[int] = Counter()
        """Commands that were sent, by execution."""
        self._look_again = PATIENCE
        self._changed, self._sizing = threading.Condition(), threading.Lock()
        self._sizes = dict(begin.sizes)
        """As the process knows them."""
        self._ready, self._closing, self._left = False, False, False
        self.relieve: Callable[[], float] = lambda: PATIENCE
        self.returned: Callable[[Collection[Command]], object] = lambda commands: None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def load(self) -> int:
        """Count the commands that wait or run. It takes no lock."""
        return sum(pool.load for pool in self.pools.values())

    def start(self) -> None:
        """Start the process. Raises OSError."""
        near, far = socket.socketpair()
        with far:
            # A session of its own: Ctrl-C in a terminal is for the process with the engine, which ends this one.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(far.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
        self._channel = Channel(near, FromWorker)
        self._reader = threading.Thread(target=self._read, name="noetl-worker-process", daemon=True)
        self._reader.start()
        with suppress(OSError):  # it has ended; the reader sees that
            self._channel.send(self._begin)

    def is_ready(self, until: float) -> bool:
        """Wait for the process, and return whether it takes commands.

        ``until``: monotonic seconds at which it has to.
        """
        with self._changed:
            seconds = max(0.0, until - time.monotonic())
            return self._changed.wait_for(lambda: self._ready or self.over, seconds) and self._ready

    def pool(self, name: str) -> ProcessPool | None:
        """Return the pool for commands of a name; None: the process runs none of them."""
        return self.pools.get(name if name in self._begin.sizes else "io")

    def resize(self, pool: ProcessPool) -> None:
        """Send the process how many commands of a pool it may run, where that has changed."""
        with self._sizing:
            size = pool.limit()
            if size == self._sizes.get(pool.name):
                return
            self._sizes[pool.name] = size
            with suppress(OSError):
                self._channel.send(Size(pool.name, size))

    def send(self, pool: ProcessPool, commands: Collection[Command]) -> None:
        """Send commands of a pool."""
        self.used = time.monotonic()
        with self._changed:
            numbered = list(enumerate(commands, self.last + 1))
            self.last += len(numbered)
            self._sent.update((number, (pool, command)) for number, command in numbered)
            self._executions.update(command.execution_id for command in commands)
            over = self.over
        self.resize(pool)
        if over:  # the reader has taken back what was there before
            self._lose("it has ended")
            return
        try:
            self._channel.send(Run(numbered))
        except OSError:
            return  # the reader sees the end, and takes them back
        except Exception as error:
            for number, command in numbered:
                if self._pop(number) is not None:
                    self._runtime.fail(command, error)
            pool.done(commands)
        self._withdraw_late(commands, numbered[-1][0])

    def take_back(self, pool: ProcessPool, limit: int) -> None:
        """Ask for commands that were sent, and that no thread has begun.

        ``returned`` is called with them.
        """
        if pool.begin_taking_back():
            with suppress(OSError):  # the reader sees the end, and takes all back
                self._channel.send(TakeBack(pool.name, limit))

    def has(self, execution_id: int) -> bool:
        """Return whether commands of an execution were sent that have not been run.

        It takes no lock.
        """
        return execution_id in self._executions

    def withdraw(self, executions: Collection[int], runs: Iterable[tuple[int, int]], last: int) -> None:
        """Withdraw executions that have ended, and step runs that were dropped, from the process.

        ``last``: its last command when they ended.
        """
        dropped = [one for one in runs if one[0] in self._executions]
        if (executions or dropped) and not self.over:
            with suppress(OSError):
                self._channel.send(Over(list(executions), dropped, last))

    def _withdraw_late(self, commands: Collection[Command], last: int) -> None:
        """Withdraw what was withdrawn while it was on its way: the process did not know it then."""
        late = [one for one in commands if not self._runtime.is_wanted(one)]
        ended = {one.execution_id for one in late if self._runtime.has_ended(one.execution_id)}
        self.withdraw(
            ended, [(one.execution_id, one.run) for one in late if one.execution_id not in ended], last
        )

    def retire(self) -> list[Command]:
        """Send nothing more. Return the commands that were not sent."""
        return [command for pool in self.pools.values() for command in pool.close()]

    def close(self, until: float | None) -> None:
        """End the process when its commands have been run.

        ``until``: monotonic seconds, at which it ends at the latest, and commands are left as they are. None: they have
        the time that they need.
        """
        self.retire()
        with self._changed:
            self._left = self._left or until is not None
            seconds = None if until is None else max(0.0, until - time.monotonic())
            self._changed.wait_for(lambda: not self._sent or self.over, seconds)
            self._closing = True
        self._channel.close()
        self._end()
        self._reader.join(END_SECONDS)

    def _end(self) -> int:
        """Wait for the end of the process, and return its exit code.

        It ends when it sees that its channel is closed.
        """
        try:
            return self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    # --- the reader ---

    def _read(self) -> None:
        try:
            while (messages := self._channel.receive(self._pause())) is not None:
                if messages:
                    self._take(messages)
                for pool in self.pools.values():
                    pool.look_again()
                self._look_again = self.relieve()
        finally:
            self._lose(f"it ended with {self._end()}")

    def _pause(self) -> float:
        # At most this: a command that comes while this thread waits may have no place, and nothing runs there that ends.
        pauses = (pause for pool in self.pools.values() if (pause := pool.pause) is not None)
        return min((self._look_again, *pauses))

    def _take(self, messages: Sequence[Any]) -> None:
        """Deal with messages that arrived together."""
        events: list[Event] = []
        finished: dict[ProcessPool, list[Command]] = {}
        failed: list[tuple[ProcessPool, Command, Failed]] = []
        returned: list[Returned] = []
        # First the events: until they are handed on, the commands count as running.
        for message in messages:
            if isinstance(message, Report):
                events += message.events
            elif isinstance(message, Line):
                self._runtime.log(message.text)
        if events:
            self._runtime.report_all(events)
        for message in messages:
            if isinstance(message, Report):
                if message.done and (found := self._pop(message.number)) is not None:
                    finished.setdefault(found[0], []).append(found[1])
            elif isinstance(message, Failed):
                if (found := self._pop(message.number)) is not None:
                    failed.append((*found, message))
            elif isinstance(message, Returned):
                returned.append(message)
            elif isinstance(message, Ready):
                with self._changed:
                    self._ready = True
                    self._changed.notify_all()
        for pool, commands in finished.items():
            self._runtime.finish(commands)
            pool.done(commands)
        for pool, command, failure in failed:
            self._runtime.fail(command, failure.error())
            pool.done([command])
        for answer in returned:
            self._take_returned(answer)

    def _take_returned(self, message: Returned) -> None:
        pool = self.pools[message.pool]
        found = [pair[1] for number in message.numbers if (pair := self._pop(number)) is not None]
        pool.taken_back(found)
        self.returned(pool.keep_wanted(found))

    def _pop(self, number: int) -> tuple[ProcessPool, Command] | None:
        with self._changed:
            found = self._sent.pop(number, None)
            if found is not None:
                execution_id = found[1].execution_id
                self._executions[execution_id] -= 1
                if not self._executions[execution_id]:
                    del self._executions[execution_id]
            if not self._sent:
                self._changed.notify_all()
        return found

    def _lose(self, reason: str) -> None:
        """Return all commands to the process with the engine."""
        waiting = self.retire()
        with self._changed:
            self.over = True
            begun = [command for _, command in self._sent.values()]
            self._sent.clear()
            self._executions.clear()
            # One that ends without commands may have been sent one in that moment.
            orderly = self._closing and (self._left or not (begun or waiting))
            self._changed.notify_all()
        if not orderly:
            self._runtime.lose(self, begun, waiting, f"worker process {self.name}: {reason}")
