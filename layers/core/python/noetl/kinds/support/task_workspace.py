"""A private folder of one task: no other task can name it, and it ends with the task."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext

SUFFIX = "-spill"
"""Beside the work folder and not in it: what lies in the work folder may be read by every task."""
YOUNG_SECONDS = 60.0
OLD_SECONDS = 24 * 3600.0
"""A copy of a result that no task reads any more."""
_LOCK = ".owner"
_swept: set[Path] = set()
_swept_lock = threading.Lock()


@contextmanager
def private_folder(context: TaskContext) -> Iterator[Path]:
    """Make an empty folder, and remove it at the end with all its content.

    What a killed process left is removed by the next one.

    Raises TaskError(kind="storage_access", code="no_folder").
    """
    try:
        folder, owned = _made(context.settings.work_dir)
    except OSError as error:
        raise TaskError(
            f"there is no folder for temporary files: {error.strerror or error}",
            kind="storage_access",
            code="no_folder",
        ) from error
    try:
        yield folder
    finally:
        os.close(owned)
        shutil.rmtree(folder, ignore_errors=True)


def copies_folder(work: str | None) -> str | None:
    """Return the folder for copies of results that a task reads as files.

    It is where private folders are; None: the system's folder. Raises OSError.
    """
    return None if work is None else str(_place(work))


def _place(work: str) -> Path:
    place = Path(work).resolve()
    place = place.with_name(place.name + SUFFIX)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep_once(place)
    return place


def _made(work: str | None) -> tuple[Path, int]:
    """Make a folder; return it with the handle that says that it is in use."""
    if work is None:
        folder = Path(tempfile.mkdtemp(prefix="noetl-"))
    else:
        folder = Path(tempfile.mkdtemp(prefix="task-", dir=_place(work)))
    return folder, _own(folder)


def _own(folder: Path) -> int:
    """Take a lock that ends with this process, however it ends."""
    handle = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def _sweep_once(place: Path) -> None:
    with _swept_lock:
        if place in _swept:
            return
        _swept.add(place)
    for found in place.iterdir():
        with contextlib.suppress(OSError):
            age = time.time() - found.stat().st_mtime
            if found.is_file() and age > OLD_SECONDS:
                found.unlink()
            elif found.is_dir() and age > YOUNG_SECONDS and not _is_owned(found):
                shutil.rmtree(found, ignore_errors=True)


def _is_owned(folder: Path) -> bool:
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
