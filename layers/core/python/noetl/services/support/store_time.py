"""The store's clock, which all processes follow because their own clocks may differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from noetl.ports.executions.execution_store import Loaded, LoadRequest

DRIFT_SECONDS = 1.0
"""Most by which the wall clock and the monotonic one may have parted: more, and the machine slept, or its clock was set."""
EVERY_SECONDS = 60.0
"""How long the store's word is gone on from before it is asked again."""


class StoreTime:
    """The store's time, continued from its last answer.

    ``clock``: monotonic seconds. ``wall``: seconds that also count while the machine sleeps.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._measured: tuple[float, float, float] | None = None

    def observe(self, now: float) -> None:
        """Take the store's word: it is ``now`` (epoch seconds)."""
        self._measured = (now, self._clock(), self._wall())

    def now(self, most_age: float = float("inf")) -> float | None:
        """Return the store's time; None when the store has to be asked.

        That is so before the first answer, after ``most_age`` seconds, and when the machine has slept since.
        """
        if self._measured is None:
            return None
        store_time, clock, wall = self._measured
        passed = self._clock() - clock
        if abs(self._wall() - wall - passed) > DRIFT_SECONDS or passed > most_age:
            return None
        return store_time + passed


def store_clock(load: Callable[[Sequence[LoadRequest]], Loaded]) -> Callable[[], float]:
    """Return a clock (epoch seconds) that asks the store once a minute.

    ``load``: of the store. The clock raises InfrastructureError when it has to ask and the store is unreachable.
    """
    clock = StoreTime()

    def now() -> float:
        found = clock.now(EVERY_SECONDS)
        if found is None:
            clock.observe(found := load([]).now)
        return found

    return now
