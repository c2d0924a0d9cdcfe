"""A process that has loaded the guest, and forks a child for each task: an interpreter is started once a worker.

The worker sends descriptors alone, one message a child; what a task is told comes through one of them and is read by the
child. So the template learns nothing of any task, and no child finds anything of another one in its memory. It runs no
code of playbooks, has one thread, and ends with its worker. Linux only.
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
from .supervise import keep_only

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


def main() -> None:
    """Fork until the worker goes. Arguments: the guest's folder, the socket of the worker."""
    worker = _socket.socket(fileno=int(sys.argv[2]))
    sys.path.pop(0)
    sys.dont_write_bytecode = True
    os.umask(0o077)
    prctl(PR_SET_DUMPABLE, 0)
    awake, wake = os.pipe()
    for descriptor in (awake, wake):
        os.set_blocking(descriptor, False)
    _signal.signal(_signal.SIGCHLD, lambda number, frame: None)
    _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poller = select.poll()
    poller.register(worker.fileno(), select.POLLIN)
    poller.register(awake, select.POLLIN)
    children: dict[int, int] = {}
    gc.collect()
    gc.freeze()
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == awake:
                os.read(awake, 4096)
                _report_ends(children)
            elif not _fork_one(worker, children):
                os._exit(0)


def _fork_one(worker: _socket.socket, children: dict[int, int]) -> bool:
    """Fork the child that the next message is about; its number, or 0 and why not, is the first it reports. False: no more come."""
    mode, descriptors = _receive(worker)
    if not descriptors:
        return bool(mode)
    status = descriptors[STATUS]
    try:
        pid = os.fork()
    except OSError as error:
        _tell(status, 0, error.errno or FAILED)
        pid = -1
    if pid == 0:
        _become_child(mode, descriptors)
    for descriptor in descriptors:
        if pid < 0 or descriptor != status:
            os.close(descriptor)
    if pid > 0:
        children[pid] = status
        _tell(status, pid)
    return True


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


def _report_ends(children: dict[int, int]) -> None:
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        report = children.pop(pid)
        _tell(report, status)
        os.close(report)


def _tell(report: int, *numbers: int) -> None:
    with suppress(OSError):  # the worker may not want to know any more
        os.write(report, b"".join(number.to_bytes(NUMBER, "little") for number in numbers))


def _become_child(mode: bytes, descriptors: Sequence[int]) -> NoReturn:
    """Take over the streams, the folder and the environment of a task, and live as its process."""
    try:
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        os.setsid()
        lifeline, order, own = descriptors[LIFELINE], descriptors[ORDER], list(descriptors[STREAMS.stop :])
        for target, source in enumerate(descriptors[STREAMS]):
            os.dup2(source, target)
        keep_only((0, 1, 2, lifeline, order, *own))
        wanted = read_order(order)
        # The kernel keeps the maps of a user namespace closed otherwise; ``confine`` takes it away again.
        prctl(PR_SET_DUMPABLE, 1)
        os.environ.clear()
        os.environ.update(wanted["env"])
        os.chdir(wanted["folder"])
        run: Callable[[Any, int, list[int]], None] = serve.run if mode == SERVE else launch.run
        run(wanted, lifeline, own)
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _leave(1)
    _leave(0)


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
