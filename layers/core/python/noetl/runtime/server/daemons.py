"""The registry of a home folder's daemons: servers and workers, by kind and name.

Each process holds a lock on a file of its own, in which it describes itself; the kernel releases the lock when the
process ends in any way. So a process number in a file whose lock is held belongs to that process, and never to another
that got the same number later.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from noetl.adapters.embedded.measured import room_shortage
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
READY_SECONDS = 60.0
"""How long a process may take to begin: the first start of a home folder makes a database."""
POLL_SECONDS = 0.05
SHOWN_LINES = 12
_MOST_BYTES = 64 * 1024


class Process(msgspec.Struct, frozen=True):
    """A running daemon.

    ``about``: its description of itself (an address, a pool), as soon as it is ``ready``. ``log``: its file, empty for
    one in a terminal. ``started_at``: epoch seconds.
    """

    kind: str
    name: str
    pid: int
    started_at: float
    log: str = ""
    ready: bool = False
    about: dict[str, Any] = {}


_DECODER = codec.decoder(Process)


class Processes:
    """The daemons of a home folder. ``folder``: holds one file per process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_home(cls, home: Path) -> Processes:
        return cls(home / "processes")

    @contextmanager
    def hold(self, kind: str, name: str, log: str = "") -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Register this process as running, until the block ends.

        Yields the function by which it reports that it is ready, and its description. ``name`` empty: the first free
        one of ``kind``, ``kind-2``, … Raises InvalidInputError(code="already_running", "invalid_name").
        """
        handle, path = self._free(kind) if not name else self._take(kind, name)
        process = Process(kind, path.stem.partition(".")[2] or kind, os.getpid(), time.time(), log)
        _write(handle, process)

        def ready(about: Mapping[str, Any]) -> None:
            _write(handle, msgspec.structs.replace(process, ready=True, about=dict(about)))

        try:
            yield ready
        finally:
            path.unlink(missing_ok=True)
            os.close(handle)

    def running(self, kind: str) -> list[Process]:
        """List the processes that live, by name; remove the files of others."""
        try:
            paths = sorted(self.folder.glob(f"{kind}.*.json"), key=lambda path: path.stem)
        except OSError:
            return []
        return [found for path in paths if (found := _living(path))]

    def server_address(self) -> str:
        """Return where a server listens, as this machine reaches it; empty when none runs."""
        found = next(
            (str(one.about["address"]) for one in self.running("server") if one.about.get("address")), ""
        )
        return found.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")

    def find(self, kind: str, name: str) -> Process | None:
        return next((one for one in self.running(kind) if one.name == name), None)

    def start(
        self, kind: str, name: str, command: Sequence[str], log: Path, environ: Mapping[str, str]
    ) -> Process:
        """Run ``command``, which calls ``hold``, in its own session; return when it is ready.

        Raises InfrastructureError(code="start_failed") with the end of its log when it ends before, or is not ready in
        time.
        """
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        log.touch(0o600)
        with log.open("ab") as file:
            began = file.tell()
            made = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                env=dict(environ),
            )
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            found = self.find(kind, name)
            if found is not None and found.pid == made.pid and found.ready:
                return found
            if made.poll() is not None:
                raise _failed(f"{kind} {name} ended with code {made.returncode}", log, began)
            time.sleep(POLL_SECONDS)
        made.kill()
        made.wait()
        raise _failed(f"{kind} {name} was not ready within {READY_SECONDS:.0f} s", log, began)

    def stop(self, one: Process, seconds: float) -> bool:
        """Ask a process to end, and wait.

        Return False when it did not within ``seconds`` and was killed; other processes run again what it ran.
        """
        path = self._path(one.kind, one.name)
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 10.0)):
            if not _signal(one, path, number):
                return number == signal.SIGTERM
            until = time.monotonic() + patience
            while time.monotonic() < until:
                if _pid(path) != one.pid:
                    return number == signal.SIGTERM
                time.sleep(POLL_SECONDS)
        return False

    def _path(self, kind: str, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise InvalidInputError(
                f"{name[:80]!r} cannot name a process",
                code="invalid_name",
                hint="letters, digits, dots, dashes and underscores; at most 64",
            )
        return self.folder / f"{kind}.{name}.json"

    def _free(self, kind: str) -> tuple[int, Path]:
        for number in range(1, 1000):
            path = self._path(kind, kind if number == 1 else f"{kind}-{number}")
            handle = _locked(path)
            if handle is not None:
                return handle, path
        raise InvalidInputError(f"there are too many of {kind}", code="already_running")

    def _take(self, kind: str, name: str) -> tuple[int, Path]:
        path = self._path(kind, name)
        handle = _locked(path)
        if handle is None:
            there = _living(path)
            raise InvalidInputError(
                f"{kind} {name} runs already{f' (process {there.pid})' if there else ''}",
                code="already_running",
                hint=f"`noetl {kind} stop {name}` ends it; --name takes another name",
            )
        return handle, path


def _locked(path: Path) -> int | None:
    """Open a file, locked and empty; None when another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(handle, path):
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        os.close(handle)  # The process that held the file removed it meanwhile.


def _same(handle: int, path: Path) -> bool:
    try:
        there, here = path.stat(), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _write(handle: int, process: Process) -> None:
    data = codec.encode(process)
    os.ftruncate(handle, 0)
    os.pwrite(handle, data, 0)


def _living(path: Path) -> Process | None:
    """Read a file whose lock is held; remove one that no process holds."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(ValueError):
            return codec.decode_as(_DECODER, os.pread(handle, _MOST_BYTES, 0))
        return None
    else:
        if _same(handle, path):
            path.unlink(missing_ok=True)
        return None
    finally:
        os.close(handle)


def _pid(path: Path) -> int | None:
    found = _living(path)
    return None if found is None else found.pid


def _signal(one: Process, path: Path, number: signal.Signals) -> bool:
    """Send a signal to a process; False when it has ended.

    The handle is of the process that has this number now; whether that one holds its file is checked after that.
    """
    try:
        if not hasattr(os, "pidfd_open"):
            if _pid(path) == one.pid:
                os.kill(one.pid, number)
                return True
            return False
        handle = os.pidfd_open(one.pid)
    except ProcessLookupError:
        return False
    try:
        if _pid(path) != one.pid:
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def _failed(what: str, log: Path, began: int) -> InfrastructureError:
    """Make the error of a failed start, with the end of its log."""
    with log.open("rb") as file:
        file.seek(began)
        lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
    output = "".join(f"\n  {line}" for line in lines[-SHOWN_LINES:])
    lacking = None if lines else room_shortage(log.parent)
    if lacking is not None:
        return InfrastructureError(
            f"{what}, and its log stays empty: {lacking.reason}",
            code="start_failed",
            hint=lacking.remedy,
            retryable=False,
        )
    return InfrastructureError(
        f"{what}; it said:{output}" if output else what,
        code="start_failed",
        hint=f"all of it is in {log}",
        retryable=False,
    )
