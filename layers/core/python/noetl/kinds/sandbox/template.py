"""The worker's side of the template, a process that forks a child for each task (Linux).

The template has loaded the guest.

An interpreter takes 15 to 40 ms to start; a fork of one takes less than a millisecond. Where the machine has namespaces, the
template also makes the root that all tasks have in common, so there is a template for each such root.
"""

from __future__ import annotations

import atexit
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from noetl.kinds.sandbox.environment import scrubbed_environment
from noetl.kinds.sandbox.in_flight import retry_sending, send_descriptors
from noetl.kinds.sandbox.layers import GUEST_FOLDER
from noetl.kinds.sandbox.noetl_guest import cell as guest_cell
from noetl.kinds.sandbox.noetl_guest.namespaces import temporary_above
from noetl.kinds.sandbox.noetl_guest.removal import remove_tree
from noetl.kinds.sandbox.order import as_file
from noetl.kinds.sandbox.places import Place
from noetl.system_calls.processors import count_processors

BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from noetl_guest.{mode} import main; main()"
Mode = Literal["cell", "serve", "launch"]
NUMBER = 4
"""Bytes of a number that the template reports (see ``noetl_guest.template``)."""


MOST_IDLE_CELLS = 8 * count_processors()
IDLE_SECONDS = guest_cell.IDLE_SECONDS / 2
"""A cell that has waited longer is not used any more: it may be about to end by itself."""


FORK_SECONDS = 0.005
"""About how long a cell needs for the process of its next task."""


class TemplateGoneError(Exception):
    """The template ended before it forked. Another one can be started."""


class Forked:
    """A child of the template, as ``subprocess.Popen`` shows one of this process."""

    def __init__(self, status: int) -> None:
        """Wait for the child's number.

        Raises TemplateGoneError, and OSError when the system allows no process.
        """
        self._status = status
        self.returncode: int | None = None
        try:
            self.pid = self._number()
            if self.pid == 0:
                number = self._number()
                raise OSError(number, os.strerror(number))
        except BaseException:
            os.close(status)
            raise
        os.set_blocking(status, False)

    def fileno(self) -> int:
        """Return the descriptor that can be read when the process has ended."""
        return self._status

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the child runs.

        That of a child whose template has died is not known: -9.
        """
        if self.returncode is None:
            with suppress(BlockingIOError):
                number = os.read(self._status, NUMBER)
                status = int.from_bytes(number, "little") if len(number) == NUMBER else 9
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            poller = select.poll()
            poller.register(self._status, select.POLLIN)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            poller.poll(None if left is None else max(1, int(left * 1000)))
        return code

    def forget(self) -> None:
        """Let it go without a wait for its end."""
        if self.returncode is None:
            self.returncode = -int(signal.SIGKILL)
            os.close(self._status)

    def _number(self) -> int:
        number = os.read(self._status, NUMBER)
        if len(number) < NUMBER:
            raise TemplateGoneError
        return int.from_bytes(number, "little")


class Ground(msgspec.Struct, frozen=True):
    """The content of the tasks' common root: places of the worker's settings, none of a task."""

    read: tuple[Place, ...]
    write: tuple[Place, ...]


class Kept(Protocol):
    """A cell, while no task uses it (see ``noetl.kinds.sandbox.cell``)."""

    @property
    def kind(self) -> Hashable: ...
    def leave(self) -> None: ...


class Template:
    """One template process, and the folder in which its children have theirs.

    It ends when this process closes its socket or dies, and no child is left.
    """

    def __init__(self, ground: Ground | None) -> None:
        """Start it; children can be asked for at once. Raises OSError."""
        self._sending = threading.Lock()
        """Held while the socket is used: the number of one that is closed may be another file's at once."""
        self._closed = False
        self._idle: list[tuple[float, Kept]] = []
        """Cells and since when they wait; the longest first."""
        self.folder = Path(tempfile.mkdtemp(prefix="noetl-tasks-")).resolve()
        # Each task's own folder is closed to others; one that becomes another user has to come that far.
        self.folder.chmod(0o711)
        self._at_start: tuple[Any, ...] = identities_at(ground)
        self._socket, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = as_file(
            {"folder": str(self.folder), "ground": None if ground is None else self._message(ground)}
        )
        numbers = (child_end.fileno(), order)
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", "-c", BOOT.format(mode="template"), GUEST_FOLDER),
                    *map(str, numbers),
                ],
                stdin=subprocess.DEVNULL,
                # Children inherit its streams and turn them to their own pipes: to files that cannot be sought.
                stdout=child_end.fileno(),
                stderr=child_end.fileno(),
                pass_fds=numbers,
                # Functions of libraries are looked up once, not by every child.
                env={**scrubbed_environment(), "LD_BIND_NOW": "1"},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            remove_tree(self.folder)
            raise
        finally:
            child_end.close()
            os.close(order)

    def _message(self, ground: Ground) -> dict[str, Any]:
        folder = str(self.folder)
        return {
            "folder": folder,
            "read": ground.read,
            "write": ground.write,
            "temporary": temporary_above(folder),
        }

    def fits(self, ground: Ground | None) -> bool:
        """Report whether its root still holds what is at those places now.

        They may have been replaced, and others mounted.
        """
        return self._at_start == identities_at(ground)

    def new_folder(self) -> Path:
        """Make an empty folder for one child.

        Raises OSError, FileNotFoundError too when the template has died.
        """
        made = self.folder / secrets.token_hex(8)
        made.mkdir(0o700)
        return made

    def fork(self, mode: Mode, descriptors: Sequence[int]) -> Forked:
        """Ask for a child with these descriptors. Raises TemplateGoneError and OSError."""
        status, child_end = os.pipe()
        try:
            retry_sending(partial(self._send, mode, (child_end, *descriptors)))
        except (BrokenPipeError, ConnectionError):
            os.close(status)
            raise TemplateGoneError from None
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(child_end)
        return Forked(status)

    def _send(self, mode: Mode, descriptors: Sequence[int]) -> None:
        with self._sending:
            if self._closed:
                raise BrokenPipeError
            send_descriptors(self._socket, mode, descriptors)

    def take(self, kind: Hashable) -> Any:
        """Take the cell of that kind which was used last; None when there is none.

        One that has just been used is still busy with the process for its next task, and is taken only where there is no other.
        """
        with self._sending:
            now = time.monotonic()
            leaving = [cell for since, cell in self._idle if since <= now - IDLE_SECONDS]
            self._idle = self._idle[len(leaving) :]
            fitting = [place for place, (_, cell) in enumerate(self._idle) if cell.kind == kind]
            rested = [place for place in fitting if self._idle[place][0] <= now - FORK_SECONDS]
            found = self._idle.pop(rested[-1] if rested else fitting[0])[1] if fitting else None
        for cell in leaving:
            cell.leave()
        return found

    def keep(self, cell: Kept) -> bool:
        """Keep a cell for the next task. False: it is not wanted any more."""
        with self._sending:
            if self._closed:
                return False
            self._idle.append((time.monotonic(), cell))
            leaving = self._idle.pop(0)[1] if len(self._idle) > MOST_IDLE_CELLS else None
        if leaving is not None:
            leaving.leave()
        return True

    def close(self) -> None:
        """Let it go: it ends with its last child."""
        with self._sending:
            self._closed = True
            self._socket.close()
            leaving, self._idle = self._idle, []
        for _, cell in leaving:
            cell.leave()

    def ended(self) -> bool:
        """Report whether nothing of it is left; reap it, if it has ended.

        A template that died leaves the folder, which may have those of its children.
        """
        if self._process.poll() is None:
            return False
        with suppress(OSError):
            self.folder.rmdir()
        return not self.folder.exists()

    def forget(self) -> None:
        """Close the template without waiting for it: this process ends now, and it sees that."""
        self.close()
        if not self.ended():
            self._process.returncode = 0


def identities_at(ground: Ground | None) -> tuple[Any, ...]:
    """Return the identities of what is at these places now."""
    if ground is None:
        return ()
    found: list[Any] = [_mount_changes().count()]
    for source, _, kind in (*ground.read, *ground.write):
        if kind != "link":
            try:
                about = os.stat(source)  # noqa: PTH116  # dozens for each task
                found.append((about.st_dev, about.st_ino))
            except OSError:
                found.append(None)
    return tuple(found)


class _MountChanges:
    """A counter of the changes of this machine's mounts, as far as it was asked."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/mounts", os.O_RDONLY | os.O_CLOEXEC)
        self._poller = select.poll()
        self._poller.register(self._file, select.POLLPRI)
        self._seen = 0
        self._lock = threading.Lock()

    def count(self) -> int:
        with self._lock:
            if self._poller.poll(0):
                self._seen += 1
            return self._seen


@cache
def _mount_changes() -> _MountChanges:
    return _MountChanges()


MOST_TEMPLATES = 4
"""One for each root that tasks of this process have in common; the one that was used longest ago is closed first."""


class Templates:
    """The templates of this process, the one that was used last at the end.

    Safe to use from many threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process_id = os.getpid()
        self._current: dict[Ground | None, Template] = {}
        self._leaving: list[Template] = []
        atexit.register(self._forget)

    def one_for(self, ground: Ground | None, instead_of: Template | None) -> Template:
        """Return a template that is not ``instead_of``, which has died. Raises OSError."""
        with self._lock:
            self._tidy()
            found = self._current.pop(ground, None)
            if found is not None and (found is instead_of or not found.fits(ground)):
                self._leave(found)
                found = None
            if found is None:
                while len(self._current) >= MOST_TEMPLATES:
                    self._leave(self._current.pop(next(iter(self._current))))
                found = Template(ground)
            self._current[ground] = found
            return found

    def _tidy(self) -> None:
        self._leaving = [template for template in self._leaving if not template.ended()]

    def _leave(self, template: Template) -> None:
        template.close()
        self._leaving.append(template)

    def _forget(self) -> None:
        if self._process_id == os.getpid():
            for template in (*self._current.values(), *self._leaving):
                template.forget()


_lock = threading.Lock()
_shared: Templates | None = None


def templates() -> Templates:
    """Return the templates of this process."""
    global _shared
    with _lock:
        if _shared is None or _shared._process_id != os.getpid():
            _shared = Templates()
        return _shared
