"""Supervise a task: end every process that the task started, detached ones included.

With namespaces the kernel ends all processes of a task with the first one of its process namespace, which is the one child of a
supervisor (where tasks have a root in common, see ``noetl_guest.cell``). Without namespaces the supervisor is the reaper of all
orphans below it, and looks for them in /proc.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes classes of enum, which a task has no use for
import os
import select
import sys
from collections.abc import Iterable
from contextlib import suppress

from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl
from .namespaces import Places, enter_own_root, leave_user_and_processes

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from typing import NoReturn

ALL_DESCRIPTORS = 65536
LOOK_SECONDS = 1.0
SETUP_FAILED = 125


def part_from_supervisor(
    lifeline: int,
    folder: str,
    *,
    namespaces: bool,
    read: Places = (),
    write: Places = (),
    processes: int = 0,
    subreaper: bool = True,
) -> None:
    """Fork into the task's process and a supervisor; return in the task's process.

    The calling process stays behind, supervises, and ends as the task ends.

    When the other end of ``lifeline`` is closed, the task is ended and ``folder`` removed. The caller must have one
    thread. Raises OSError in the calling process; what fails after the fork is written to standard error, and ends it.
    """
    if namespaces:
        leave_user_and_processes()
    elif subreaper:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)
    ends, child_end = os.pipe()
    child = os.fork()
    if child:
        keep_only((lifeline, ends))
        _Supervisor(child, ends, lifeline, folder, namespaces, processes).run()
    os.close(lifeline)
    os.close(ends)
    prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
    if namespaces:
        try:
            enter_own_root(read, write, folder, processes)
            guest = os.fork()
        except OSError as error:
            sys.stderr.write(f"a task's namespaces cannot be made: {error}\n")
            sys.stderr.flush()
            os._exit(SETUP_FAILED)
        if guest:
            _first_process(guest, child_end)
    os.close(child_end)
    os.setsid()


def _first_process(guest: int, report: int) -> NoReturn:
    """Reap what is orphaned, and report how the task's own process ended."""
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    keep_only((report,))
    while True:
        pid, status = os.wait()
        if pid == guest:
            os.write(report, status.to_bytes(4, "little"))
            os._exit(0)


class _Supervisor:
    def __init__(
        self, child: int, report: int, lifeline: int, folder: str, namespaces: bool, processes: int
    ) -> None:
        self._child = child
        self._report = report
        self._lifeline = lifeline
        self._folder = folder
        self._namespaces = namespaces
        self._most = processes
        self._status: int | None = None

    def run(self) -> NoReturn:
        """Until the task has ended or is not wanted any more."""
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        poller = select.poll()
        poller.register(self._lifeline, 0)
        look = True
        with suppress(OSError):
            poller.register(os.pidfd_open(self._child), select.POLLIN)
            look = not self._namespaces
        unwanted = False
        while not self._reaped() and not unwanted:
            events = poller.poll(LOOK_SECONDS * 1000 if look else None)
            unwanted = any(descriptor == self._lifeline for descriptor, _ in events)
            if not self._namespaces and self._most and len(descendants(os.getpid())) > self._most:
                break
        self._end_all()
        if unwanted:
            from .removal import remove_tree

            remove_tree(self._folder)
        self._end_likewise()

    def _reaped(self) -> bool:
        """Report whether the child has ended; reap orphans on the way."""
        while self._status is None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._child:
                self._status = status
        return True

    def _end_all(self) -> None:
        if self._namespaces:
            # Its first process waits for all others before it ends.
            if self._status is None:
                os.kill(self._child, _signal.SIGKILL)
                os.waitpid(self._child, 0)
            return
        while True:
            found = (
                [*descendants(os.getpid()), self._child] if self._status is None else descendants(os.getpid())
            )
            # Stopped first: what forks as fast as it can must not be ahead of every look.
            for number in (_signal.SIGSTOP, _signal.SIGKILL):
                for pid in found:
                    with suppress(OSError):
                        os.kill(pid, number)
            options = 0
            while True:
                try:
                    pid, status = os.waitpid(-1, options)
                except ChildProcessError:
                    return
                if pid == 0:
                    break
                if pid == self._child:
                    self._status = status
                options = os.WNOHANG

    def _end_likewise(self) -> NoReturn:
        status = self._status
        if self._namespaces:
            read = os.read(self._report, 4)
            status = int.from_bytes(read, "little") if len(read) == 4 else status
        if status is None:
            status = _signal.SIGKILL
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            with suppress(OSError, ValueError):
                _signal.signal(number, _signal.SIG_DFL)
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else SETUP_FAILED)


def descendants(root: int) -> list[int]:
    """Processes below ``root``, as /proc has them now; those that have ended are left out."""
    children: dict[int, list[int]] = {}
    for name in _process_names():
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                state, parent = stream.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        if state != b"Z":
            children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    left = [root]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _process_names() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def keep_only(kept: Iterable[int]) -> None:
    """Close all other descriptors, so that who reads from the task sees its end."""
    start = 0
    for descriptor in sorted(kept):
        if descriptor > start:  # closerange(0, 0) closes all (seen with CPython 3.11 on Linux)
            os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, ALL_DESCRIPTORS)
