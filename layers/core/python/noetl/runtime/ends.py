"""How executions ended, as far as this process has seen it, and waiting for their ends.

A server runs for a long time: of the oldest only the store knows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from noetl.domain.errors import InfrastructureError
from noetl.domain.lost_owners import Takes
from noetl.domain.state import TERMINAL
from noetl.ports.execution_store import ExecutionStore
from noetl.runtime.outstanding import outstanding

LOOK_SECONDS = 0.5
"""Pause between looks at the store: another process may have moved an execution on."""
MOST = 100_000
"""Ends that a process remembers."""


class Ends(dict[int, str]):
    """Execution → status. Not for several threads at once."""

    def note(self, ended: Iterable[tuple[int, str]]) -> None:
        """Remember these, and forget the oldest."""
        self.update(ended)
        while len(self) > MOST:
            del self[next(iter(self))]


@dataclass(frozen=True, slots=True)
class EndWaiter:
    """``ended``: what this process knows to have ended; ``changed``: guards it. ``quiet``: whether this process has nothing to do.
    ``takes``: what it takes over from others."""

    store: ExecutionStore
    ended: Ends
    changed: threading.Condition
    quiet: Callable[[], bool]
    log: Callable[[str], None]
    takes: Takes = "everything"

    def wait(
        self,
        wanted: Collection[int],
        on_tick: Callable[[], None] | None,
        timeout: float | None,
        tick: float,
    ) -> None:
        """Return when all have ended, or when those left wait for the outside. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        look = time.monotonic() + LOOK_SECONDS
        while not self._settled(wanted):
            if on_tick is not None:
                self._show(on_tick)
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"not finished after {timeout:g} s")
            if time.monotonic() > look:
                if self._all_wait(wanted):
                    return
                look = time.monotonic() + LOOK_SECONDS
            with self.changed:
                if not self._settled(wanted):
                    self.changed.wait(tick if on_tick is not None else 0.25)

    def _settled(self, wanted: Collection[int]) -> bool:
        return all(one in self.ended for one in wanted)

    def _show(self, on_tick: Callable[[], None]) -> None:
        """Call what shows progress: it reads the database too, and misses a look while that is away."""
        try:
            on_tick()
        except InfrastructureError as away:
            self.log(f"nothing can be shown while the database is away: {away}")

    def _all_wait(self, wanted: Collection[int]) -> bool:
        """Tell whether what has not ended waits for the outside; not known, and so False, while the database is away."""
        try:
            self._look(wanted)
            return self.quiet() and not any(
                outstanding(self.store, one, self.takes) for one in wanted if one not in self.ended
            )
        except InfrastructureError as away:
            self.log(f"the database is away: {away}")
            return False

    def _look(self, wanted: Collection[int]) -> None:
        """Note the ends that other processes brought about."""
        for one in set(wanted) - self.ended.keys():
            info = self.store.info(one)
            if info is not None and info.status in TERMINAL:
                self.ended[one] = info.status
