"""Removal of a folder that a task has filled, in any depth and with any names.

It may be deeper than any path and any recursion, closed to itself, with names in any bytes.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

_LOOK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: str | os.PathLike[str]) -> None:
    """Remove ``folder`` and all that is in it; what cannot be removed stays.

    Its task has ended, so nothing is exchanged on the way.

    Folders within folders are moved up before they are emptied: no path gets long, one is looked at after the other, and no more than two
    are open.
    """
    with suppress(OSError):
        os.chmod(folder, 0o700)
        top = os.open(folder, _LOOK)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(folder)


def _empty(top: int) -> None:
    waiting = _clear(top, None, top)
    while waiting:
        name = waiting.pop()
        with suppress(OSError):
            os.chmod(name, 0o700, dir_fd=top)
            within = os.open(name, _LOOK, dir_fd=top)
            try:
                waiting += _clear(within, os.urandom(8).hex(), top)
            finally:
                os.close(within)
            os.rmdir(name, dir_fd=top)


def _clear(within: int, prefix: str | None, top: int) -> list[str]:
    """Remove the files of one folder and move its folders to ``top``; return their names.

    The names begin with ``prefix``.
    """
    moved = []
    for number, name in enumerate(os.listdir(within)):
        with suppress(OSError):
            if not stat.S_ISDIR(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=within)
                continue
            if prefix is not None:
                os.chmod(name, 0o700, dir_fd=within)  # a folder that is closed to its owner cannot be moved
                os.rename(name, f"{prefix}-{number}", src_dir_fd=within, dst_dir_fd=top)
            moved.append(name if prefix is None else f"{prefix}-{number}")
    return moved
