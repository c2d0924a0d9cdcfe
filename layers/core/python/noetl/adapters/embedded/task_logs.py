"""Lines of tasks in files: one per execution, which several processes may add to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from noetl.adapters.line_pages import as_text, make_page, number
from noetl.domain.errors import InfrastructureError
from noetl.domain.task_logs import LinePage, TaskLine
from noetl.ports.task_logs import PAGE_BYTES

_Read = TypeVar("_Read")
_BLOCK = 64 * 1024
"""Bytes that are read at once from the end."""


class FileTaskLogs:
    """Task logs in files ``<root>/<execution id>.jsonl``, readable by this user only.

    A cursor is a position in the file. Lines are not durable: no write waits for the disk, so a power cut may cost the last ones.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def append(self, execution_id: int, lines: Sequence[TaskLine]) -> None:
        text = as_text(lines)
        try:
            with contextlib.closing(_Handle(self._open(execution_id))) as file:
                file.write(text)
        except OSError as error:
            raise _unusable(execution_id, error) from error

    def read(self, execution_id: int, after: str, limit: int, *, everything: bool) -> LinePage:
        start = number(after)
        return self._reading(execution_id, lambda file: _page(file, start, limit), LinePage([], str(start)))

    def end(self, execution_id: int, *, everything: bool) -> str:
        return self._reading(execution_id, lambda file: str(_end(file)), "0")

    def read_back(self, execution_id: int, before: str, limit: int) -> LinePage:
        stop = number(before)
        return self._reading(
            execution_id, lambda file: _page_back(file, min(stop, _end(file)), limit), LinePage([], "0")
        )

    def delete_execution(self, execution_id: int) -> None:
        try:
            self._path(execution_id).unlink(missing_ok=True)
        except OSError as error:
            raise _unusable(execution_id, error) from error

    def _reading(self, execution_id: int, read: Callable[[BinaryIO], _Read], without: _Read) -> _Read:
        """Read the file; ``without`` is the answer of an execution that has none."""
        try:
            with self._path(execution_id).open("rb") as file:
                return read(file)
        except FileNotFoundError:
            return without
        except OSError as error:
            raise _unusable(execution_id, error) from error

    def _open(self, execution_id: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            return os.open(self._path(execution_id), flags, 0o600)
        except FileNotFoundError:
            for folder in (self._root.parent, self._root):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._path(execution_id), flags, 0o600)

    def _path(self, execution_id: int) -> Path:
        return self._root / f"{int(execution_id)}.jsonl"


class _Handle:
    """What is written at once stays together, also beside another process (O_APPEND)."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def write(self, text: bytes) -> None:
        left = memoryview(text)
        while left:
            left = left[os.write(self._handle, left) :]

    def close(self) -> None:
        os.close(self._handle)


def _page(file: BinaryIO, start: int, limit: int) -> LinePage:
    """Read a page of whole lines; a line that is being written now is in the next page."""
    file.seek(start)
    texts: list[tuple[bytes, str]] = []
    place = start
    while len(texts) < limit and place - start < PAGE_BYTES:
        text = file.readline()
        if not text.endswith(b"\n"):
            break
        place += len(text)
        texts.append((text, str(place)))
    more = file.readline().endswith(b"\n")
    return make_page(texts, str(place), more)


def _end(file: BinaryIO) -> int:
    """Return the place behind the last whole line."""
    for place, block in _blocks_back(file, file.seek(0, os.SEEK_END)):
        if (found := block.rfind(b"\n")) >= 0:
            return place + found + 1
    return 0


def _page_back(file: BinaryIO, stop: int, limit: int) -> LinePage:
    """Read a page of whole lines before ``stop``, which is the place behind one."""
    text, start = b"", stop
    for place, block in _blocks_back(file, stop):
        text, start = block + text, place
        if (ends := text.count(b"\n")) > limit or (ends > 1 and len(text) > PAGE_BYTES):
            break
    if start:
        begin = text.find(b"\n") + 1
        text, start = text[begin:], start + begin
    texts: list[tuple[bytes, str]] = []
    place = stop
    for line in reversed(text.splitlines(keepends=True)[-limit:]):
        if stop - place >= PAGE_BYTES:
            break
        place -= len(line)
        texts.append((line, str(place)))
    return make_page(texts, str(place), place > 0)


def _blocks_back(file: BinaryIO, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yield what comes before ``stop``, the last block first, each with its place."""
    while stop > 0:
        start = max(0, stop - _BLOCK)
        file.seek(start)
        yield start, file.read(stop - start)
        stop = start


def _unusable(execution_id: int, error: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"the lines of execution {execution_id}: {error.strerror or error}", code="task_logs_failed"
    )
