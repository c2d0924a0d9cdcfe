"""A process that has loaded the guest and forks children: one interpreter per worker.

The worker sends descriptors alone, one message a child. The child's order arrives through one of them, and the child reads it.
So the template learns nothing of any task, and no child finds anything of another one in its memory. It runs no
code of playbooks, and has one thread. Where a machine has namespaces it makes, once, the root that all tasks have in common;
its children are then the first processes of cells (``noetl_guest.cell``). On other machines a child is a task's own process.
It ends when its worker has gone and its last child has ended, and removes the folder of the tasks' folders. Linux only.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes classes of enum, which a task has no use for
import _socket
import gc
import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress

from . import cell, confine, landlock, launch, namespaces, removal, serve, syscall_filter  # noqa: F401
from .cell import CELL, be_child, run_task
from .kernel import PR_SET_DUMPABLE, prctl
from .order import read_order, receive
from .supervise import keep_only

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from typing import Any, NoReturn

STATUS = 0
"""Where the descriptor for reports is in a message. Of those after it a cell has two: the worker's socket, and its order."""
LIFELINE, ORDER, TASK_STREAMS = 0, 1, slice(2, 5)
"""What the others are for in that of a task; those after ``TASK_STREAMS`` are its own."""
STREAMS = 3
NUMBER = 4
"""Bytes of a process number and of a status (as ``os.wait`` has it), little endian."""
FAILED = 125


class _Children:
    """The running children, and the descriptors that report their ends to the worker."""

    def __init__(self, ground: namespaces.Ground | None) -> None:
        self.ground = ground
        self.running: dict[int, int] = {}

    def fork_one(self, worker: _socket.socket) -> bool:
        """Fork the child of the next message; return False when no more come.

        The child first reports its number, or 0 and the reason.
        """
        mode, descriptors = receive(worker)
        if not descriptors:
            return bool(mode)
        status = descriptors.pop(STATUS)
        try:
            pid = namespaces.fork_into_task() if mode == CELL else os.fork()
        except OSError as error:
            _report_numbers(status, 0, error.errno or FAILED)
            pid = -1
        if pid == 0:
            be_child(lambda: _live(mode, descriptors, self.ground))
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            self.running[pid] = status
            _report_numbers(status, pid)
        else:
            os.close(status)
        return True

    def report_ends(self) -> None:
        """Report the ends of all children that have ended by now."""
        while self.running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            report = self.running.pop(pid)
            _report_numbers(report, status)
            os.close(report)


def main() -> None:
    """Fork until the worker goes.

    Arguments: the guest's folder, the socket of the worker, a descriptor of the order.
    """
    worker = _socket.socket(fileno=int(sys.argv[2]))
    order = read_order(int(sys.argv[3]))
    sys.path.pop(0)
    sys.dont_write_bytecode = True
    os.umask(0o077)
    ground = None
    if order["ground"] is not None:
        ground = namespaces.Ground(**order["ground"])
        ground.enter()
    prctl(PR_SET_DUMPABLE, 0)
    awake, wake = os.pipe()
    for descriptor in (awake, wake):
        os.set_blocking(descriptor, False)
    _signal.signal(_signal.SIGCHLD, lambda number, frame: None)
    _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poller = select.poll()
    poller.register(worker.fileno(), select.POLLIN)
    poller.register(awake, select.POLLIN)
    children = _Children(ground)
    gone = False
    gc.collect()
    gc.freeze()
    while not gone or children.running:
        for descriptor, _ in poller.poll():
            if descriptor == awake:
                os.read(awake, 4096)
                children.report_ends()
            elif not children.fork_one(worker):
                gone = True
                poller.unregister(worker.fileno())
    removal.remove_tree(f"{namespaces.OLD if ground else ''}{order['folder']}")
    os._exit(0)


def _report_numbers(report: int, *numbers: int) -> None:
    with suppress(OSError):  # the worker may not want to know any more
        os.write(report, b"".join(number.to_bytes(NUMBER, "little") for number in numbers))


def _live(mode: bytes, descriptors: Sequence[int], ground: namespaces.Ground | None) -> None:
    if mode == CELL:
        _live_as_cell(descriptors, ground)
    else:
        _live_as_task(mode, descriptors)


def _live_as_cell(descriptors: Sequence[int], ground: namespaces.Ground | None) -> NoReturn:
    """Live as the first process of a cell."""
    assert ground is not None
    control, order = descriptors
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for target in range(STREAMS):
        os.dup2(null, target)
    keep_only((*range(STREAMS), control, order))
    wanted = read_order(order)
    _take_environment(wanted["env"])
    cell.live(wanted, control, ground)


def _live_as_task(mode: bytes, descriptors: Sequence[int]) -> None:
    """Take over a task's streams, folder and environment, and live as its process."""
    lifeline, order = descriptors[LIFELINE], descriptors[ORDER]
    own = list(descriptors[TASK_STREAMS.stop :])
    for target, source in enumerate(descriptors[TASK_STREAMS]):
        os.dup2(source, target)
    keep_only((*range(STREAMS), lifeline, order, *own))
    wanted = read_order(order)
    # The kernel keeps the maps of a user namespace closed otherwise; ``confine`` takes it away again.
    prctl(PR_SET_DUMPABLE, 1)
    os.chdir(wanted["folder"])
    _take_environment(wanted["env"])
    confine.confine(confine.Confinement(**wanted["confinement"]), lifeline)
    run_task(mode, wanted, own)


def _take_environment(wanted: Any) -> None:
    """Change what differs: the template has the part that every task has."""
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
