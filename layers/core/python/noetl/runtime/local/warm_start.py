"""The preparation of the first code task, while the database starts, which takes as long."""

from __future__ import annotations

import threading
from contextlib import suppress

from noetl.domain.errors import NoetlError
from noetl.dsl.program import Program
from noetl.runtime.local.pools_of_process import CODE
from noetl.runtime.settings import Settings


def prepare_first_task(program: Program, settings: Settings) -> None:
    """Start the template of tasks in a thread, if ``program`` runs code.

    This process ends after that thread.
    """
    if any(step.body is not None and step.body.pool == CODE for step in program.steps):
        threading.Thread(target=_start_template, args=(settings,), name="noetl-first-task").start()


def _start_template(settings: Settings) -> None:
    """Start the template; leave a failure to the first task, which reports it."""
    from noetl.kinds.sandbox.places import Places
    from noetl.kinds.sandbox.process import start_template

    with suppress(OSError, NoetlError):
        start_template(Places((), settings.task_folders, settings.hidden_dirs))
