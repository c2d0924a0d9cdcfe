"""``--task-folder``: folders of this machine that are open to tasks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from noetl.cli.client import runtime_access
from noetl.cli.options import CommandTarget
from noetl.domain.errors import InvalidInputError


def give_folders(folders: Sequence[str], at: CommandTarget) -> None:
    """Add folders to the setting of this process, before those that it has.

    Relative ones begin where the command runs. Raises InvalidInputError for one that cannot be given, and where a server runs the tasks.
    """
    from noetl.kinds.support.given_folders import is_folder
    from noetl.runtime.task_folders import VARIABLE, absolute, refused

    if not folders:
        return
    if at.remote:
        raise InvalidInputError(
            "--task-folder is for tasks that run on this machine",
            code="invalid_options",
            hint=f"set {VARIABLE} where the server or its worker is started",
        )
    given = []
    for folder in folders:
        path = absolute(folder, str(Path.cwd()))
        if not is_folder(path):
            raise refused(folder, "there is no such folder", hint="name a folder that is there")
        if os.pathsep in path:
            raise refused(folder, f"its name has a {os.pathsep!r}", hint="name a folder without it")
        given.append(path)
    had = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*given, *had]))
    runtime_access.settings(at.home)


def words_of(folders: Sequence[str]) -> str:
    """Return the options that a command line needs in order to give the same folders."""
    return "".join(f" --task-folder {shlex.quote(folder)}" for folder in folders)
