"""Namespaces of a task: its own user, processes, mounts and shared memory, made without any privilege.

What is not bound into its root does not exist for it: neither files nor the sockets of servers, which Landlock does
not close. Its processes are the only ones it can name, and end when its first one ends.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress

from .kernel import call, syscall

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PIDS = 0x00020000, 0x08000000, 0x10000000, 0x20000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXECUTION = 1, 2, 4, 8
BIND, RECURSIVE, SLAVE = 0x1000, 0x4000, 0x80000
DETACH = 2
MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
OLD = "/.old"
SCRATCH_MIB = 128
"""What ``/tmp`` and ``/dev/shm`` of a task hold each. It is memory, and gone with the task."""
RESERVED_PIDS = 300
"""Numbers that are not given a second time."""
SCRATCH = ("/tmp", "/dev/shm")
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
    """Enter a user namespace with the same ids; children of this process get a process namespace.

    The process must have one thread and must be dumpable: the kernel keeps its maps closed otherwise. Raises OSError.
    """
    user, group = os.geteuid(), os.getegid()
    call("unshare", NEW_USER | NEW_PIDS)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as stream:
            stream.write(text)


def enter_own_root(read: Places, write: Places, folder: str, processes: int) -> None:
    """As the first process of the namespace: a root with nothing but ``read`` (not writable), ``write`` and ``folder``.

    Raises OSError.
    """
    call("unshare", NEW_MOUNTS | NEW_IPC)
    _mount(None, "/", None, SLAVE | RECURSIVE)
    _mount("tmpfs", folder, "tmpfs", NO_SUID | NO_DEVICES, "size=1m,mode=755")
    os.mkdir(folder + OLD)
    call("pivot_root", folder.encode(), (folder + OLD).encode())
    os.chdir("/")
    made = {"/"}
    for place in SCRATCH:
        _make_folders(place, made)
        _mount("tmpfs", place, "tmpfs", NO_SUID | NO_DEVICES, f"size={SCRATCH_MIB}m,mode=700")
    for source, target, kind in read:
        _give(source, target, kind, made)
    writable = [*SCRATCH, folder, *(target for _, target, _ in write)]
    for source, target in ((folder, folder), *((source, target) for source, target, _ in write)):
        _give(source, target, "folder", made)
    for name in DEVICES:
        _give(name, name, "file", made)
    for target, link in LINKS:
        os.symlink(target, link)
    _make_folders("/proc", made)
    # While the machine's own /proc is still there: the kernel gives no other one to whoever cannot see that.
    _mount("proc", "/proc", "proc", NO_SUID | NO_DEVICES | NO_EXECUTION)
    call("umount2", OLD.encode(), DETACH)
    os.rmdir(OLD)
    _bound_processes(processes)
    _set_flags("/", READ_ONLY | NO_SUID | NO_DEVICES)
    for place in writable:
        _clear_flags(place, READ_ONLY)
    for name in DEVICES:
        _clear_flags(name, READ_ONLY | NO_DEVICES)
    os.chdir(folder)


def _bound_processes(most: int) -> None:
    """Before Linux 6.14 the number belongs to the machine; RLIMIT_NPROC bounds all users but root there."""
    with suppress(OSError), open("/proc/sys/kernel/pid_max", "w") as stream:
        stream.write(str(RESERVED_PIDS + most))


def _give(source: str, target: str, kind: str, made: set[str]) -> None:
    """What has gone away in the meantime, and what this user cannot reach, is passed over."""
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
    except (FileNotFoundError, FileExistsError, PermissionError):
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
    call("mount", source_, os.fsencode(target), kind_, ctypes.c_ulong(flags), data_)


def _set_flags(target: str, flags: int) -> None:
    """On all mounts below."""
    _change_flags(target, _Attributes(flags), AT_RECURSIVE)


def _clear_flags(target: str, flags: int) -> None:
    """On this mount. What the machine itself mounted so stays so."""
    with suppress(OSError):
        _change_flags(target, _Attributes(0, flags), 0)


def _change_flags(target: str, attributes: _Attributes, depth: int) -> None:
    path = ctypes.c_char_p(os.fsencode(target))
    syscall(MOUNT_SETATTR, AT_FDCWD, path, depth, ctypes.byref(attributes), ctypes.sizeof(attributes))
