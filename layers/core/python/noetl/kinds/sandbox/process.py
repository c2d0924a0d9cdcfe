"""Starts a confined process: its own session, an environment without the parent's, a folder of its own.

Before the first one starts, this process makes its own memory and environment unreadable for others of the
same user (Linux), because what it holds, credentials above all, is what confinement is about.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from noetl.kinds.sandbox.layers import GUEST_FOLDER, OTHER_USERS, layers
from noetl.kinds.sandbox.noetl_guest.confine import Confinement
from noetl.kinds.sandbox.places import Places, readable, writable

BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from noetl_guest.{mode} import main; main()"
PR_SET_DUMPABLE = 4
END_SECONDS = 10.0
"""What a supervisor gets to end all that a task started, before it is ended itself."""
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
LOADER_VARIABLES = ("LD_LIBRARY_PATH",)
"""Kept from the parent: some interpreters, Lambda's among them, do not start without."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Of one task: address space, size of one file, size of its folder (all in bytes), processes and threads."""

    memory_bytes: int
    output_bytes: int
    disk_bytes: int = 4 * 1024**3
    processes: int = 512


class Confined:
    """A running process and the folder it works in."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, lifeline: int) -> None:
        self.process = process
        self.folder = folder
        self._lifeline = lifeline

    def kill(self) -> None:
        """End the process and everything it started, reap it, and remove its folder.

        On Linux its supervisor does that as soon as the lifeline is closed; it has some seconds.
        """
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if sys.platform == "linux":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        _remove(self.folder)


def task_folder() -> Path:
    """An empty folder for one process. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix="noetl-task-")).resolve()


def start_confined(
    mode: Literal["serve", "launch"],
    argument: str,
    folder: Path,
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
) -> Confined:
    """Start the guest in ``mode``. Standard streams are descriptors or the constants of ``subprocess``.

    ``env`` is added to the scrubbed environment. The process takes over ``folder``, which is removed when none can be
    started: OSError.
    """
    theirs, lifeline = -1, -1
    try:
        protect_own_memory()
        theirs, lifeline = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", BOOT.format(mode=mode), GUEST_FOLDER, str(theirs), argument],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(*pass_fds, theirs),
            close_fds=True,
            env=_environment(folder) | dict(env or {}),
            cwd=folder,
            start_new_session=True,
            bufsize=0,
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if lifeline >= 0:
            os.close(lifeline)
        raise
    finally:
        if theirs >= 0:
            os.close(theirs)
    return Confined(process, folder, lifeline)


def confinement(folder: Path, limits: TaskLimits, places: Places, own: Sequence[str] = ()) -> Confinement:
    """What a task with these limits is left with on this machine. ``own``: paths it may read that others may not.

    Raises InfrastructureError when the layers of this machine cannot be found out, OSError when ``folder`` cannot be handed over.
    """
    used = layers()
    user = 0
    if used.other_user:
        user = secrets.choice(OTHER_USERS)
        os.chown(folder, user, user)
    confined = used.landlock or used.namespaces
    return Confinement(
        str(folder),
        limits.memory_bytes,
        limits.output_bytes,
        limits.processes,
        readable(places, own) if confined else (),
        writable(places) if confined else (),
        used.landlock,
        used.namespaces,
        used.socket_filter,
        0 if used.namespaces or user else count_threads(os.geteuid()),
        user,
    )


def count_threads(user: int) -> int:
    """Of all processes of ``user``, as its limit counts them."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError, ValueError, KeyError):
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines())
            if int(facts["Uid"].split()[0]) == user:
                total += int(facts["Threads"])
    return total


def as_message(wanted: Confinement) -> dict[str, Any]:
    """As the guest reads it."""
    return wanted._asdict()


@cache
def protect_own_memory() -> None:
    """Make this process non-dumpable: its memory and environment are closed to others of the same user.

    Raises OSError when Linux refuses. Other systems have no such switch and need none: without /proc,
    reading another process takes a privilege that a confined process has not got.
    """
    if sys.platform != "linux":
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot protect this process: {os.strerror(number)}")


def describe_end(returncode: int) -> tuple[str, str]:
    """Code and words for a process that ended by itself: (``process_exited``, "exit code 3")."""
    if returncode >= 0:
        return "process_exited", f"exit code {returncode}"
    number = -returncode
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    reason = {"SIGKILL": ", perhaps for want of memory", "SIGXCPU": ", its processor time was used up"}
    return "process_crashed", f"killed by {name}{reason.get(name, '')}"


def _remove(folder: Path) -> None:
    """Also what a task closed to itself. It has ended, so nothing is exchanged on the way."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
            for place, names, _ in os.walk(folder):
                for path in (Path(place, name) for name in names):
                    if not path.is_symlink():
                        path.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in LOADER_VARIABLES if name in os.environ}
    return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(folder), **kept}
