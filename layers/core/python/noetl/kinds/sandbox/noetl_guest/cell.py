"""A cell: namespaces that serve one task after the other, and their first process.

The first process forks each task's process.

Its mounts, its user and process namespace, its Landlock rules and its filter of system calls are made once. Each task has a
process, an IPC namespace and a Landlock domain of its own. The first process runs no code of playbooks, learns nothing of any
task but how it ended, and cannot be read. When a task has ended it kills and reaps every process that is left. Then it checks that
everything that a task can change is as it was (``_LastingState``). If anything differs, it says so and ends, and the kernel takes
the cell down with it: nothing is cleaned up. Linux only.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes classes of enum, which a task has no use for
import _socket
import ctypes
import fcntl
import gc
import os
import resource
import select
import stat
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from . import landlock, launch, serve
from .confine import Confinement, confine_cell, limit
from .kernel import PR_SET_DUMPABLE, prctl, prepare, prepare_to_give_up_capabilities, syscall
from .namespaces import SCRATCH, Ground, renew_ipc
from .order import read_order, receive
from .supervise import keep_only

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from typing import Any, NoReturn

CELL, SERVE, LAUNCH, END = b"c", b"s", b"l", b"e"
"""What a worker asks for: a cell, of its template; a task of Python, a program, and the end of that, of a cell."""
ORDER, STREAMS = 0, slice(1, 4)
"""What the descriptors of a message for a program are for. One for a task of Python has those of requests, output and answers."""
ENDED, FAILED = b"=", b"!"
"""Begin what a cell reports: four bytes of a status (as ``os.wait`` has it) and whether it serves on, or words."""
MESSAGE_BYTES = 500
IDLE_SECONDS = 60.0
COARSE_CLOCK = 5
"""``CLOCK_REALTIME_COARSE``: no later time is given to a file that changes before the next tick of it."""
MOST_TICKS = 50
ATIME_AHEAD = 1_000_000_000
PRIORITY_CALLS = {"x86_64": (315, 252), "aarch64": (275, 31)}
"""``sched_getattr``, ``ioprio_get``."""
PRIORITY_BYTES = 56
GET_LOCK = 36
"""``F_OFD_GETLK``."""
WRITE_LOCK = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""``struct flock`` of a whole file; the answer begins with the kind of a lock that is in its way."""
UNLOCKED = struct.pack("h", fcntl.F_UNLCK)
LIMITS = 16
"""Of a process, numbered from 0 (``RLIM_NLIMITS``)."""


def live(order: Any, control: int, ground: Ground) -> NoReturn:
    """Serve tasks as the first process of new namespaces.

    It ends when the worker goes, or when the cell is not as it was.
    """
    try:
        _Cell(order, control, ground).serve()
    except BaseException as error:
        with suppress(OSError):
            os.write(control, FAILED + str(error).encode()[:MESSAGE_BYTES])
    os._exit(1)


_ANY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class _Cell:
    def __init__(self, order: Any, control: int, ground: Ground) -> None:
        """Make everything that tasks do not have each for itself. Raises OSError."""
        # A task may send any signal to the first process: those without a handler are not delivered to it.
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        self._awake, wake = os.pipe()
        for descriptor in (self._awake, wake):
            os.set_blocking(descriptor, False)
        _signal.signal(_signal.SIGCHLD, lambda number, frame: None)
        _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._control = _socket.socket(fileno=control)
        self._folder: str = order["folder"]
        wanted = Confinement(**order["confinement"])
        # The kernel keeps the maps of a user namespace closed otherwise; ``confine_cell`` takes it away again.
        prctl(PR_SET_DUMPABLE, 1)
        ground.enter_task(self._folder, wanted.processes)
        os.chdir(self._folder)
        self._ruleset = confine_cell(wanted)
        self._confining = [
            ("to give up capabilities", prepare_to_give_up_capabilities()),
            ("to be read by the worker", prepare("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)),
        ]
        if self._ruleset >= 0:
            self._confining.insert(0, ("rules of Landlock", landlock.prepare_to_enter(self._ruleset)))
        self._memory: int = order["confinement"]["memory"]
        self._serving = order["serving"]
        serve.prepare_output()
        self._uses: int = order["uses"]
        self._lasting_state: _LastingState | None = None
        if self._uses > 1:
            with suppress(OSError):  # on a system that does not show all of this a cell serves one task
                self._lasting_state = _LastingState(self._folder)
        self._task = 0
        """The number of the task's process; 0: there is none."""
        self._ahead: _Ahead | None = None
        """The process for the next task of Python. There is one only while there is no task: none could reach it."""
        self._serves = False
        """The task is one of Python, or the last one was."""
        self._status: int | None = None
        self._poller = select.poll()
        self._poller.register(control, select.POLLIN)
        self._poller.register(self._awake, select.POLLIN)
        gc.disable()

    def serve(self) -> NoReturn:
        """Until the worker goes or the cell is spent; an idle one ends after some time."""
        while True:
            events = self._poller.poll(None if self._task else IDLE_SECONDS * 1000)
            if not events:
                os._exit(0)
            for descriptor, _ in events:
                if descriptor == self._awake:
                    os.read(self._awake, 4096)
                    self._reap(os.WNOHANG)
                else:
                    self._obey(*receive(self._control))
            if self._task and self._status is not None:
                self._end(requested=False)

    def _obey(self, mode: bytes, descriptors: list[int]) -> None:
        if mode in (SERVE, LAUNCH) and not self._task:
            self._start(mode, descriptors)
        elif mode == END:
            if self._task:
                self._end(requested=True)
        else:
            os._exit(0)

    def _start(self, mode: bytes, descriptors: list[int]) -> None:
        self._status = None
        ahead, self._ahead = self._ahead, None
        if ahead is not None and mode == SERVE and ahead.begin(descriptors):
            self._task = ahead.number
        else:
            if ahead is not None:
                ahead.close()
                self._empty()
            self._task = self._fork(lambda: self._live_as_task(mode, descriptors))
        self._serves = mode == SERVE
        for descriptor in descriptors:
            os.close(descriptor)

    def _fork_ahead(self) -> None:
        """Fork the process of the next task, which confines itself and waits for its descriptors.

        It is done after a task of Python, whose successor is probably another one. Only a task that waits for its process notices the
        time that this takes.
        """
        here, there = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        number = self._fork(lambda: self._wait_for_task(there))
        there.close()
        self._ahead = _Ahead(number, here)

    def _fork(self, act: Callable[[], None]) -> int:
        """Fork a process with an IPC namespace of its own; return its number."""
        renew_ipc()
        number = os.fork()
        if not number:
            be_child(act)
        return number

    def _empty(self) -> None:
        """End every process but this one, and reap them all."""
        # At once for all: a process that is forked meanwhile has the signal, too.
        with suppress(ProcessLookupError):
            os.kill(-1, _signal.SIGKILL)
        self._reap(0)

    def _end(self, *, requested: bool) -> None:
        """End every process of the task, report its end, and continue if it has left nothing.

        A task that crashed is the last one of its cell.
        """
        self._empty()
        self._uses -= 1
        status = int(_signal.SIGKILL) if self._status is None else self._status
        task, self._task = self._task, 0
        fit = self._uses > 0 and (requested or os.WIFEXITED(status))
        serves_on = fit and self._lasting_state is not None and self._lasting_state.is_same(task)
        os.write(self._control.fileno(), ENDED + status.to_bytes(4, "little") + bytes((serves_on,)))
        if not serves_on:
            os._exit(0)
        if self._serves:
            self._fork_ahead()

    def _reap(self, options: int) -> None:
        """Reap what has ended; without options, wait until this process namespace is empty.

        Orphans become children of this process.
        """
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, options)
                if pid == 0:
                    return
                # One that requested to be traced by its parent shows where it stops, too.
                if pid == self._task and not os.WIFSTOPPED(status):
                    self._status = status

    def _live_as_task(self, mode: bytes, descriptors: Sequence[int]) -> None:
        _as_a_task_is()
        if mode == LAUNCH:
            self._launch(descriptors)
            return
        requests, output, answers = descriptors
        _turn_output(output)
        self._confine_task()
        keep_only((0, 1, 2, requests, answers))
        serve.serve(requests, answers, self._serving)

    def _wait_for_task(self, channel: _socket.socket) -> None:
        """Do what needs no descriptor of a task, then wait for those of one, and serve its calls.

        What tasks of Python receive is the same for each one, and was read with the order of the cell.
        """
        try:
            _as_a_task_is()
            self._confine_task()
            keep_only((0, 1, 2, channel.fileno()))
            serve.rehearse()
            _, descriptors = receive(channel)
            requests, output, answers = descriptors
        except BaseException:
            # There is no task to tell it to. The one that comes finds this process gone, and its own meets the same error.
            os._exit(1)
        channel.close()
        _turn_output(output)
        os.close(output)
        serve.serve(requests, answers, self._serving)

    def _confine_task(self) -> None:
        """Take away what the first process keeps, and add the rules that it does not use itself.

        Raises OSError.

        The worker counts the task's memory, which the kernel shows of a process that may be read. Other tasks are in other user namespaces.
        """
        for what, take_away in self._confining:
            if take_away() < 0:
                raise OSError(0, f"the kernel refuses: {what}")
        if self._memory:
            limit(resource.RLIMIT_AS, self._memory)

    def _launch(self, descriptors: Sequence[int]) -> None:
        for target, source in enumerate(descriptors[STREAMS]):
            os.dup2(source, target)
        order = descriptors[ORDER]
        keep_only((0, 1, 2, order, *((self._ruleset,) if self._ruleset >= 0 else ())))
        wanted = read_order(order)
        for name, value in wanted["env"].items():
            os.environ[name] = value
        self._confine_task()
        launch.run(wanted, [])


class _Ahead:
    """A process that was forked before its task is known.

    It has every right taken away and runs no code of playbooks until it has the task's descriptors.
    """

    def __init__(self, number: int, channel: _socket.socket) -> None:
        """Hold the process ``number``, which reads ``channel``'s other end."""
        self.number = number
        self._channel = channel

    def begin(self, descriptors: list[int]) -> bool:
        """Hand the task's descriptors over. False: the process has ended."""
        numbers = struct.pack(f"{len(descriptors)}i", *descriptors)
        try:
            self._channel.sendmsg([SERVE], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
        except OSError:
            return False
        finally:
            self._channel.close()
        return True

    def close(self) -> None:
        """Close the channel; the process ends as it sees that."""
        self._channel.close()


class _LastingState:
    """The state that a task can change and that stays when it has ended.

    * Folders that it can write to: contents, owner, modes, attributes and times. Every change of one of a folder changes ``ctime``,
      which no process can set. A file that never had a name changes the number of the next one, and takes room for as long as it is there.
    * Locks of these folders: they last as long as the open file, which the kernel closes late when it was sent and not received.
    * The first process, which is of the same user: its limits, priorities and processors, which the next task would inherit.
    * The number of the last process. A task that made no other process or thread has left none, and no task learns how many there were.
    """

    def __init__(self, folder: str) -> None:
        """Wait for a tick of the clock of files; no later change can have this moment's time.

        Raises OSError when this system does not show everything.
        """
        self._scratch = [os.open(place, _ANY) for place in SCRATCH]
        paths = [folder, *SCRATCH]
        for place, path in zip(self._scratch, SCRATCH, strict=True):
            paths += _within(path, os.fstat(place).st_dev)
        self._places = [os.open(path, _ANY) for path in paths]
        self._folders = [
            os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for path, place in zip(paths, self._places, strict=True)
            if stat.S_ISDIR(os.fstat(place).st_mode)
        ]
        for path in paths:
            # Who lists a folder does not change a time of access that is later than all others.
            now = time.time_ns()
            os.utime(path, ns=(now + ATIME_AHEAD, now), follow_symlinks=False)
        self._numbers = os.open("/proc/sys/kernel/ns_last_pid", os.O_RDONLY | os.O_CLOEXEC)
        self._attributes = ctypes.create_string_buffer(PRIORITY_BYTES)
        self._schedule, self._input_output = PRIORITY_CALLS[os.uname().machine]
        self._about_files = self._files()
        self._about_self = self._self()
        self._next_files = [self._next_file(place) + 1 for place in SCRATCH]
        changed = [times[-1] for times in self._about_files[: len(self._places)]]
        if not all(when % 1_000_000 for when in changed):
            raise OSError(0, "the times of files are too coarse to show all changes")
        for _ in range(MOST_TICKS):
            if time.clock_gettime_ns(COARSE_CLOCK) > max(changed):
                return
            time.sleep(0.001)
        raise OSError(0, "the clock of files does not advance")

    def is_same(self, task: int) -> bool:
        """Report whether a task of this number has left everything as it was."""
        try:
            same = (
                int(os.pread(self._numbers, 20, 0)) == task
                and self._files() == self._about_files
                and self._self() == self._about_self
                and [self._next_file(place) for place in SCRATCH] == self._next_files
                and not any(map(_is_locked, self._folders))
            )
        except (OSError, ValueError):
            return False
        self._next_files = [number + 1 for number in self._next_files]
        return same

    def _files(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for place in self._places:
            about = os.fstat(place)
            found.append(
                (
                    *(about.st_dev, about.st_ino, about.st_mode, about.st_nlink, about.st_uid, about.st_gid),
                    *(
                        about.st_size,
                        about.st_blocks,
                        about.st_atime_ns,
                        about.st_mtime_ns,
                        about.st_ctime_ns,
                    ),
                )
            )
        for place in self._scratch:
            room = os.fstatvfs(place)
            found.append((room.f_bfree, room.f_ffree))
        return found

    def _self(self) -> tuple[Any, ...]:
        address = ctypes.addressof(self._attributes)
        syscall(self._schedule, 0, address, PRIORITY_BYTES)
        return (
            *(resource.getrlimit(number) for number in range(LIMITS)),
            self._attributes.raw,
            syscall(self._input_output, 1, 0, 0),
            os.sched_getaffinity(0),
        )

    def _next_file(self, place: str) -> int:
        """Return the number of the next file there, by making it."""
        made = os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            return os.fstat(made).st_ino
        finally:
            os.close(made)


def _is_locked(folder: int) -> bool:
    """Report whether a lock is held on a folder, of ``flock`` or of an open file.

    ``F_OFD_SETLK`` makes the latter.
    """
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(folder, fcntl.LOCK_UN)
    return fcntl.fcntl(folder, GET_LOCK, WRITE_LOCK)[: len(UNLOCKED)] != UNLOCKED


def _within(path: str, device: int) -> list[str]:
    """List all that is below ``path`` on the same file system.

    Links are listed, and folders on the way to places that are mounted there.
    """
    found = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_dev == device:
                found.append(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    found += _within(entry.path, device)
    return found


def _as_a_task_is() -> None:
    """Undo what the first process does for itself alone."""
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    gc.enable()


def _turn_output(output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)


def be_child(act: Callable[[], None]) -> NoReturn:
    """Run ``act`` as all of a process that was just forked, in a session of its own.

    Then end the process, with what it has printed written.
    """
    code = 0
    try:
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        os.setsid()
        act()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def run_task(mode: bytes, wanted: Any, own: list[int]) -> None:
    """Run what a task's process is for, with the descriptors that are its own."""
    run: Callable[[Any, list[int]], None] = serve.run if mode == SERVE else launch.run
    run(wanted, own)
