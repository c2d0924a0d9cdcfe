"""Commands that run before they are issued, since others cannot see that (ADR 107).

The engine decides about an outcome. If one command follows, of code that keeps nothing, this process runs it at once, the engine decides
about its outcome, and so on; then all is written in one commit. That saves a commit and changes of threads for each of these steps. New
commands begin for ``SECONDS``, and while no other event waits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from noetl.caching.lru_cache import LruCache
from noetl.domain.commands import Command
from noetl.domain.events import CommandDone, Event, Start
from noetl.services.worker.run_ahead import AheadGate, is_short, run_ahead
from noetl.services.worker.stage_traits import Place, place_of
from noetl.services.worker.worker_deps import WorkerDeps

SECONDS = 0.01
"""How long commands begin ahead, from the first event of a commit on. The outcomes of this time are in memory only."""
UNFIT_SECONDS = 60.0
"""How long a step does not run ahead whose run has large values, or failed in another way than by its code."""
MOST = 64
"""Commands that run ahead in one commit."""
KEPT = 1024


class AheadRuns:
    """What this process knows of code that can run ahead. Threads may share it."""

    def __init__(
        self,
        worker: Callable[[], WorkerDeps],
        room: Callable[[Command], AbstractContextManager[bool]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know of no code yet.

        ``room``: makes room for a command, unless something else waits or runs; whether it did.
        """
        self._worker, self._room, self._clock = worker, room, clock
        self._unseen: LruCache[tuple[int, str], bool] = LruCache(KEPT)
        """Outcomes of commands whose runs others cannot see."""
        self._unfit: LruCache[Place, float] = LruCache(KEPT)
        """Stages of steps → until when they do not run ahead."""
        self._short: LruCache[Place, bool] = LruCache(KEPT)
        """Stages of steps → whether their last run that was issued took little time."""

    def note_unseen(self, command: Command, done: CommandDone) -> None:
        """Note the outcome of an issued command whose run others cannot see.

        What follows from it may run before it is written.
        """
        self._unseen.put((done.execution_id, done.event_id), True)
        self._short.put(place_of(command), is_short(done))

    def of(self, batch: Sequence[Event]) -> Callable[[Command], CommandDone | None] | None:
        """Return a runner of the commands that follow from a batch.

        None: the batch has to be written first.
        """
        if len(batch) != 1:
            return None
        event = batch[0]
        if isinstance(event, CommandDone):
            if not self._unseen.pop((event.execution_id, event.event_id)):
                return None
        elif not isinstance(event, Start):
            return None
        return _Turn(self, self._clock() + SECONDS).run

    def run(self, command: Command) -> CommandDone | None:
        """Return the outcome of a command that is not issued; None: it has to be issued first."""
        place = place_of(command)
        short = self._short.get(place)
        if short is False or not self.is_over(self._unfit.get(place) or 0.0):
            return None
        with self._room(command) as may_run:
            if not may_run:
                return None
            gate, done = AheadGate(self._clock, bool(short)), None
            # An error is met again when the command is issued, and then it is reported. A kind may call sys.exit().
            with suppress(Exception, SystemExit):
                done = run_ahead(command, self._worker(), gate)
        if gate.seen:
            self._unfit.put(place, math.inf)
        elif gate.is_long:
            self._short.put(place, False)  # until a run that is issued takes less
        elif done is None and not gate.unready:
            self._unfit.put(place, self._clock() + UNFIT_SECONDS)
        return done

    def is_over(self, until: float) -> bool:
        """Return whether a time has come."""
        return self._clock() >= until


class _Turn:
    """The commands of one commit that run ahead."""

    def __init__(self, runs: AheadRuns, until: float) -> None:
        self._runs, self._until, self._left = runs, until, MOST

    def run(self, command: Command) -> CommandDone | None:
        self._left -= 1
        if self._left < 0 or self._runs.is_over(self._until):
            return None
        return self._runs.run(command)
