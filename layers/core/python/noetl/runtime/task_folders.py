"""Folders that are open to code of playbooks: ``NOETL_TASK_FOLDERS``.

Who runs a process names them, there or with ``--task-folder``.

Code reads and writes all that is in them, so none of them may hold secrets, or be shared by what has nothing to do with the playbook.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from noetl.domain.errors import InvalidInputError
from noetl.kinds.support.given_folders import entries_of, in_given, is_folder, settled
from noetl.kinds.support.open_parts import own_folder

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
    return tuple(absolute(part) for part in env.get(VARIABLE, "").split(os.pathsep) if part)


def absolute(folder: str, start: str = "") -> str:
    """Return the absolute name of a folder, where the system finds it.

    What ``..`` means depends on links. ``start``: where relative names begin; empty: they are refused.
    Raises InvalidInputError(code="setting_invalid").
    """
    try:
        path = Path(start, Path(folder).expanduser())
    except RuntimeError:
        raise refused(folder, "no such home folder is known", hint="write the whole name of it") from None
    if not folder:
        raise refused(folder, "it is empty", hint="is a variable set?")
    if not _is_text(folder):
        raise refused(folder, "its name is no UTF-8", hint="rename it")
    if not path.is_absolute():
        raise refused(folder, "it is not absolute", hint="absolute folders, joined as in PATH")
    return os.path.realpath(path) if ".." in path.parts else f"/{str(path).lstrip('/')}"


def _is_text(name: str) -> bool:
    try:
        os.fsencode(name).decode("utf-8")
    except UnicodeError:
        return False
    return True


def refuse_secrets(folders: Collection[str], closed: Iterable[str | Path | None]) -> None:
    """Refuse folders with what tasks must never see, or in it, and what is no folder.

    ``closed``: folders and files of the engine. Raises InvalidInputError(code="setting_invalid").
    """
    own = _real(path for path in closed if path)
    for folder in folders:
        if reason := _reason(Path(os.path.realpath(folder)), own):
            raise refused(folder, reason)
        if os.path.lexists(folder) and not is_folder(folder):
            raise refused(folder, "it is no folder")
    for folder in folders:
        if settled(folder, folders) is None:
            raise refused(
                folder,
                "a link leads out to it from another folder that is given, and tasks could change where it leads",
                hint="name it where it really is",
            )


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
    if (
        user
        and folder.is_relative_to(user)
        and any(part.startswith(".") for part in folder.relative_to(user).parts)
    ):
        return "programs keep settings and secrets in hidden folders of a user's own folder"
    if _HOME in folder.parts or os.path.lexists(folder / _HOME):
        return f"it lies in or holds a home folder ({_HOME})"
    return _reason_of_programs(folder)


def _reason_of_programs(folder: Path) -> str:
    from noetl.kinds.sandbox.places import program_places  # most commands run no task

    above = next((place for place, _ in program_places() if folder.is_relative_to(place)), None)
    above = None if above == "/usr" and folder.is_relative_to(_SOURCES) else above
    return f"it is or lies in {above}, where programs that run tasks are" if above else ""


def guard_programs(folders: Collection[str]) -> None:
    """Refuse folders as ``refuse_open_programs``; look for no program in the others.

    Raises InvalidInputError(code="setting_invalid").
    """
    if folders:
        from noetl.runtime.looked_up import leave_search_path

        refuse_open_programs(folders)
        leave_search_path(folders)


def refuse_open_programs(folders: Iterable[str]) -> None:
    """Refuse folders that hold programs which run tasks, where tasks could change them.

    Namespaces cover such a place, read-only, when it lies directly in the folder: a folder above it could be renamed, and a link replaced.
    Raises InvalidInputError(code="setting_invalid").
    """
    for folder in folders:
        from noetl.runtime.looked_up import read_by_variables  # most commands give none

        if variable := read_by_variables(folder):
            raise refused(
                folder,
                f"${variable} names a file in it, which the worker trusts, and tasks could change that",
                hint=f"unset {variable}, or keep what it names in another folder",
            )
        held = list(_programs_in(folder))
        if not held:
            continue
        from noetl.kinds.sandbox.layers import layers

        used = layers()
        if not used.confines_files or used.other_user:
            continue
        open_ones = [place for place, covered in held if not (covered and used.namespaces)]
        if open_ones:
            raise refused(
                folder,
                f"programs that run tasks are in {open_ones[0]}, where nothing here keeps tasks from changing them",
                hint="name a folder without it, or install noetl in another place",
            )


def _programs_in(folder: str) -> Iterator[tuple[str, bool]]:
    """Yield each place of programs that a way through ``folder`` leads to.

    True: it lies directly in it, and no link there leads to it.
    """
    from noetl.kinds.sandbox.places import program_places
    from noetl.runtime.looked_up import module_places

    real = os.path.realpath(folder)
    for source, target in program_places():
        within = [Path(entry) for entry in entries_of(target, [real])]
        if within:
            direct = str(Path(source).parent) == real and Path(source).exists()
            yield target, direct and not any(entry.is_symlink() for entry in within)
    yield from ((place, False) for place in module_places() if in_given(place, [real]))


def _shared() -> Iterator[Path]:
    yield from filter(None, [_user()])
    yield from _real((*OF_EVERYBODY, tempfile.gettempdir()))


def _user() -> Path | None:
    own = own_folder()
    return Path(own) if own else None


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _real(paths: Iterable[str | Path]) -> list[Path]:
    return [Path(os.path.realpath(Path(path).expanduser())) for path in paths]
