"""The lock files of a machine's processes: which ones live, and what each of them runs.

Each process holds a lock on a file of its own, which the kernel releases when the process ends.

A lease says the same for processes on any machine, but only after it has expired. A lock says it at once, so that the
executions of a killed process can be resumed without waiting; processes of other machines (or of another home folder)
are left to their leases.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from noetl.domain import codec
from noetl.domain.commands import Command

Turn = tuple[int, str, int]
"""Execution, command, turn."""


class Record(msgspec.Struct, frozen=True):
    """The content of a process's file.

    ``running``: turns of commands that its threads have begun and not ended.
    """

    owner: str
    running: tuple[Turn, ...] = ()


_RECORD = codec.decoder(Record)


def turn_of(command: Command) -> Turn:
    """Return the key of a command's turn."""
    return command.execution_id, command.command_id, command.turn


class ProcessLock:
    """The lock file of this process, and those of the others.

    ``folder``: shared by the processes that use one home folder. ``owner``: the name under which this process holds
    leases.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        self.folder = folder
        self.owner = owner
        self._path = folder / hashlib.sha256(owner.encode()).hexdigest()[:24]
        self._handle = -1
        self._dead: dict[str, int] = {}
        self._running: dict[Turn, int] = {}
        self._lock, self._looking = threading.Lock(), threading.Lock()

    def announce(self) -> None:
        """Make this process visible as alive until ``leave``, or until it ends in any way."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        self._write()

    @contextmanager
    def running(self, command: Command) -> Iterator[None]:
        """Record that this process runs ``command``.

        If the process dies meanwhile, the next one knows of what.
        """
        turn = turn_of(command)
        with self._lock:
            self._running[turn] = self._running.get(turn, 0) + 1
            self._write()
        try:
            yield
        finally:
            with self._lock:
                self._running[turn] -= 1
                if not self._running[turn]:
                    del self._running[turn]
                self._write()

    def leave(self) -> None:
        """Remove the file of this process: it ends properly."""
        with self._lock:
            if self._handle >= 0:
                self._path.unlink(missing_ok=True)
                os.close(self._handle)
                self._handle = -1

    @contextmanager
    def dead(self) -> Iterator[list[Record]]:
        """Yield the records of processes that ended without ``leave``.

        They are forgotten when the block ends; one process, and one thread of it, at a time sees them.
        """
        with self._looking:
            yield from self._found_dead()

    def _found_dead(self) -> Iterator[list[Record]]:
        handles: list[tuple[int, Path]] = []
        found: list[Record] = []
        try:
            for path in self._others():
                if (handle := _unheld(path)) is not None:
                    handles.append((handle, path))
            for handle, _ in handles:
                if record := _read(handle):
                    found.append(record)
                    self._dead[record.owner] = handle
            yield found
            for handle, path in handles:
                if _read(handle):
                    path.unlink(missing_ok=True)
        finally:
            self._dead.clear()
            for handle, _ in handles:
                os.close(handle)

    def counted(self, record: Record) -> None:
        """Note that the commands of a ``dead`` process are counted.

        They are not reported again, even if the block fails.
        """
        with suppress(OSError):
            os.pwrite(self._dead[record.owner], codec.encode(Record(record.owner)) + b"\n", 0)

    def _others(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if path != self._path]
        except FileNotFoundError:
            return []

    def _write(self) -> None:
        """Write the record in one call, so that no kill leaves half of it.

        A full disk costs the record, not the command.
        """
        if self._handle >= 0:
            with suppress(OSError):
                data = codec.encode(Record(self.owner, tuple(self._running))) + b"\n"
                os.pwrite(self._handle, data, 0)


def _unheld(path: Path) -> int | None:
    """Lock the file of an ended process, and return its handle; None when it lives."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink:
            return handle
    except BlockingIOError:
        pass
    os.close(handle)
    return None


def _read(handle: int) -> Record | None:
    """Read the record of a process; None when it has not written it yet.

    Files of earlier versions hold the owner's name alone.
    """
    text = os.pread(handle, 1 << 20, 0)
    line, end, _ = text.partition(b"\n")
    if end:
        with suppress(ValueError):
            return codec.decode_as(_RECORD, line)
    name = line.decode("utf-8", "replace")
    return Record(name) if name else None
