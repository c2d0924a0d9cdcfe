"""Starts a confined process: its own session, an environment without the parent's, a folder of its own.

Before the first one starts, this process makes its own memory and environment unreadable for others of the
same user (Linux), because what it holds, credentials above all, is what confinement is about.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from noetl.kinds.sandbox.environment import scrubbed_environment
from noetl.kinds.sandbox.layers import GUEST_FOLDER, OTHER_USERS, layers
from noetl.kinds.sandbox.noetl_guest.confine import Confinement
from noetl.kinds.sandbox.noetl_guest.removal import remove_tree
from noetl.kinds.sandbox.noetl_guest.supervise import descendants
from noetl.kinds.sandbox.places import Places, readable, writable
from noetl.kinds.sandbox.template import BOOT, Mode, fork

PR_SET_DUMPABLE = 4
CHILDREN_BYTES = 4096
"""Read of a list of children: more of them than a task may leave."""
END_SECONDS = 10.0
"""What a supervisor gets to end all that a task started, before it is ended itself."""

Streams = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Of one task: address space, size of one file, size of its folder (all in bytes), processes and threads."""

    memory_bytes: int
    output_bytes: int
    disk_bytes: int = 4 * 1024**3
    processes: int = 512


class Process(Protocol):
    """What is known of a process that was started: that of ``subprocess``, or a fork of the template."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Confined:
    """A running process and the folder it works in."""

    def __init__(self, process: Process, folder: Path, lifeline: int) -> None:
        self.process = process
        self.folder = folder
        self._lifeline = lifeline

    def left_processes(self) -> bool:
        """Whether anything runs besides the supervisor and the guest; False where /proc is missing."""
        own = 2 if layers().namespaces else 1
        pid = self.process.pid
        # Its count includes what has ended and was not reaped, and is ten times faster than a look at all processes.
        return sys.platform == "linux" and _count_children(pid, own) > own and len(descendants(pid)) > own

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
        remove_tree(self.folder)


def _count_children(root: int, enough: int) -> int:
    """Count processes below ``root``, not much further than ``enough``. A kernel without such lists counts as having more."""
    found, left = 0, [root]
    while left and found <= enough:
        tasks = f"/proc/{left.pop()}/task"
        try:
            for task in os.listdir(tasks):  # noqa: PTH208  # it runs after each call, and paths take most of its time
                source = os.open(f"{tasks}/{task}/children", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    children = [int(number) for number in os.read(source, CHILDREN_BYTES).split()]
                finally:
                    os.close(source)
                found += len(children)
                left += children
        except OSError:
            return enough + 1
    return found


def task_folder() -> Path:
    """An empty folder for one process. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix="noetl-task-")).resolve()


def start_confined(
    mode: Mode,
    folder: Path,
    streams: Streams,
    *,
    own: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    order: Mapping[str, Any] | None = None,
) -> Confined:
    """Start the guest in ``mode``: a fork of the template on Linux, an interpreter elsewhere.

    ``streams``: descriptors that become its standard input, output and error; ``own``: more that it is given. The caller
    closes them. ``env`` is added to the scrubbed environment, ``order`` to what the guest is told. The process takes
    over ``folder``, which is removed when none can be started: OSError.
    """
    theirs, lifeline, told = -1, -1, -1
    try:
        protect_own_memory()
        theirs, lifeline = os.pipe()
        environment = {**scrubbed_environment(), "HOME": str(folder), "TMPDIR": str(folder), **(env or {})}
        told = _told({"folder": str(folder), "env": environment, **(order or {})})
        if sys.platform == "linux":
            process: Process = fork(mode, (theirs, told, *streams, *own))
        else:
            process = _start_interpreter(mode, (theirs, told, *own), streams, folder, environment)
    except BaseException:
        remove_tree(folder)
        if lifeline >= 0:
            os.close(lifeline)
        raise
    finally:
        for descriptor in (theirs, told):
            if descriptor >= 0:
                os.close(descriptor)
    return Confined(process, folder, lifeline)


def _told(order: dict[str, Any]) -> int:
    """A descriptor from which ``order`` is read; it lies in no folder."""
    if sys.platform == "linux":
        told = os.memfd_create("noetl-order")
    else:
        with tempfile.TemporaryFile() as file:
            told = os.dup(file.fileno())
    with open(told, "wb", closefd=False) as file:
        file.write(marshal.dumps(order))
    os.lseek(told, 0, os.SEEK_SET)
    return told


def _start_interpreter(
    mode: Mode, numbers: Sequence[int], streams: Streams, folder: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    stdin, stdout, stderr = streams
    boot = BOOT.format(mode=mode)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", boot, GUEST_FOLDER, *map(str, numbers)],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=numbers,
        close_fds=True,
        env=environment,
        cwd=folder,
        start_new_session=True,
        bufsize=0,
    )


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
        used.supervisor,
        used.key_filter,
    )


def count_threads(user: int) -> int:
    """Of all processes of ``user``, as its limit counts them."""
    total = 0
    wanted = str(user).encode()
    for place in Path("/proc").iterdir() if sys.platform == "linux" else ():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            status = (place / "status").read_bytes()
            if status.partition(b"\nUid:")[2].split(None, 1)[0] == wanted:
                total += int(status.partition(b"\nThreads:")[2].split(None, 1)[0])
    return total


def as_message(wanted: Confinement) -> dict[str, Any]:
    """As the guest reads it."""
    return dict(vars(wanted))


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
