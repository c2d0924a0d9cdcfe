"""Ways through folders that tasks may write to (``--task-folder``).

A task makes no links there where it matters, but it can rename and exchange folders, and a link that lies in one of them from before leads
to another place then. So a name below such a folder says nothing about the place that it leads to a moment later.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from noetl.kinds.support.open_parts import is_inside

_MOST_LINKS = 40
"""On the way to one file, as the system has it."""
_first_seen: dict[str, str] = {}
"""Given folder → its real place when the settings were made."""


def way_to(path: str) -> Iterator[str]:
    """Yield the real place of each name on the way to ``path``, also behind links."""
    at, left, links = Path("/"), [*Path(path).absolute().parts[1:]], 0
    while left:
        name = left.pop(0)
        if name in ("..", "/"):
            at = at.parent if name == ".." else Path("/")
            continue
        entry = at / name
        yield str(entry)
        leads_to = _link(entry) if links < _MOST_LINKS else None
        if leads_to is None:
            at = entry
        else:
            links += 1
            left = [*leads_to.parts, *left]


def entries_of(path: str, folders: Collection[str]) -> Iterator[str]:
    """Yield the names on the way to ``path`` that lie in one of ``folders`` (real paths).

    Where these folders are given, tasks could change where the names lead.
    """
    for entry in way_to(path):
        if any(entry != folder and is_inside(entry, folder) for folder in folders):
            yield entry


def settled(path: str, given: Collection[str]) -> str | None:
    """Return the real place of ``path``, None where tasks could have led it astray.

    That is out of all folders that are ``given`` to them. A given folder in another one is no place where such a way may end: what lies in
    the other can be changed. One that leads to another place than when this process first saw it is none either: tasks of another process
    may have changed that.
    """
    real = os.path.realpath(path)
    if not given:
        return real
    places = {folder: os.path.realpath(folder) for folder in given}
    moved = {folder for folder, place in places.items() if _first_seen.setdefault(folder, place) != place}
    if path in moved:
        return None
    if any(entries_of(path, places.values())):
        ends = (
            place
            for folder, place in places.items()
            if folder not in moved and not any(entries_of(folder, places.values()))
        )
        return real if any(is_inside(real, place) for place in ends) else None
    return real


def in_given(path: str, given: Collection[str]) -> bool:
    """Return whether ``path`` is a given folder, or its way leads into one."""
    if not given:
        return False
    places = {os.path.realpath(folder) for folder in given}
    return os.path.realpath(path) in places or any(entries_of(path, places))


def is_folder(path: str) -> bool:
    """Return whether a folder is there; False, too, where this user may not look."""
    try:
        return stat.S_ISDIR(Path(path).stat().st_mode)
    except OSError:
        return False


def _link(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:
        return None
