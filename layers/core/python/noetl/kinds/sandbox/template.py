"""The worker's side of the template: a process that has loaded the guest and forks a child for each task (Linux).

An interpreter takes 15 to 40 ms to start; a fork of one takes less than a millisecond.
"""

from __future__ import annotations

import array
import atexit
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from noetl.kinds.sandbox.environment import scrubbed_environment
from noetl.kinds.sandbox.layers import GUEST_FOLDER

BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from noetl_guest.{mode} import main; main()"
Mode = Literal["serve", "launch"]
NUMBER = 4
"""Bytes of a number that the template reports (see ``noetl_guest.template``)."""


class TemplateGoneError(Exception):
    """The template ended before it forked. Another one can be started."""


class Forked:
    """A child of the template, as ``subprocess.Popen`` shows one of this process."""

    def __init__(self, status: int) -> None:
        """Wait for its number. Raises TemplateGoneError, and OSError when the system allows no process."""
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
        """The descriptor that can be read when the process has ended."""
        return self._status

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs. That of a child whose template has died is not known: -9."""
        if self.returncode is None:
            with suppress(BlockingIOError):
                told = os.read(self._status, NUMBER)
                status = int.from_bytes(told, "little") if len(told) == NUMBER else 9
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

    def _number(self) -> int:
        told = os.read(self._status, NUMBER)
        if len(told) < NUMBER:
            raise TemplateGoneError
        return int.from_bytes(told, "little")


class Template:
    """One process. It ends when this one closes its socket, or dies."""

    def __init__(self) -> None:
        """Start it; children can be asked for at once. Raises OSError."""
        self._sending = threading.Lock()
        """Held while the socket is used: the number of one that is closed may be another file's at once."""
        self._closed = False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", "-c", BOOT.format(mode="template"), GUEST_FOLDER),
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                # Children inherit its streams and turn them to their own pipes: to files that cannot be sought.
                stdout=theirs.fileno(),
                stderr=theirs.fileno(),
                pass_fds=(theirs.fileno(),),
                env=scrubbed_environment(),
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()

    def fork(self, mode: Mode, descriptors: Sequence[int]) -> Forked:
        """Ask for a child with these descriptors. Raises TemplateGoneError and OSError."""
        status, theirs = os.pipe()
        try:
            rights = array.array("i", (theirs, *descriptors))
            with self._sending:
                if self._closed:
                    raise BrokenPipeError
                self._socket.sendmsg([mode[:1].encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        except (BrokenPipeError, ConnectionError):
            os.close(status)
            raise TemplateGoneError from None
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(theirs)
        return Forked(status)

    def close(self) -> None:
        """Let it go; its children end with their lifelines."""
        with self._sending:
            self._closed = True
            self._socket.close()
        self._process.wait()


_lock = threading.Lock()
_current: tuple[int, Template] | None = None


def fork(mode: Mode, descriptors: Sequence[int]) -> Forked:
    """Fork the template of this process, which is started before its first child, and again when it has died. Raises OSError."""
    gone: Template | None = None
    for _ in range(2):
        template = _template(instead_of=gone)
        try:
            return template.fork(mode, descriptors)
        except TemplateGoneError:
            gone = template
    raise OSError("the process that forks tasks has ended twice")


def start_early() -> None:
    """Start the template of this process if there is none, so that it loads while the caller goes on. One that cannot start, ``fork`` tells."""
    if sys.platform == "linux":
        with suppress(OSError):
            _template(instead_of=None)


def _template(instead_of: Template | None) -> Template:
    global _current
    with _lock:
        if _current is None or _current[0] != os.getpid() or _current[1] is instead_of:
            if _current is None:
                atexit.register(_close)
            elif _current[1] is instead_of and _current[0] == os.getpid():
                _current[1].close()
            _current = os.getpid(), Template()
        return _current[1]


def _close() -> None:
    if _current is not None and _current[0] == os.getpid():
        _current[1].close()
