"""Log lines of tasks in the results bucket.

One object holds a second or two of a worker's lines.

The objects are below the folder of the execution.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from noetl.adapters.aws.clients import FAILURES, answering, unreachable
from noetl.adapters.aws.s3_streams import is_missing
from noetl.adapters.line_pages import as_text, bad_cursor, make_page
from noetl.domain.task_logs import LinePage, TaskLine
from noetl.ports.task_logs import PAGE_BYTES

_Lines = Iterator[tuple[bytes, str]]
SETTLE_SECONDS = 5.0
"""Younger objects are not returned while an execution runs: one that another worker is writing may yet come before them."""
OBJECTS = 40
"""Most objects that one page is read from."""
_LIST = 1000
"""Names that S3 lists at once."""
_SPAN = 1000
"""Milliseconds that are looked through first for the newest names."""
_AHEAD = 60.0
"""Seconds that the clock of a worker may be ahead."""
_CURSOR = re.compile(r"(\d{13}-[0-9a-f]{12})(?::(\d{1,7}))?", re.ASCII)


class S3TaskLogs:
    """Log lines of tasks as objects of S3.

    Keys: ``executions/<execution id>/logs/<milliseconds>-<random>.jsonl``. A cursor is the name of an object and a number of its lines,
    which are before this place; without a number all of them are.
    """

    def __init__(self, bucket: str, client: Any, clock: Callable[[], float] = time.time) -> None:
        self._bucket, self._client, self._clock = bucket, client, clock

    def append(self, execution_id: int, lines: Sequence[TaskLine]) -> None:
        name = f"{round(self._clock() * 1000):013d}-{secrets.token_hex(6)}"
        with answering("s3"):
            self._client.put_object(
                Bucket=self._bucket, Key=f"{_folder(execution_id)}{name}.jsonl", Body=as_text(lines)
            )

    def read(self, execution_id: int, after: str, limit: int, *, everything: bool) -> LinePage:
        started, skip = _place(after)
        names = ([] if skip is None else [started]) + self._names(execution_id, started, everything)

        def lines_of(name: str, lines: list[bytes]) -> _Lines:
            begin = (skip or 0) if name == started else 0
            for number in range(begin, len(lines)):
                yield lines[number], name if number + 1 == len(lines) else f"{name}:{number + 1}"

        return self._page(execution_id, names, after, limit, lines_of, "")

    def end(self, execution_id: int, *, everything: bool) -> str:
        latest = "9" * 13 if everything else self._settled()
        names = self._names_before(execution_id, latest, 1)
        return names[0] if names else ""

    def read_back(self, execution_id: int, before: str, limit: int) -> LinePage:
        started, keep = _place(before)
        if not started:
            return LinePage([], "")
        names = [started, *self._names_before(execution_id, started, OBJECTS + 1)]
        if keep == 0:
            del names[0]

        def lines_of(name: str, lines: list[bytes]) -> _Lines:
            until = len(lines) if keep is None or name != started else min(keep, len(lines))
            for number in reversed(range(until)):
                yield lines[number], f"{name}:{number}"

        return self._page(execution_id, names, before, limit, lines_of, ":0")

    def _page(
        self,
        execution_id: int,
        names: Sequence[str],
        cursor: str,
        limit: int,
        lines_of: Callable[[str, list[bytes]], _Lines],
        over: str,
    ) -> LinePage:
        """Read objects from a cursor on until a page is full.

        ``lines_of``: the lines of an object in the order that is wanted, each with the cursor behind it. ``over``: what the name of an
        object with no more lines has behind it in a cursor.
        """
        texts: list[tuple[bytes, str]] = []
        size = 0
        for read, name in enumerate(names):
            if read == OBJECTS or len(texts) >= limit or size >= PAGE_BYTES:
                return make_page(texts, cursor, True)
            text = self._get(execution_id, name)
            lines = lines_of(name, text.splitlines())
            cursor = name + over
            for line, cursor in islice(lines, limit - len(texts)):
                texts.append((line, cursor))
            if next(lines, None) is not None:
                return make_page(texts, cursor, True)
            size += len(text)
        return make_page(texts, cursor, False)

    def delete_execution(self, execution_id: int) -> None:
        with answering("s3"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=_folder(execution_id)
            )
            for page in pages:
                keys = [{"Key": entry["Key"]} for entry in page.get("Contents", ())]
                if keys:
                    self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True})

    def _names(self, execution_id: int, after: str, everything: bool) -> list[str]:
        """List names of objects after a cursor, oldest first; one more than a page is read from."""
        folder = _folder(execution_id)
        with answering("s3"):
            found = self._client.list_objects_v2(
                Bucket=self._bucket,
                Prefix=folder,
                StartAfter=f"{folder}{after}.jsonl" if after else folder,
                MaxKeys=OBJECTS + 1,
            )
        settled = self._settled()
        return [name for name in _names_in(found, folder) if everything or name < settled]

    def _settled(self) -> str:
        """Return the name that objects have from which on another may yet come before them."""
        return f"{round((self._clock() - SETTLE_SECONDS) * 1000):013d}"

    def _names_before(self, execution_id: int, before: str, count: int) -> list[str]:
        """List names of objects before another, the newest first; ``count`` of them, or more.

        Objects are listed from the oldest only. So spans of time are listed, each four times as long as the one after it, and when
        a list does not hold all of a span, its halves.
        """
        folder = _folder(execution_id)
        with answering("s3"):
            first = self._listed(folder, "", 1)
        if not first or first[0] >= before:
            return []
        begin, stop = int(first[0][:13]), min(int(before[:13]), round((self._clock() + _AHEAD) * 1000))
        names: list[str] = []
        span, halving = _SPAN, False
        while len(names) < count and stop >= begin:
            start = max(begin, stop - span)
            with answering("s3"):
                listed = self._listed(folder, f"{start:013d}", _LIST)
            if len(listed) == _LIST and listed[-1] < before and int(listed[-1][:13]) <= stop and span > 1:
                span, halving = (stop - start + 1) // 2, True
                continue
            names += [name for name in reversed(listed) if name < before and int(name[:13]) <= stop]
            stop = start - 1
            span = max(1, span // 2) if halving else span * 4
        return names

    def _listed(self, folder: str, after: str, most: int) -> list[str]:
        found = self._client.list_objects_v2(
            Bucket=self._bucket, Prefix=folder, StartAfter=f"{folder}{after}", MaxKeys=most
        )
        return _names_in(found, folder)

    def _get(self, execution_id: int, name: str) -> bytes:
        """Read an object; empty when it is gone, because its execution is being pruned."""
        try:
            data: bytes = self._client.get_object(
                Bucket=self._bucket, Key=f"{_folder(execution_id)}{name}.jsonl"
            )["Body"].read()
        except FAILURES as error:
            if is_missing(error, lists=True):  # it was listed just now
                return b""
            raise unreachable(error, "s3") from error
        return data


def _place(cursor: str) -> tuple[str, int | None]:
    """Read a cursor: a name and a number of lines, None for all of them.

    Raises InvalidInputError.
    """
    if not cursor:
        return "", None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise bad_cursor(cursor)
    return found[1], None if found[2] is None else int(found[2])


def _names_in(listed: Any, folder: str) -> list[str]:
    names = [entry["Key"].removeprefix(folder).removesuffix(".jsonl") for entry in listed.get("Contents", ())]
    return [name for name in names if _CURSOR.fullmatch(name)]


def _folder(execution_id: int) -> str:
    return f"executions/{int(execution_id)}/logs/"
