"""A task's own output, cut into lines and bounded."""

from __future__ import annotations

from collections.abc import Callable

LOG_BYTES = 256 * 1024
"""How much of one call's output becomes log lines; the rest is counted and dropped."""
LINE_BYTES = 8 * 1024


class LogLines:
    """Bytes in, complete lines out. A line longer than ``LINE_BYTES`` arrives in pieces."""

    def __init__(self, sink: Callable[[str], None], limit: int = LOG_BYTES) -> None:
        self._sink = sink
        self._limit = limit
        self._rest = bytearray()
        self.total = 0
        """Bytes seen, those that were dropped included."""
        self.lines = 0

    def feed(self, data: bytes) -> None:
        """More output."""
        room = self._limit - self.total
        self.total += len(data)
        if room <= 0:
            return
        self._rest += data[:room]
        *whole, last = self._rest.split(b"\n")
        for line in whole:
            self._emit(line)
        while len(last) > LINE_BYTES:
            self._emit(last[:LINE_BYTES])
            last = last[LINE_BYTES:]
        self._rest = last
        if len(data) > room:
            self.close()
            self._sink(f"… output after {self._limit} bytes is not kept")

    def close(self) -> None:
        """Log the last line, which had no end."""
        if self._rest:
            self._emit(self._rest)
            self._rest = bytearray()

    def _emit(self, line: bytes | bytearray) -> None:
        self.lines += 1
        for start in range(0, max(len(line), 1), LINE_BYTES):
            self._sink(line[start : start + LINE_BYTES].decode("utf-8", "replace"))
