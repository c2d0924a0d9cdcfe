"""The local scheduler: one thread that fires what the ``schedule`` table says is due, and looks at the folders that triggers watch. Several
processes may do so over one database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from noetl.domain.errors import InfrastructureError, as_exception
from noetl.runtime.bootstrap import Stores
from noetl.runtime.id_source import random_bits
from noetl.runtime.local.file_watcher import FileWatcher
from noetl.services.automations.fire_schedule import Fired, fire_due
from noetl.services.executions.start_playbook import StartDeps
from noetl.services.support.store_time import store_clock

LOOK_SECONDS = 1.0
"""How often the table is looked at: schedules fire at most this late."""
AGAIN_SECONDS = 2.0
"""Pause while the database is away."""


class Scheduler:
    """``home``: what was seen in folders is kept there. ``give``: told of each firing; it handles the event. ``doubt``: an answer of
    the store was lost."""

    def __init__(
        self,
        stores: Stores,
        owner: str,
        home: Path,
        give: Callable[[Fired], None],
        doubt: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        self.schedules = stores.schedules
        self.deps = StartDeps(
            store=stores.store,
            catalog=stores.catalog,
            programs=stores.programs,
            owner=owner,
            clock=store_clock(stores.store.load),
            random_bits=random_bits,
        )
        self.files = FileWatcher(stores.triggers.store, self.deps, home / "watched", log)
        self.give = give
        self.doubt = doubt
        self.log = log
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="noetl-scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        pause = 0.0
        while not self._closed.wait(pause):
            pause = LOOK_SECONDS
            try:
                for look in (lambda: fire_due(self.schedules, self.deps), self.files.look):
                    pause = max(pause, self._look(look))
            except InfrastructureError as error:
                self.log(f"schedules and triggers wait for the database: {error}")
                self.doubt()
                pause = AGAIN_SECONDS

    def _look(self, look: Callable[[], Iterable[Fired]]) -> float:
        """Give on what ``look`` finds; the seconds until the next look. Raises InfrastructureError when the database is away."""
        try:
            for fired in look():
                self.give(fired)
        except InfrastructureError:
            raise
        except BaseException as error:
            # It outlives its own defects: what is due stays due, and the others are looked after.
            self.log(f"the scheduler stumbled: {as_exception(error)!r}")
            return AGAIN_SECONDS
        return LOOK_SECONDS
