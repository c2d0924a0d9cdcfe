"""The layers by which a process drops the rights that its next code must not have.

There is no way back. ``confine`` applies the layers that a ``Confinement`` names to the calling process; it starts no interpreter, and
may be called in any fork of a process with one thread. Limits on memory, file size, open files and core dumps need no
layer. On Linux also: no new privileges, no capabilities (a root user keeps its files but can no longer look into other
processes), and memory that processes of the same user cannot read.
"""

from __future__ import annotations

import os
import resource
import sys

OPEN_FILES = 512
"""Of a process. It is also what tasks may have in flight, which the kernel counts for the user (see ``noetl.kinds.sandbox.in_flight``)."""
SHARES = {"RLIMIT_SIGPENDING": 1024, "RLIMIT_MSGQUEUE": 100 * 1024}
"""Signals and timers that wait, bytes of POSIX queues. They count in a task's user namespace, and for the user of all tasks."""
NO_CORE = 1
"""Bytes of a core dump. With 0 the kernel writes no file, but still hands the memory to a program of the machine that collects dumps."""
PROCESS_FILES = (
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "stat",
    "uptime",
    "version",
    "sys/kernel",
    "sys/vm",
)
"""The files of a /proc with all processes that reveal none of them."""


class Confinement:
    """The rights that one task keeps.

    Places: where something is, where the task sees it, ``folder``, ``file`` or ``link``.
    """

    def __init__(
        self,
        folder: str,
        memory: int,
        file_size: int,
        processes: int,
        read: tuple[tuple[str, str, str], ...] = (),
        write: tuple[tuple[str, str, str], ...] = (),
        landlock: int = 0,
        namespaces: bool = False,
        filter_sockets: bool = False,
        others: int = 0,
        user: int = 0,
        subreaper: bool = True,
        filter_keys: bool = False,
    ) -> None:
        """``__dict__`` is the message that a guest gets."""
        self.folder = folder
        """Its own folder."""
        self.memory = memory
        """Bytes of address space; 0: no limit."""
        self.file_size = file_size
        """Bytes that one file may reach."""
        self.processes = processes
        """Processes and threads at a time; 0: no limit."""
        self.read = read
        self.write = write
        self.landlock = landlock
        """ABI to use; 0: no Landlock."""
        self.namespaces = namespaces
        self.filter_sockets = filter_sockets
        self.others = others
        """Processes and threads that count towards the user's limit and are not the task's."""
        self.user = user
        """The user to become; 0: stay who it is."""
        self.subreaper = subreaper
        """The supervisor gets every orphan."""
        self.filter_keys = filter_keys
        """Refuse the keys that the kernel keeps, which all processes of a user or a session share in any namespace, and the calls that keep
        memory which no process has mapped."""


def confine(wanted: Confinement, lifeline: int) -> None:
    """Apply every layer. Returns in the process that is to run the code.

    That is a fork on Linux: the caller stays behind and ends what the code started, when that ends or ``lifeline`` is closed at its other
    end. Raises OSError when the system refuses to take something away: the code must not run then.
    """
    os.umask(0o077)
    limit(resource.RLIMIT_CORE, NO_CORE)
    if sys.platform == "linux":
        # Loaded before the fork: afterwards the root may be another.
        from . import landlock, syscall_filter  # noqa: F401
        from .namespaces import end_first_without_memory
        from .supervise import part_from_supervisor

        end_first_without_memory()
        part_from_supervisor(
            lifeline,
            wanted.folder,
            namespaces=wanted.namespaces,
            read=wanted.read,
            write=wanted.write,
            processes=wanted.processes,
            subreaper=wanted.subreaper,
        )
        if wanted.user:
            os.setgroups([])
            os.setresgid(wanted.user, wanted.user, wanted.user)
            os.setresuid(wanted.user, wanted.user, wanted.user)
    restrict_self(wanted)


def confine_cell(wanted: Confinement) -> int:
    """Take away what no task of a cell has, from the cell's first process.

    That process is in the cell's namespaces and keeps one right for tasks to come. Tasks inherit all of it. Returns the Landlock rules
    for them, or -1. Raises OSError.
    """
    from .kernel import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, give_up_bounds, keep_administration, prctl

    os.umask(0o077)
    limit(resource.RLIMIT_CORE, NO_CORE)
    limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    limit(resource.RLIMIT_FSIZE, wanted.file_size)
    if wanted.processes:
        limit(resource.RLIMIT_NPROC, wanted.processes + 1)  # the first process is of the same user
    _limit_shares()
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    give_up_bounds()
    # In a user namespace to which nothing belongs but the IPC namespaces of tasks.
    keep_administration()
    prctl(PR_SET_DUMPABLE, 0)
    _filter_calls(wanted)
    return _rules_of_files(wanted)


def restrict_self(wanted: Confinement) -> None:
    """Apply the layers that need no other process.

    They are limits, privileges, Landlock, and the filter of system calls. Raises OSError.
    """
    limit(resource.RLIMIT_FSIZE, wanted.file_size)
    limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    if sys.platform == "linux":
        if wanted.namespaces:
            _limit_shares()
        if wanted.processes:
            # Counted in the user namespace, or for the user; it does not count for root.
            limit(resource.RLIMIT_NPROC, wanted.processes + wanted.others)
        _drop_privileges(readable=bool(wanted.namespaces or wanted.landlock or wanted.user))
        if (ruleset := _rules_of_files(wanted)) >= 0:
            from .landlock import enter

            enter(ruleset)
        _filter_calls(wanted)
        if wanted.memory:
            limit(resource.RLIMIT_AS, wanted.memory)


def _limit_shares() -> None:
    for name, most in SHARES.items():
        limit(getattr(resource, name), most)


def _filter_calls(wanted: Confinement) -> None:
    if wanted.filter_sockets or wanted.filter_keys:
        from .syscall_filter import filter_calls

        filter_calls(sockets=wanted.filter_sockets)


def _rules_of_files(wanted: Confinement) -> int:
    """Return a descriptor of the Landlock rules; -1: there are none."""
    if not wanted.landlock:
        return -1
    from .landlock import make_ruleset
    from .namespaces import DEVICES, SCRATCH

    shared = [target for _, target, _ in wanted.write]
    own = [wanted.folder, *DEVICES]
    if wanted.namespaces:
        # Its root holds nothing but what it may read, and a /proc of its own. A right in a folder holds in all that is mounted in it.
        around = [place for place in SCRATCH if any(target.startswith(f"{place}/") for target in shared)]
        own += [place for place in SCRATCH if place not in around]
        return make_ruleset(wanted.landlock, ["/"], own, [*shared, *around])
    given = [target for _, target, kind in wanted.read if kind != "link"]
    return make_ruleset(
        wanted.landlock, [*given, *(f"/proc/{name}" for name in (os.getpid(), *PROCESS_FILES))], own, shared
    )


def limit(what: int, wanted: int) -> None:
    """Set the soft and the hard limit, no higher than the hard one is."""
    hard = resource.getrlimit(what)[1]
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (value, value))


def _drop_privileges(*, readable: bool) -> None:
    """Drop this process's privileges.

    ``readable``: a layer keeps other tasks out, so the worker may count this one's memory.
    """
    from .kernel import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, give_up_bounds, give_up_capabilities, prctl

    prctl(PR_SET_NO_NEW_PRIVS, 1)
    give_up_bounds()
    give_up_capabilities()
    prctl(PR_SET_DUMPABLE, int(readable))
