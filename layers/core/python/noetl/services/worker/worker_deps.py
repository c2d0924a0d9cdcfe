"""The dependencies of running a command, gathered once per process by ``noetl.runtime``."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from noetl.domain.commands import Command
from noetl.domain.events import CommandDone
from noetl.domain.kinds import TaskSettings
from noetl.domain.results.references import INLINE_LIMIT
from noetl.domain.workers.container_jobs import Jobs, NoJobs
from noetl.dsl.program import Program
from noetl.ports.credentials import Credentials
from noetl.ports.kinds import Kinds
from noetl.ports.results import ResultStore
from noetl.ports.task_cache import TaskCache
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.stored_lists import StoredLists
from noetl.services.worker.issue_gate import Gate
from noetl.services.worker.task_log_writer import LineKeeper


def _silent(line: str) -> None:
    """Drop a log line: no log is kept."""


def _nowhere(program: Program) -> str | None:
    """Return None: programs have no folder where playbooks come from a catalog alone."""
    return None


@dataclass(frozen=True, slots=True)
class WorkerDeps:
    """Dependencies that all threads of a worker share.

    ``programs``: hash → Program (raises NotFoundError). ``deadline``: seconds this worker has left; a run that would take longer is
    handed back between two calls. ``longest``: seconds that one call can have in this worker at all; where it is finite, a call is only
    begun when its whole time-out is left. ``revoked(execution_id, run)``: whether its work is no longer wanted; asked between items and
    calls, so it has to be cheap; ``given_up`` looks it up now. ``folder_of``: where a program's own files are, which its tasks may read
    (local runs). ``clock``: monotonic seconds; ``now``: epoch seconds. ``chance``: numbers in [0, 1) for jitter. ``log``: one line per
    defect or of a task's own output.
    """

    programs: Callable[[str], Program]
    registry: Kinds
    results: ResultStore
    credentials: Credentials
    settings: TaskSettings = field(default_factory=TaskSettings)
    hydrate: Callable[[Mapping[str, Any]], Any] | None = None
    """Reads a result reference; made over ``results`` when not given."""
    lists: StoredLists | None = None
    """What loops go over, where that is stored; made over ``results`` when not given."""
    inline_bytes: int = INLINE_LIMIT
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    folder_of: Callable[[Program], str | None] = _nowhere
    deadline: Callable[[], float] = lambda: math.inf
    longest: float = math.inf
    revoked: Callable[[int, int], bool] = lambda execution_id, run: False
    given_up: Callable[[int, int], bool] | None = None
    """``revoked``, when not given."""
    withdrawn: Callable[[Command], bool] = lambda command: False
    """Whether this command is gone from the store, although its step run may continue; asked between calls and between items."""
    gate_of: Callable[[Command], Gate | None] = lambda command: None
    """What a command has to pass before its first call; None: it may begin."""
    note_unseen: Callable[[Command, CommandDone], None] | None = None
    """Notes the outcome of a command whose run others cannot see, before it is reported (``run_ahead``)."""
    jobs: Jobs = field(default_factory=NoJobs)
    callback_key: Callable[[Command], str] = lambda command: ""
    """What tokens of a command's callbacks are made with (domain/callbacks.py); empty: none can be made here."""
    callback_base: str = ""
    """The address that callbacks are answered at, as those outside reach it."""
    log: Callable[[str], None] = _silent
    cache: TaskCache | None = None
    """Where results of earlier calls are; None: every task is run."""
    lines: LineKeeper | None = None
    """Keeps what tasks print; None: it is only logged."""

    def __post_init__(self) -> None:
        if self.hydrate is None:
            object.__setattr__(self, "hydrate", make_hydrate(self.results))
        if self.lists is None:
            object.__setattr__(self, "lists", StoredLists(self.results))

    def is_over(self, command: Command) -> bool:
        """Return whether a command must stop, as far as that is cheap to know.

        Asked between its calls.
        """
        return self.revoked(command.execution_id, command.run) or self.withdrawn(command)

    def unwanted(self, command: Command) -> bool:
        """Look up whether a command's work is no longer wanted, where a lookup is worth its cost."""
        return self.withdrawn(command) or (self.given_up or self.revoked)(command.execution_id, command.run)

    def settings_of(self, program: Program) -> TaskSettings:
        """Return the limits and grants of a program's tasks: they may read its own folder."""
        folder = self.folder_of(program)
        return (
            replace(self.settings, data_dirs=(folder, *self.settings.data_dirs)) if folder else self.settings
        )
