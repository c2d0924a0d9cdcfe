"""The writer of task output.

It gathers lines for a moment, and stores them before the command's outcome. To lose some lines is better than to fail a task over them:
lines that cannot be stored are logged and dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from noetl.domain.commands import Command
from noetl.domain.sizes.table import LINES_BYTES
from noetl.domain.task_logs import TaskLine, line_time
from noetl.ports.task_logs import TaskLogs

FLUSH_SECONDS = 1.0
"""How old a line may become before it is written, while its command runs."""
FLUSH_BYTES = 256 * 1024
COMMAND_BYTES = LINES_BYTES.value
"""Most text of one command (a step run, or a chunk of a loop's items) that is kept."""


class LineKeeper:
    """The writer of one process, for all its commands.

    ``log``: one line when lines could not be stored.
    """

    def __init__(
        self, logs: TaskLogs, log: Callable[[str], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._logs, self._log, self._clock = logs, log, clock
        self._lock = threading.Lock()
        self._open: set[CommandLines] = set()
        self._writer: threading.Thread | None = None

    def of(self, command: Command) -> CommandLines:
        return CommandLines(self, command)

    def now(self) -> str:
        return line_time(self._clock())

    def began(self, lines: CommandLines) -> None:
        """Have the writer thread store these lines within a second.

        Where the system starts no thread, they are stored when their command ends.
        """
        with self._lock:
            self._open.add(lines)
            if self._writer is None:
                with suppress(RuntimeError):
                    writer = threading.Thread(target=self._write, name="noetl-lines", daemon=True)
                    writer.start()
                    self._writer = writer

    def keep(self, execution_id: int, lines: list[TaskLine]) -> None:
        try:
            self._logs.append(execution_id, lines)
        except Exception as error:
            # The thread that writes, and the task that prints, go on after any error.
            self._log(f"{len(lines)} line(s) that tasks of {execution_id} printed are lost: {error}")

    def _write(self) -> None:
        """Store lines while some are added.

        A keeper that is not used any more has no thread.
        """
        while True:
            time.sleep(FLUSH_SECONDS)
            with self._lock:
                waiting, self._open = self._open, set()
                if not waiting:
                    self._writer = None
                    return
            for lines in waiting:
                lines.flush()


class CommandLines:
    """The lines of one command. Used by its own thread, and by the keeper's."""

    def __init__(self, keeper: LineKeeper, command: Command) -> None:
        self._keeper, self._command = keeper, command
        self._lock = threading.Lock()
        self._waiting: list[TaskLine] = []
        self._bytes = self._kept = 0

    def add(self, task: str, attempt: int, index: int | None, line: str) -> None:
        """Add a line of a task, which holds no secret."""
        size = len(line) + 100
        with self._lock:
            if self._kept > COMMAND_BYTES:
                return
            self._kept += size
            if self._kept > COMMAND_BYTES:
                line = f"… more than {COMMAND_BYTES} bytes of this step's output are not kept"
            command = self._command
            first = not self._waiting
            self._waiting.append(
                TaskLine(self._keeper.now(), command.step, task, line, command.run, attempt, index)
            )
            self._bytes += size
            full = self._bytes > FLUSH_BYTES
        if full:
            self.flush()
        elif first:
            self._keeper.began(self)

    def flush(self) -> None:
        """Store all lines that were added; they can be read when this returns."""
        with self._lock:
            lines, self._waiting, self._bytes = self._waiting, [], 0
            if lines:
                self._keeper.keep(self._command.execution_id, lines)
