"""The worker's side of cells: namespaces that serve one task after the other.

See ``noetl_guest.cell``.
A cell serves the next task only when it has reported that the last one has left it as it was.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from noetl.domain.errors import InfrastructureError
from noetl.kinds.sandbox.in_flight import retry_sending, send_descriptors
from noetl.kinds.sandbox.noetl_guest.cell import END, ENDED
from noetl.kinds.sandbox.noetl_guest.removal import remove_tree
from noetl.kinds.sandbox.order import as_file
from noetl.kinds.sandbox.template import Mode, Template
from noetl.system_calls import short_calls

MOST_USES = 100
"""Tasks that one cell serves. What the kernel keeps of a process that lives grows slowly."""
REPORT_BYTES = 1024
END_SECONDS = 10.0


class CellGoneError(Exception):
    """The cell ended while it was idle. Another one can be made."""


class Cell:
    """A cell of a template. Not safe for two threads at once: one caller takes it alone."""

    def __init__(self, template: Template, kind: Hashable, order: Mapping[str, Any], folder: Path) -> None:
        """Start a cell, which can serve tasks at once.

        ``kind``: what tasks must have in common to use it. Raises as ``Template.fork`` does.
        """
        self.template = template
        self.kind = kind
        self.folder = folder
        self._socket, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            order_file = as_file(order)
            try:
                self.first = template.fork("cell", (child_end.fileno(), order_file))
            finally:
                os.close(order_file)
        except BaseException:
            self._socket.close()
            raise
        finally:
            child_end.close()
        self._socket.setblocking(False)
        self._report = short_calls.Buffer(REPORT_BYTES)

    def start(self, mode: Mode, descriptors: Sequence[int]) -> Tenant:
        """Start a task with these descriptors. Raises CellGoneError and OSError."""
        try:
            retry_sending(partial(send_descriptors, self._socket, mode, descriptors))
        except ConnectionError:
            raise CellGoneError from None
        return Tenant(self)

    def fileno(self) -> int:
        """Return the descriptor that can be read when the task has ended."""
        return self._socket.fileno()

    def end_task(self) -> None:
        """Let the task be ended, and do not wait for that. One that has ended is passed over."""
        with suppress(OSError):
            self._socket.send(END)

    def report(self) -> bytes | None:
        """Return the cell's report; None: nothing yet. Empty: it is gone."""
        for _ in range(2):
            try:
                return self._report.receive(self._socket.fileno())
            except BlockingIOError:
                return None
            except ConnectionResetError:
                continue  # it ended before it had read everything; what it told is still there
        return b""

    def leave(self) -> None:
        """Let it go: nothing of a task is left in it. It ends at once."""
        self._socket.close()
        self.first.forget()
        remove_tree(self.folder)

    def kill(self) -> None:
        """End the cell with every process in it, and wait for the end."""
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self.first.wait(END_SECONDS)
        if self.first.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.first.pid, signal.SIGKILL)
            self.first.wait()
        remove_tree(self.folder)


class Tenant:
    """The task that is in a cell, as ``subprocess.Popen`` shows a process."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.pid = cell.first.pid
        """Of the cell's first process, the parent of the task's."""
        self.returncode: int | None = None
        self.serves_on = False
        """The cell is as it was before the task."""
        self.gone = False
        """The cell has ended without a report."""

    def fileno(self) -> int:
        """Return the descriptor that can be read when the task has ended."""
        return self.cell.fileno()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the task runs.

        Raises InfrastructureError when it could not be started.
        """
        if self.returncode is None and (report := self.cell.report()) is not None:
            if report[:1] == ENDED:
                self.returncode = os.waitstatus_to_exitcode(int.from_bytes(report[1:5], "little"))
                self.serves_on = report[5:] == b"\1"
                return self.returncode
            self.returncode, self.gone = -signal.SIGKILL, True
            if report:
                raise InfrastructureError(
                    f"a process for a task cannot be prepared: {report[1:].decode(errors='replace')}"
                )
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired, and what ``poll`` raises."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            poller = select.poll()
            poller.register(self.fileno(), select.POLLIN)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            poller.poll(None if left is None else max(1, int(left * 1000)))
        return code

    def let_go(self) -> None:
        """Let it be ended."""
        if self.returncode is None:
            self.cell.end_task()

    def leave(self) -> None:
        """Wait for the task's end; keep its cell when it still serves, else end it."""
        with suppress(subprocess.TimeoutExpired, InfrastructureError):
            self.wait(END_SECONDS)
        if self.serves_on and self.cell.template.keep(self.cell):
            return
        if self.returncode is None or self.gone:
            self.cell.kill()
        else:
            self.cell.leave()
