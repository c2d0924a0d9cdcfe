"""Where commands run in this process: threads per pool, the highest priority first, and among equals round-robin by execution, so that a
large one does not starve the others."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from noetl.domain.commands import Command
from noetl.ports.gauges import QueueGauge


class Pool:
    """``size`` threads that take commands in turn from each execution that has some."""

    def __init__(self, name: str, size: int, run: Callable[[Command], None]) -> None:
        self.name = name
        self.size = size
        self.run = run
        self.queues: dict[int, OrderedDict[int, deque[Command]]] = {}
        """By priority, then by execution; none is empty."""
        self.ready = threading.Condition()
        self.idle = 0
        """Threads that wait and have not been told of a command. One that has been told may take a while to move."""
        self.closed = False
        self.threads: list[threading.Thread] = []

    def submit(self, command: Command) -> None:
        """Start threads as work arrives, up to ``size``.

        Raises RuntimeError when there is none, and none can be started."""
        with self.ready:
            if self.idle:
                self.idle -= 1
                self.ready.notify()
            elif len(self.threads) < self.size:
                thread = threading.Thread(target=self._work, name=f"noetl-{self.name}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self.threads:
                        raise
                else:
                    self.threads.append(thread)
            level = self.queues.setdefault(command.priority, OrderedDict())
            level.setdefault(command.execution_id, deque()).append(command)

    def take(self, limit: int, only: tuple[int, str] | None = None) -> list[Command]:
        """At most ``limit`` commands that no thread has begun, in turn from each execution (or the one with these ids): somebody else runs
        them."""
        found: list[Command] = []
        with self.ready:
            if only is not None:
                return self._take_one(*only)
            while self.queues and len(found) < limit:
                found.append(self._next())
        return found

    def _take_one(self, execution_id: int, command_id: str) -> list[Command]:
        for priority, level in self.queues.items():
            queue = level.get(execution_id, deque[Command]())
            found = [command for command in queue if command.command_id == command_id][:1]
            if found:
                queue.remove(found[0])
                self._forget_empty(priority, execution_id)
                return found
        return []

    def gauge(self) -> QueueGauge:
        """How many commands wait, and run."""
        with self.ready:
            waiting = sum(len(queue) for level in self.queues.values() for queue in level.values())
            return QueueGauge(f"commands-{self.name}", waiting, len(self.threads) - self.idle, 0)

    def close(self, until: float) -> None:
        """Queued commands stay in the store; running ones are waited for until ``until`` (monotonic seconds)."""
        with self.ready:
            self.closed = True
            self.queues.clear()
            self.ready.notify_all()
        for thread in self.threads:
            thread.join(timeout=max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        while True:
            command = self._take()
            if command is None:
                return
            self.run(command)

    def _take(self) -> Command | None:
        with self.ready:
            while not self.queues and not self.closed:
                self.idle += 1
                self.ready.wait()
            return None if self.closed else self._next()

    def _next(self) -> Command:
        priority = max(self.queues)
        level = self.queues[priority]
        execution, queue = next(iter(level.items()))
        command = queue.popleft()
        level.move_to_end(execution)
        self._forget_empty(priority, execution)
        return command

    def _forget_empty(self, priority: int, execution_id: int) -> None:
        level = self.queues[priority]
        if not level[execution_id]:
            del level[execution_id]
        if not level:
            del self.queues[priority]


def leave_waiting(pools: Iterable[Pool]) -> int:
    """Leave the commands that no thread has begun to whoever claims them, and tell how many they are. Those whose work goes on elsewhere
    stay: if they are not wanted any more, nobody claims them, and it is ended here."""
    left = 0
    for pool in pools:
        for one in pool.take(sys.maxsize):
            if one.remote:
                pool.submit(one)
            else:
                left += 1
    return left
