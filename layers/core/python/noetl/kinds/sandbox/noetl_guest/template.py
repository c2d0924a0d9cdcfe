"""A process that has loaded the guest, and forks a child for each task: an interpreter is started once a worker.

The worker sends descriptors alone, one message a child; what a task is told comes through one of them and is read by the
child. So the template learns nothing of any task, and no child finds anything of another one in its memory. It runs no
code of playbooks, and has one thread. Where a machine has namespaces it makes, once, the root that all tasks have in common.
It ends when its worker has gone and its last child has ended, and removes the folder of the tasks' folders. Linux only.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes classes of enum, which a task has no use for
import _socket
import array
import gc
import os
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from . import confine, landlock, launch, namespaces, removal, serve, syscall_filter  # noqa: F401
from .kernel import PR_SET_DUMPABLE, prctl
from .order import read_order
from .supervise import keep_only, part_from_first_process

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from typing import Any, NoReturn

SERVE, LAUNCH = b"s", b"l"
STATUS, LIFELINE, ORDER, STREAMS = 0, 1, 2, slice(3, 6)
"""What the descriptors of a message are for; those after ``STREAMS`` are the task's own."""
MOST_DESCRIPTORS = 16
NUMBER = 4
"""Bytes of a process number and of a status (as ``os.wait`` has it), little endian."""
FAILED = 125


class _Children:
    """Those that run: where their ends are told to the worker, and where a first process tells how its task ended (-1: there is none)."""

    def __init__(self, ground: namespaces.Ground | None) -> None:
        self.ground = ground
        self.running: dict[int, tuple[int, int]] = {}

    def fork_one(self, worker: _socket.socket) -> bool:
        """Fork the child that the next message is about; its number, or 0 and why not, is the first it reports. False: no more come."""
        mode, descriptors = _receive(worker)
        if not descriptors:
            return bool(mode)
        status = descriptors[STATUS]
        told = report = -1
        try:
            if self.ground is not None:
                told, report = os.pipe()
                pid = namespaces.fork_into_task()
            else:
                pid = os.fork()
        except OSError as error:
            _tell(status, 0, error.errno or FAILED)
            pid = -1
        if pid == 0:
            _become_child(mode, descriptors, self.ground, report)
        for descriptor in (*descriptors, report, told):
            if descriptor >= 0 and (pid < 0 or descriptor not in (status, told)):
                os.close(descriptor)
        if pid > 0:
            self.running[pid] = status, told
            _tell(status, pid)
        return True

    def report_ends(self) -> None:
        """Of all that have ended by now."""
        while self.running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            report, told = self.running.pop(pid)
            if told >= 0:
                ended = os.read(told, NUMBER)
                os.close(told)
                # It ends well without a report when its lifeline has been closed.
                status = int.from_bytes(ended, "little") if ended else status or int(_signal.SIGKILL)
            _tell(report, status)
            os.close(report)


def main() -> None:
    """Fork until the worker goes. Arguments: the guest's folder, the socket of the worker, a descriptor of the order."""
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


def _receive(worker: _socket.socket) -> tuple[bytes, list[int]]:
    found: array.array[int] = array.array("i")
    size = _socket.CMSG_LEN(MOST_DESCRIPTORS * found.itemsize)
    try:
        mode, parts, _, _ = worker.recvmsg(1, size, _socket.MSG_CMSG_CLOEXEC)
    except InterruptedError:
        return b" ", []
    except OSError:
        return b"", []
    for level, kind, data in parts:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return mode, list(found)


def _tell(report: int, *numbers: int) -> None:
    with suppress(OSError):  # the worker may not want to know any more
        os.write(report, b"".join(number.to_bytes(NUMBER, "little") for number in numbers))


def _become_child(
    mode: bytes, descriptors: Sequence[int], ground: namespaces.Ground | None, report: int
) -> NoReturn:
    """Take over the streams, the folder and the environment of a task, and live as its process."""
    try:
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        os.setsid()
        lifeline, order, own = descriptors[LIFELINE], descriptors[ORDER], list(descriptors[STREAMS.stop :])
        if ground is not None:
            part_from_first_process(lifeline, report)
        for target, source in enumerate(descriptors[STREAMS]):
            os.dup2(source, target)
        keep_only((0, 1, 2, order, *own, *((lifeline,) if ground is None else ())))
        wanted = read_order(order)
        # The kernel keeps the maps of a user namespace closed otherwise; ``confine`` takes it away again.
        prctl(PR_SET_DUMPABLE, 1)
        if ground is None:
            os.chdir(wanted["folder"])
        _take_environment(wanted["env"])
        confine.confine(confine.Confinement(**wanted["confinement"]), lifeline, ground)
        run: Callable[[Any, list[int]], None] = serve.run if mode == SERVE else launch.run
        run(wanted, own)
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _leave(1)
    _leave(0)


def _take_environment(wanted: Any) -> None:
    """Change what differs: the template has the part that every task has."""
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
