"""What a task may read of a folder that contains something hidden.

A playbook in the user's own folder, or in a folder of temporary files, lies beside keys and beside the engine's home. The rule is the
same for code of playbooks and for kinds that read files in this process:

* nothing in a hidden folder;
* of the user's folder and of folders of temporary files the plain files that lie directly in them, without those that begin with a dot.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

MOST_CHILDREN = 2000
"""Of a folder that is given child by child; what is beyond is not given."""


def open_parts(folder: str, hidden: Iterable[str]) -> Iterator[str]:
    """Yield ``folder``, or the files and folders in it that a task may read."""
    return _parts(folder, _real(hidden), _shared())


def is_open(path: str, folder: str, hidden: Iterable[str]) -> bool:
    """Return whether a task that may read ``folder`` may read ``path`` in it.

    Both are real paths. A folder that lies in a hidden one itself, such as the engine's own for files of tasks, is open.
    """
    if any(is_inside(place, folder) and is_inside(path, place) for place in _real(hidden)):
        return False
    return not any(
        is_inside(place, folder) and is_inside(path, place) and not _is_plain(path, place)
        for place in _shared()
    )


def is_open_folder(folder: str, hidden: Iterable[str]) -> bool:
    """Return whether the names in a folder may be shown to playbooks.

    ``folder`` is a real path. Closed are hidden folders, and what lies below the user's own folder in one that begins with a dot.
    """
    if any(is_inside(folder, place) for place in _real(hidden)):
        return False
    own = own_folder()
    return own is None or not (is_inside(folder, own) and "/." in folder[len(own.rstrip("/")) :])


def own_folder() -> str | None:
    """Return the user's own folder, None where the system knows none."""
    try:
        return os.path.realpath(Path("~").expanduser())
    except RuntimeError:
        return None


def is_inside(path: str, folder: str) -> bool:
    """Return whether ``path`` is ``folder`` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_plain(path: str, shared: str) -> bool:
    above, name = os.path.split(path)
    return above == shared and not name.startswith(".") and not Path(path).is_dir()


def _real(hidden: Iterable[str]) -> list[str]:
    return [os.path.realpath(path) for path in hidden]


def _shared() -> set[str]:
    own = own_folder()
    return {os.path.realpath(path) for path in (tempfile.gettempdir(), "/tmp", *((own,) if own else ()))}


def _parts(path: str, hidden: list[str], shared: set[str]) -> Iterator[str]:
    if path == "/" or any(is_inside(path, place) for place in hidden):
        return
    if not any(is_inside(place, path) for place in (*hidden, *shared)):
        yield path
        return
    try:
        with os.scandir(path) as entries:
            children = sorted(islice(entries, MOST_CHILDREN), key=lambda entry: entry.name)
    except OSError:
        return
    for child in children:
        if child.is_symlink():
            continue  # it may lead to what is hidden
        if path not in shared:
            yield from _parts(child.path, hidden, shared)
        elif child.is_file() and not child.name.startswith("."):
            yield child.path
