"""Start of a confined process, with its own session, folder and clean environment.

The environment has nothing of the parent's.

Before the first one starts, this process makes its own memory and environment unreadable for others of the
same user (Linux), because what it holds, credentials above all, is what confinement is about.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.kinds.sandbox.cell import MOST_USES, Cell, CellGoneError, Tenant
from noetl.kinds.sandbox.environment import scrubbed_environment
from noetl.kinds.sandbox.in_flight import raise_limit
from noetl.kinds.sandbox.layers import GUEST_FOLDER, OTHER_USERS, Layers, layers
from noetl.kinds.sandbox.lone import LoneProcessCheck
from noetl.kinds.sandbox.memory import MemoryUse, processes_below
from noetl.kinds.sandbox.noetl_guest.confine import Confinement
from noetl.kinds.sandbox.noetl_guest.removal import remove_tree
from noetl.kinds.sandbox.noetl_guest.supervise import descendants
from noetl.kinds.sandbox.order import as_bytes, as_file
from noetl.kinds.sandbox.places import Places, import_path, readable, writable
from noetl.kinds.sandbox.template import (
    BOOT,
    Ground,
    Mode,
    Template,
    TemplateGoneError,
    identities_at,
    templates,
)

PR_SET_DUMPABLE = 4
END_SECONDS = 10.0
"""What a supervisor gets to end all that a task started, before it is ended itself."""

Streams = tuple[int, int, int]


class TaskLimits(msgspec.Struct, frozen=True):
    """Limits of one task.

    They are memory (address space of each process, and what all have together), size of one file, size of its folder (all in bytes),
    processes and threads.
    """

    memory_bytes: int
    output_bytes: int
    disk_bytes: int = 4 * 1024**3
    processes: int = 512


class Process(Protocol):
    """A process that was started: one of ``subprocess``, or a fork of the template."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Confined:
    """A running process and the folder it works in."""

    def __init__(self, process: Process, folder: Path, lifeline: int, own: int) -> None:
        """Hold a started process and its folder.

        ``own``: how many processes below ``process`` are there for the task, before it starts any.
        """
        self.process = process
        self.folder = folder
        self._lifeline = lifeline
        self._own = own
        self._lone = LoneProcessCheck(process.pid)
        self._killed = False

    def let_go(self) -> None:
        """Let its supervisor end the process and everything it started (Linux)."""
        if isinstance(self.process, Tenant):
            self.process.let_go()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def left_processes(self) -> bool:
        """Report whether anything runs besides the supervisor and the guest.

        False where /proc is missing.
        """
        own, pid = self._own, self.process.pid
        if own == 1 and self._lone.is_alone():
            return False
        # The first list includes what has ended and was not reaped, and takes a tenth of the time of a look at all processes.
        return (
            sys.platform == "linux" and len(processes_below(pid, own)) > own and len(descendants(pid)) > own
        )

    def memory_use(self, limit: int) -> MemoryUse:
        """Return what looks at the memory of all its processes; ``limit``: bytes."""
        return MemoryUse(self.process.pid, self._own, limit)

    def kill(self) -> None:
        """End the process and everything it started, reap it, and remove its folder.

        A cell keeps the folder for its next task.

        On Linux its supervisor does that as soon as the lifeline is closed; it has some seconds.
        """
        if self._killed:
            return
        self._killed = True
        self._lone.close()
        self.let_go()
        if isinstance(self.process, Tenant):
            self.process.leave()
            return
        if sys.platform == "linux":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        remove_tree(self.folder)


class Task(msgspec.Struct, frozen=True):
    """What a process is started for. ``own``: paths that it may read and others may not."""

    limits: TaskLimits
    places: Places
    own: Sequence[str] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    order: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The guest's order beside its confinement."""


def start_confined(mode: Mode, task: Task, streams: Streams, own: Sequence[int] = ()) -> Confined:
    """Start the guest in ``mode``, in an empty folder.

    The guest is a fork of the template on Linux, and a new interpreter on other systems.

    ``streams``: descriptors that become its standard input, output and error; ``own``: more that it receives. The caller
    closes them. Raises OSError when no process can be started, InfrastructureError when the layers of this machine
    cannot be found out.
    """
    protect_own_memory()
    if sys.platform != "linux":
        folder = Path(tempfile.mkdtemp(prefix="noetl-task-")).resolve()
        return _start(task, folder, streams, own, partial(_start_interpreter, mode))
    raise_limit()
    used = layers()
    ground = _ground(used, task)
    gone: Template | None = None
    for _ in range(2):
        template = templates().one_for(ground, instead_of=gone)
        try:
            if ground is not None:
                return _start_in_cell(template, ground, mode, task, (*streams, *own))
            folder = template.new_folder()
            return _start(task, folder, streams, own, partial(_fork, template, mode))
        except (TemplateGoneError, FileNotFoundError):
            gone = template
    raise OSError("the process that forks tasks has ended twice")


def start_template(places: Places) -> None:
    """Start the template of tasks with these places, before the first task needs it (Linux).

    Raises OSError when no process can be started, InfrastructureError when the layers of this machine cannot be found out.
    """
    if sys.platform == "linux":
        protect_own_memory()
        templates().one_for(_common_ground(layers(), places), instead_of=None)


Starter = Callable[[tuple[int, ...], Streams, Path, Mapping[str, str]], Process]


def _start_in_cell(
    template: Template, ground: Ground, mode: Mode, task: Task, descriptors: Sequence[int]
) -> Confined:
    if mode == "serve":
        requests, output, _, answers = descriptors  # what else it is told, its cell knows
        return _put_in_cell(template, ground, mode, task, (requests, output, answers))
    order_file = as_file({"env": dict(task.env), **task.order})
    try:
        return _put_in_cell(template, ground, mode, task, (order_file, *descriptors))
    finally:
        os.close(order_file)


def _put_in_cell(
    template: Template, ground: Ground, mode: Mode, task: Task, descriptors: Sequence[int]
) -> Confined:
    kind = CellKind(task.limits, tuple(import_path(task.places)), layers())
    while True:
        cell = template.take(kind) or _new_cell(template, ground, task, kind)
        try:
            return Confined(cell.start(mode, descriptors), cell.folder, -1, 1)
        except CellGoneError:
            cell.kill()
        except BaseException:
            cell.kill()
            raise


class CellKind(msgspec.Struct, frozen=True):
    """What tasks must have in common to be in the same cell, one after the other.

    The cell's first process has all of it before their code is known.
    """

    limits: TaskLimits
    libraries: tuple[str, ...]
    layers: Layers


def serving(limits: TaskLimits, places: Places) -> dict[str, Any]:
    """Return the part of a Python task's order that is not its confinement."""
    return {"answer_size": limits.output_bytes, "path": import_path(places)}


def _new_cell(template: Template, ground: Ground, task: Task, kind: CellKind) -> Cell:
    """Make a cell. Its folder is the tasks' own.

    Where keys of the kernel are open, a task could leave one in the session that its successor has.
    """
    folder = template.new_folder()
    try:
        order = {
            "folder": str(folder),
            "env": {**scrubbed_environment(), "HOME": str(folder), "TMPDIR": str(folder)},
            "confinement": vars(confinement(folder, task, ground)),
            "serving": serving(task.limits, task.places),
            "uses": MOST_USES if kind.layers.key_filter else 1,
        }
        return Cell(template, kind, order, folder)
    except BaseException:
        remove_tree(folder)
        raise


def _start(task: Task, folder: Path, streams: Streams, own: Sequence[int], start: Starter) -> Confined:
    child_end, lifeline, order_file, order_writer = -1, -1, -1, -1
    try:
        wanted = confinement(folder, task)
        child_end, lifeline = os.pipe()
        environment = {**scrubbed_environment(), "HOME": str(folder), "TMPDIR": str(folder), **task.env}
        order = {
            "folder": str(folder),
            "env": environment,
            "confinement": vars(wanted),
            **task.order,
        }
        if sys.platform == "linux":
            order_file, order_writer = os.pipe()
        else:
            order_file = as_file(order)
        process = start((child_end, order_file, *own), streams, folder, environment)
        if order_writer >= 0:
            os.close(order_file)
            order_file = -1
            _send_order(order_writer, order)
    except BaseException:
        remove_tree(folder)
        if lifeline >= 0:
            os.close(lifeline)
        raise
    finally:
        for descriptor in (child_end, order_file, order_writer):
            if descriptor >= 0:
                os.close(descriptor)
    # The guest; where it has a root of its own, the first process of its namespaces as well.
    return Confined(process, folder, lifeline, 2 if wanted.namespaces else 1)


def _send_order(order_writer: int, order: Mapping[str, Any]) -> None:
    """Write the order to a child whose number is known.

    A template may die between its fork and the number of the child, and then a second child is asked for: the first one reads the end of
    the pipe instead of an order, and ends before it runs anything.
    """
    with (
        contextlib.suppress(BrokenPipeError),
        open(order_writer, "wb", closefd=False) as pipe,
    ):  # it has died: its end is told of
        pipe.write(as_bytes(order))


def _fork(
    template: Template,
    mode: Mode,
    numbers: tuple[int, ...],
    streams: Streams,
    folder: Path,
    environment: Mapping[str, str],
) -> Process:
    child_end, order_file, *own = numbers
    return template.fork(mode, (child_end, order_file, *streams, *own))


def _start_interpreter(
    mode: Mode, numbers: tuple[int, ...], streams: Streams, folder: Path, environment: Mapping[str, str]
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


def _ground(used: Layers, task: Task) -> Ground | None:
    """Return the root that a task shares with others; None when it needs its own.

    It needs its own when it may read more than they may.
    """
    common = _common_ground(used, task.places)
    if common is not None and task.own and set(readable(task.places, task.own)) != set(common.read):
        return None
    return common


def _common_ground(used: Layers, places: Places) -> Ground | None:
    """Return the root of all tasks with these places; None without a common root."""
    return Ground(readable(places), writable(places)) if used.common_root else None


def found_at(places: Places) -> tuple[Any, ...]:
    """Return what is at these places now.

    A process that began with something else there does not see it.
    """
    used = layers()
    if not (used.namespaces or used.landlock):
        return ()
    return identities_at(Ground(readable(places), writable(places)))


def confinement(folder: Path, task: Task, ground: Ground | None = None) -> Confinement:
    """Return the rights that a task keeps on this machine.

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
        task.limits.memory_bytes,
        task.limits.output_bytes,
        task.limits.processes,
        readable(task.places, task.own) if confined and ground is None else (),
        writable(task.places) if confined else (),
        used.landlock,
        used.namespaces,
        used.socket_filter,
        0 if used.namespaces or user else count_threads(os.geteuid()),
        user,
        used.supervisor,
        used.key_filter,
    )


def count_threads(user: int) -> int:
    """Count the threads of all processes of ``user``, as its limit counts them."""
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


@cache
def protect_own_memory() -> None:
    """Make this process non-dumpable: others of the same user cannot read its memory.

    Its environment is closed to them, too.

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
