"""Which processes of this machine live: each holds a lock on a file of its own, and the kernel lets go of it when the process ends.

A lease says the same for processes anywhere, but only after its time. This says it at once, so that what was killed can be resumed
without waiting; processes of other machines (or of another home folder) are left to their leases.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path


class Presence:
    """``folder``: shared by the processes that use one home folder. ``owner``: the name this process holds leases under."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.folder = folder
        self.owner = owner
        self._path = folder / hashlib.sha256(owner.encode()).hexdigest()[:24]
        self._handle = -1

    def announce(self) -> None:
        """Be seen as alive until ``leave``, or until this process ends in whatever way."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        os.write(self._handle, self.owner.encode())

    def leave(self) -> None:
        """End properly: nothing is left to be found."""
        if self._handle >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1

    def dead(self) -> list[str]:
        """Owners whose process has ended without leaving; each is told once."""
        try:
            paths = [path for path in self.folder.iterdir() if path != self._path]
        except FileNotFoundError:
            return []
        return [owner for path in paths if (owner := _dead_owner(path))]


def _dead_owner(path: Path) -> str | None:
    """The name in a file that nobody holds; None when its process lives, or has not written its name yet."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = os.read(handle, 1024).decode("utf-8", "replace")
        if owner:
            path.unlink(missing_ok=True)
        return owner or None
    except BlockingIOError:
        return None
    finally:
        os.close(handle)
