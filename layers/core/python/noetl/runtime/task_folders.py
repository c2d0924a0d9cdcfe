"""The folders that whoever runs a process gives to code of playbooks (``--task-folder``, ``NOETL_TASK_FOLDERS``).

Code reads and writes all that is in them, so none of them may hold secrets, or be shared by what has nothing to do with the playbook.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from noetl.domain.errors import InvalidInputError

VARIABLE = "NOETL_TASK_FOLDERS"
GIVEN_BY = f"--task-folder, {VARIABLE}"
OF_THE_SYSTEM = ("/proc", "/sys", "/dev", "/run", "/etc", "/boot")
"""Secrets, sockets of servers, and what shows other processes."""
OF_EVERYBODY = ("/tmp", "/var/tmp", "/dev/shm")
_SOURCES = "/usr/src"
"""Below the programs, and none of them: many images of containers work there."""
_HOME = ".noetl"
_OF_THE_ENGINE = (f"noetl-{os.geteuid()}-", "noetl-task-", "noetl-tasks-", "noetl-probe-")
"""Of folders among temporary files: sockets of the database, and folders of tasks."""


def task_folders(env: Mapping[str, str]) -> tuple[str, ...]:
    """Read the folders of ``NOETL_TASK_FOLDERS``.

    A shell command begins in the first. Raises InvalidInputError(code="setting_invalid") for one that is not absolute.
    """
    found = tuple(part for part in env.get(VARIABLE, "").split(os.pathsep) if part)
    folders = tuple(str(Path(part).expanduser()) for part in found)
    for folder, part in zip(folders, found, strict=True):
        if not Path(folder).is_absolute():
            raise refused(part, "it is not absolute", hint="absolute folders, joined as in PATH")
    return folders


def refuse_secrets(folders: Iterable[str], closed: Iterable[str | Path | None]) -> None:
    """Refuse folders with what tasks must never see, or in it.

    ``closed``: folders and files of the engine. Raises InvalidInputError(code="setting_invalid").
    """
    own = _real(path for path in closed if path)
    for folder in folders:
        if reason := _reason(Path(folder).resolve(), own):
            raise refused(folder, reason)


def refused(folder: str, reason: str, hint: str = "") -> InvalidInputError:
    return InvalidInputError(
        f"{folder[:200]!r} cannot be given to tasks ({GIVEN_BY}): {reason}",
        code="setting_invalid",
        hint=hint or "give a folder that holds nothing but what the playbook works with",
    )


def _reason(folder: Path, own: Iterable[Path]) -> str:
    if folder == Path(folder.anchor):
        return "it is the root of this machine"
    for place in own:
        if _overlap(folder, place):
            return f"it is, holds or lies in {place}, where the engine keeps its data and secrets"
    for place in _real(OF_THE_SYSTEM):
        if _overlap(folder, place):
            return f"it is, holds or lies in {place}, which is the system's"
    for place in _shared():
        if place.is_relative_to(folder):
            return f"it is or holds {place}, where other things than the playbook's lie"
    if any(part.startswith(_OF_THE_ENGINE) for part in folder.parts):
        return "folders of that name are the engine's own"
    user = _user()
    if folder.is_relative_to(user) and any(part.startswith(".") for part in folder.relative_to(user).parts):
        return "programs keep settings and secrets in hidden folders of a user's own folder"
    if _HOME in folder.parts or os.path.lexists(folder / _HOME):
        return f"it lies in or holds a home folder ({_HOME})"
    return _reason_of_programs(folder)


def _reason_of_programs(folder: Path) -> str:
    from noetl.kinds.sandbox.places import program_places

    above = next((place for place in program_places() if folder.is_relative_to(place)), None)
    above = None if above == "/usr" and folder.is_relative_to(_SOURCES) else above
    return f"it is or lies in {above}, where programs that run tasks are" if above else ""


def _programs_in(folders: Iterable[str]) -> str:
    """Return a place of the programs that run tasks which lies in one of ``folders``; empty: there is none."""
    from noetl.kinds.sandbox.places import program_places

    real = _real(folders)
    if not real:
        return ""
    return next(
        (place for place in program_places() for folder in real if Path(place).is_relative_to(folder)), ""
    )


def refuse_open_programs(folders: Iterable[str]) -> None:
    """Refuse folders that hold programs which run tasks, on a machine that cannot keep tasks from changing them there.

    Namespaces cover such a place, read-only. Raises InvalidInputError(code="setting_invalid").
    """
    place = _programs_in(folders)
    if not place:
        return
    from noetl.kinds.sandbox.layers import layers

    used = layers()
    if used.landlock and not used.namespaces:
        raise refused(
            place,
            "programs that run tasks are there, and this machine has no namespaces that keep tasks from changing them",
            hint="give a folder without it, or install noetl elsewhere",
        )


def _shared() -> Iterator[Path]:
    yield _user()
    yield from _real((*OF_EVERYBODY, tempfile.gettempdir()))


def _user() -> Path:
    return Path("~").expanduser().resolve()


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _real(paths: Iterable[str | Path]) -> list[Path]:
    return [Path(path).expanduser().resolve() for path in paths]
