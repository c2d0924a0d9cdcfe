"""Log lines of tasks in the results bucket.

One object holds a second or two of a worker's lines.

The objects are below the folder of the execution.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from noetl.adapters.aws.clients import FAILURES, answering, unreachable
from noetl.adapters.aws.s3_streams import is_missing
from noetl.adapters.line_pages import as_text, bad_cursor, from_text
from noetl.domain.task_logs import LinePage, TaskLine
from noetl.ports.task_logs import PAGE_BYTES

SETTLE_SECONDS = 5.0
"""Younger objects are not returned while an execution runs: one that another worker is writing may yet come before them."""
OBJECTS = 40
"""Most objects that one page is read from."""
_CURSOR = re.compile(r"(\d{13}-[0-9a-f]{12})(?::(\d{1,7}))?", re.ASCII)


class S3TaskLogs:
    """Log lines of tasks as objects of S3.

    Keys: ``executions/<execution id>/logs/<milliseconds>-<random>.jsonl``. A cursor is an object's name, with the number of its lines that
    were returned when not all were.
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
        found = _CURSOR.fullmatch(after)
        if after and found is None:
            raise bad_cursor(after)
        started, skip = (found[1], int(found[2] or 0)) if found else ("", 0)
        names = ([started] if skip else []) + self._names(execution_id, started, everything)
        found_lines: list[TaskLine] = []
        size, cursor = 0, after
        for place, name in enumerate(names):
            if place == OBJECTS or len(found_lines) >= limit or size >= PAGE_BYTES:
                return LinePage(found_lines, cursor, True)
            text = self._get(execution_id, name)
            begin = skip if name == started else 0
            lines = text.splitlines()
            taken = lines[begin : begin + limit - len(found_lines)]
            found_lines += [line for line in from_text(taken) if line is not None]
            size += len(text)
            end = begin + len(taken)
            cursor = name if end >= len(lines) else f"{name}:{end}"
        return LinePage(found_lines, cursor, ":" in cursor)

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
        names = [
            entry["Key"].removeprefix(folder).removesuffix(".jsonl") for entry in found.get("Contents", ())
        ]
        settled = f"{round((self._clock() - SETTLE_SECONDS) * 1000):013d}"
        return [name for name in names if _CURSOR.fullmatch(name) and (everything or name < settled)]

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


def _folder(execution_id: int) -> str:
    return f"executions/{int(execution_id)}/logs/"
