"""Streams of objects that are small enough to be held: for stores that take and give an object whole."""

from __future__ import annotations

import io
from collections.abc import Callable

from noetl.domain.errors import InfrastructureError


class BufferedWriter:
    """``put`` is called with all of it when it is committed. ``most``: bytes that the store takes."""

    def __init__(self, put: Callable[[bytes], None], most: int, what: str) -> None:
        self._put = put
        self._most = most
        self._what = what
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        if len(self._data) + len(data) > self._most:
            raise too_large(self._what, len(self._data) + len(data), self._most)
        self._data += data

    def commit(self) -> None:
        self._put(bytes(self._data))

    def abort(self) -> None:
        self._data.clear()


def buffered_reader(data: bytes, start: int) -> io.BytesIO:
    stream = io.BytesIO(data)
    stream.seek(start)
    return stream


def too_large(what: str, size: int, most: int) -> InfrastructureError:
    """The router never sends such a value here: whoever sees this has named the tier himself."""
    return InfrastructureError(
        f"{what}: {size} bytes, and this tier takes {most}", code="result_store_full", retryable=False
    )
