"""A worker that fetches its commands itself, for work longer than a function's limit.

It runs as a Fargate task.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from noetl.domain.errors import InfrastructureError, as_exception
from noetl.ports.queue import Delivery
from noetl.runtime.aws.telemetry import telemetry
from noetl.runtime.aws.worker import MARGIN_SECONDS, START_SECONDS, CloudWorker, report

POLL_SECONDS = 20.0
NO_THREAD_SECONDS = 1
"""After which a command is offered again for which no thread could be started."""
RECONNECT_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses while the queue cannot be reached."""


class WorkerLoop:
    """A loop that runs up to ``capacity`` commands at once, none of which waits for another.

    ``stop`` (for example from a signal handler) ends it within ``grace`` seconds: pipelines and chunks return to the queue between two
    calls, and commands that still run at the end return as well. ``idle``: seconds without work after which it ends by itself (None:
    never). ``hold``: seconds for which the queue lets a command be held. A call that may take longer is refused, and one that no longer
    fits into them is left to the command's next turn: the queue would give the command to a second worker while the first one runs it.
    """

    def __init__(
        self,
        worker: CloudWorker,
        *,
        grace: float,
        idle: float | None = None,
        hold: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.worker = worker
        self.grace = grace
        self.idle = idle
        self.hold = hold
        self.clock = clock
        self.stop_at = math.inf
        self.changed = threading.Condition()
        self.running = 0
        self.busy_at = clock()

    def stop(self) -> None:
        """Ask the loop to end; return at once.

        It takes no lock: a signal handler could wait for one for ever.
        """
        self.stop_at = min(self.stop_at, self.clock() + self.grace)

    def run(self) -> None:
        """Run until the loop was stopped, or idle for long enough, and no command runs."""
        failures = 0
        while not self.stopping and not self._is_idle():
            free = self._free()
            if free == 0 or self.stopping:
                continue
            try:
                found = self.worker.deps.commands.receive(free, self._poll_seconds())
            except InfrastructureError as error:
                telemetry.log(f"no commands can be received: {error}", level="warning")
                self.pause(failures)
                failures += 1
                continue
            failures = 0
            for delivery in found:
                self._begin(delivery)
        self._wait_for_the_rest()

    @property
    def stopping(self) -> bool:
        """Return whether a signal asked the loop to stop."""
        return self.stop_at < math.inf

    def pause(self, failures: int) -> None:
        """Sleep before another try, after ``failures`` earlier ones; ``stop`` ends the pause."""
        seconds = RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)]
        until = self.clock() + seconds
        while self.clock() < until and not self.stopping:
            time.sleep(min(0.2, seconds))

    def _free(self) -> int:
        """Return how many more commands may run; wait a moment when there is no place."""
        with self.changed:
            if self.running >= self.worker.capacity:
                self.changed.wait(1.0)
            return max(0, self.worker.capacity - self.running)

    def _poll_seconds(self) -> float:
        """Return the seconds of a poll.

        A poll cannot be interrupted, so it has to end well within the grace, and soon after the idle time.
        """
        longest = max(1.0, min(POLL_SECONDS, self.grace / 2))
        return longest if self.idle is None else max(1.0, min(longest, self.idle))

    def _is_idle(self) -> bool:
        with self.changed:
            return self.idle is not None and self.running == 0 and self.clock() - self.busy_at >= self.idle

    def _begin(self, delivery: Delivery) -> None:
        with self.changed:
            self.running += 1
        arguments = (delivery, self.clock() + self.hold)
        try:
            threading.Thread(target=self._work, args=arguments, name="noetl-command", daemon=True).start()
        except RuntimeError as error:
            # The system starts no more threads now: another worker, or this one, has the command in a moment.
            with self.changed:
                self.running -= 1
            telemetry.log(f"message {delivery.message_id} is given back: {error}", level="warning")
            with suppress(InfrastructureError):
                self.worker.deps.commands.nack([delivery], NO_THREAD_SECONDS)

    def _work(self, delivery: Delivery, held_until: float) -> None:
        longest = self.hold - MARGIN_SECONDS - START_SECONDS
        try:
            with telemetry.invocation() as call:
                worked = self.worker.work_until([delivery], lambda: self._left(held_until), longest)
                report(call, worked)
                if not worked.give_back:
                    self.worker.deps.commands.ack([delivery])
        except BaseException as error:
            # Not acknowledged: the queue brings the command again. The engine drops what is said twice.
            message = f"message {delivery.message_id} was not done with: {as_exception(error)!r}"
            telemetry.log(message, level="error")
        finally:
            with self.changed:
                self.running -= 1
                self.busy_at = self.clock()
                self.changed.notify_all()

    def _left(self, held_until: float) -> float:
        return min(self.stop_at, held_until) - self.clock() - MARGIN_SECONDS

    def _wait_for_the_rest(self) -> None:
        with self.changed:
            while self.running and self.clock() < self.stop_at:
                self.changed.wait(0.5)
