"""The local scheduler: a thread that fires due schedules and looks at folders of triggers.

Several processes may run one over the same database.
"""

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
"""How often the scheduler looks at the table: schedules fire at most this late."""
AGAIN_SECONDS = 2.0
"""Pause while the database is unreachable."""


class Scheduler:
    """The scheduler's thread.

    ``home``: the folder in which it keeps what it has seen in watched folders. ``give``: is called with each firing,
    and handles its event. ``hidden``: what triggers show no names of.
    """

    def __init__(
        self,
        stores: Stores,
        owner: str,
        home: Path,
        give: Callable[[Fired], None],
        log: Callable[[str], None],
        hidden: Iterable[str] = (),
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
        self.files = FileWatcher(stores.triggers.store, self.deps, home / "watched", log, hidden)
        self.give = give
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
                pause = AGAIN_SECONDS

    def _look(self, look: Callable[[], Iterable[Fired]]) -> float:
        """Pass what ``look`` finds to ``give``; return the seconds until the next look.

        Raises InfrastructureError when the database is unreachable.
        """
        try:
            for fired in look():
                self.give(fired)
        except InfrastructureError:
            raise
        except BaseException as error:
            # The scheduler outlives its own defects: what is due stays due, and the other schedules and triggers are served.
            self.log(f"the scheduler stumbled: {as_exception(error)!r}")
            return AGAIN_SECONDS
        return LOOK_SECONDS
