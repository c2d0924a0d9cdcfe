"""Namespaces of a task, made without privileges: user, processes, mounts, shared memory.

What is not bound into its root does not exist for it: neither files nor the sockets of servers, which Landlock does
not close. Its processes are the only ones it can name, and end when its first one ends.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes classes of enum, which a task has no use for
import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from .kernel import call, change_mount

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PIDS = 0x00020000, 0x08000000, 0x10000000, 0x20000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXECUTION = 1, 2, 4, 8
BIND, RECURSIVE, PRIVATE, SLAVE = 0x1000, 0x4000, 0x40000, 0x80000
DETACH = 2
CLONE3 = 435
AT_RECURSIVE = 0x8000
OLD = "/.old"
SCRATCH_MIB = 128
"""What ``/tmp`` and ``/dev/shm`` of a task hold each. It is memory, and gone with the task."""
SCRATCH_FILES = SCRATCH_MIB * 1024 // 4
"""And files, folders and links, as if each took 4 KiB: the kernel keeps a KiB or more for an empty one, beyond any limit of memory."""
RESERVED_PIDS = 300
"""Numbers that are not given a second time."""
COUNTS = {
    "user_namespaces": 0,
    **dict.fromkeys(("inotify_instances", "fanotify_groups"), 16),
    **dict.fromkeys(("inotify_watches", "fanotify_marks"), 4096),
}
"""What one task may have of that of which a user has few (see ``/proc/sys/user``)."""
SCRATCH = ("/tmp", "/dev/shm")
ENDED_FIRST = "1000"
"""The most that the kernel knows (``oom_score_adj``)."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
LINKS = (
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
)

Places = Sequence[Sequence[str]]
"""(where a folder or file is, where the task sees it, ``folder``, ``file`` or ``link``)."""


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user", ctypes.c_uint64),
    )


def leave_user_and_processes() -> None:
    """Enter a user namespace with the same ids; children get a process namespace.

    The process must have one thread and must be dumpable: the kernel keeps its maps closed otherwise. Raises OSError.
    """
    with _about_processes("/proc") as about:
        _leave_user(NEW_PIDS, about)
        _bound_counts(about)


def end_first_without_memory(about: int | None = None) -> None:
    """Let the kernel end this process first when the machine is out of memory.

    That holds for all that it forks, too.

    A task may take more than its processes are seen to have, so by their size the kernel would end the worker or the database.
    ``about``: as in ``_leave_user``, without it the machine's own. It cannot be asked for everywhere.
    """
    with suppress(OSError):
        _write(about, f"{'/proc/' if about is None else ''}self/oom_score_adj", ENDED_FIRST)


@contextmanager
def _about_processes(path: str) -> Iterator[int]:
    """Open a folder ``/proc``."""
    about = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield about
    finally:
        os.close(about)


def _leave_user(others: int, about: int) -> None:
    """Enter a new user namespace.

    ``about``: an open folder ``/proc`` that shows this process.
    """
    user, group = os.geteuid(), os.getegid()
    call("unshare", NEW_USER | others)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        _write(about, f"self/{name}", text)


def _bound_counts(about: int) -> None:
    """Bound what the kernel counts for a user in all namespaces, in that of this process.

    A container may keep ``/proc/sys`` read-only.
    """
    for name, most in COUNTS.items():
        with suppress(OSError):
            _write(about, f"sys/user/max_{name}", str(most))


def _write(folder: int | None, path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def enter_own_root(read: Places, write: Places, folder: str, processes: int) -> None:
    """Enter a root with nothing but ``read`` (not writable), ``write`` and ``folder``.

    The caller is the first process of the namespace. Raises OSError.
    """
    call("unshare", NEW_MOUNTS | NEW_IPC)
    _turn_root(folder)
    made = {"/"}
    for place in SCRATCH:
        _make_folders(place, made)
    _mount_scratch()
    _give_all((*read, (folder, folder, "folder"), *_as_folders(write), *_covered(read, write)), made)
    _give_devices(made)
    _mount_proc()
    os.rmdir(OLD)
    _close_root((*SCRATCH, folder, *(target for _, target, _ in write)), processes)
    os.chdir(folder)


class Ground:
    """The root that all tasks have in common. ``__dict__`` is the message to a template."""

    def __init__(self, folder: str, read: Places, write: Places, temporary: Sequence[str]) -> None:
        self.folder = folder
        """That in which tasks have theirs."""
        self.read = read
        self.write = _as_folders(write)
        self.temporary = temporary
        """Folders that each task has to itself, beside those of ``SCRATCH``: each task receives its own copy of their contents."""

    def enter(self) -> None:
        """Make that root and enter it, in namespaces of its own.

        The machine stays below ``OLD``, for the tasks' own folders. Mounts that the machine makes or takes away later change nothing here.
        Raises OSError.
        """
        with _about_processes("/proc") as about:
            _leave_user(NEW_MOUNTS, about)
        _turn_root(self.folder)
        made = {"/"}
        for place in (*SCRATCH, *self.temporary):
            _make_folders(place, made)
        _give_all([place for place in self._places() if not self._apart(place)], made)
        _give_devices(made)
        _mount(None, "/", None, PRIVATE | RECURSIVE)
        # All tasks have this one folder: nothing is made in it any more.
        _change_flags("/", _Attributes(READ_ONLY | NO_SUID | NO_DEVICES), 0)

    def enter_task(self, folder: str, processes: int) -> None:
        """Leave a task's first process only ``folder`` and what is its own.

        Its namespaces were copied from the ground's. It enters a user namespace of its own, whose rights do not reach what was mounted. It must
        be dumpable. What /proc shows of it (what the tasks before have used, among others) is covered. Raises OSError.
        """
        _mount_scratch()
        made = {"/", *SCRATCH, *self.temporary}
        for place in self.temporary:
            _mount("tmpfs", place, "tmpfs", NO_SUID | NO_DEVICES, "size=1m,mode=755")
        apart = [place for place in self._places() if self._apart(place)]
        _give_all((*apart, (folder, folder, "folder")), made)
        # Its new /proc will not be writable.
        with _about_processes(f"{OLD}/proc") as about:
            end_first_without_memory(about)
            _mount_proc()
            _mount(OLD, "/proc/1", None, BIND)
            _close_root((*SCRATCH, folder, *(target for _, target, _ in self.write)), processes)
            _leave_user(0, about)
            _bound_counts(about)

    def _places(self) -> Places:
        return (*self.read, *self.write, *_covered(self.read, self.write))

    def _apart(self, place: Sequence[str]) -> bool:
        """Report whether a place is where each task has a folder to itself."""
        return any(place[1].startswith(f"{above}/") for above in (*SCRATCH, *self.temporary))


def temporary_above(folder: str) -> tuple[str, ...]:
    """Return what ``Ground.temporary`` must hold for tasks' folders in ``folder``."""
    above = os.path.dirname(folder)
    within = any(above == place or above.startswith(f"{place}/") for place in SCRATCH)
    return () if within else (above,)


def renew_ipc() -> None:
    """Enter an empty IPC namespace; the old one goes with the last process in it.

    Raises OSError.
    """
    call("unshare", NEW_IPC)


def fork_into_task() -> int:
    """Fork, as ``os.fork`` does, into new mount, process and IPC namespaces.

    The caller has one thread. Raises OSError.
    """
    global _fork
    if _fork is None:
        _fork = _Fork()
    return _fork.fork()


class _CloneArguments(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            *("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls"),
        )
    )


class _Fork:
    """The kernel's own fork call, which alone makes namespaces for the child only.

    The interpreter is notified before and after.
    """

    def __init__(self) -> None:
        api = ctypes.pythonapi
        self._before, self._parent, self._child = (
            api.PyOS_BeforeFork,
            api.PyOS_AfterFork_Parent,
            api.PyOS_AfterFork_Child,
        )
        for function in (self._before, self._parent, self._child):
            function.restype = None
        # With the lock of the interpreter held, which no other thread is there to want.
        self._syscall = ctypes.PyDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        flags = NEW_MOUNTS | NEW_IPC | NEW_PIDS
        self._arguments = _CloneArguments(flags, 0, 0, 0, _signal.SIGCHLD, 0, 0, 0)
        self._given = (
            ctypes.c_long(CLONE3),
            ctypes.byref(self._arguments),
            ctypes.c_size_t(ctypes.sizeof(self._arguments)),
        )

    def fork(self) -> int:
        self._before()
        pid: int = self._syscall(*self._given)
        if pid == 0:
            self._child()
            return 0
        number = ctypes.get_errno()
        self._parent()
        if pid < 0:
            raise OSError(number, f"clone3: {os.strerror(number)}")
        return pid


_fork: _Fork | None = None


def _turn_root(at: str) -> None:
    """Become the root of an empty file system; the machine's is below ``OLD``.

    ``at``: any folder.
    """
    _mount(None, "/", None, SLAVE | RECURSIVE)
    _mount("tmpfs", at, "tmpfs", NO_SUID | NO_DEVICES, "size=1m,mode=755")
    os.mkdir(at + OLD)
    call("pivot_root", at.encode(), (at + OLD).encode())
    os.chdir("/")


def _mount_scratch() -> None:
    for place in SCRATCH:
        _mount(
            "tmpfs",
            place,
            "tmpfs",
            NO_SUID | NO_DEVICES,
            f"size={SCRATCH_MIB}m,nr_inodes={SCRATCH_FILES},mode=700",
        )


def _give_all(places: Places, made: set[str]) -> None:
    for source, target, kind in places:
        _give(source, target, kind, made)


def _covered(read: Places, write: Places) -> Places:
    """Return the programs and libraries that lie in a writable folder.

    By each name of that folder they are mounted over it, so that they stay as they are.
    """
    return [
        (source, target + source[len(folder) :], kind)
        for folder, target, _ in write
        for source, _, kind in read
        if kind != "link" and source.startswith(f"{folder}/")
    ]


def _as_folders(places: Places) -> Places:
    return [(source, target, "folder") for source, target, _ in places]


def _give_devices(made: set[str]) -> None:
    for name in DEVICES:
        _give(name, name, "file", made)
    for target, link in LINKS:
        os.symlink(target, link)
    _make_folders("/proc", made)


def _mount_proc() -> None:
    # While the machine's own /proc is still there: the kernel gives no other one to whoever cannot see that.
    _mount("proc", "/proc", "proc", NO_SUID | NO_DEVICES | NO_EXECUTION)
    call("umount2", OLD.encode(), DETACH)


def _close_root(writable: Sequence[str], processes: int) -> None:
    _bound_processes(processes)
    _set_flags("/", READ_ONLY | NO_SUID | NO_DEVICES)
    for place in writable:
        _clear_flags(place, READ_ONLY)
    for name in DEVICES:
        # Devices can be written to for all that: a mount that is read-only only keeps their owner, mode and times.
        _clear_flags(name, NO_DEVICES)


def _bound_processes(most: int) -> None:
    """Bound the processes of this namespace by their numbers.

    Before Linux 6.14 the number belongs to the machine; RLIMIT_NPROC bounds all users but root there.
    """
    with suppress(OSError), open("/proc/sys/kernel/pid_max", "w") as stream:
        stream.write(str(RESERVED_PIDS + most))


def _give(source: str, target: str, kind: str, made: set[str]) -> None:
    """Mount or link a place into the root.

    A place that is gone, that has become something else, or that this user cannot reach, is skipped.
    """
    try:
        if kind == "link":
            _make_folders(os.path.dirname(target), made)
            os.symlink(source, target)
            return
        if kind == "folder":
            _make_folders(target, made)
        else:
            _make_file(target, made)
        _mount(OLD + source, target, None, BIND | RECURSIVE)
    except (FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError):
        return


def _make_folders(path: str, made: set[str]) -> None:
    if path not in made:
        _make_folders(os.path.dirname(path), made)
        with suppress(FileExistsError):
            os.mkdir(path, 0o755)
        made.add(path)


def _make_file(path: str, made: set[str]) -> None:
    _make_folders(os.path.dirname(path), made)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    source_, kind_, data_ = (None if text is None else text.encode() for text in (source, kind, data))
    call("mount", source_, os.fsencode(target), kind_, flags, data_)


def _set_flags(target: str, flags: int) -> None:
    """On all mounts below."""
    _change_flags(target, _Attributes(flags), AT_RECURSIVE)


def _clear_flags(target: str, flags: int) -> None:
    """On this mount. What the machine itself mounted so stays so."""
    with suppress(OSError):
        _change_flags(target, _Attributes(0, flags), 0)


def _change_flags(target: str, attributes: _Attributes, depth: int) -> None:
    change_mount(os.fsencode(target), depth, ctypes.addressof(attributes), ctypes.sizeof(attributes))
