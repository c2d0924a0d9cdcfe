"""Streams over stores of whole objects.

A writer holds its bytes until the object is complete.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from noetl.adapters.result_uri import check_uri


class HeldWriter:
    """A writer that holds its bytes in memory. ``put``: the store's own, called once."""

    def __init__(self, put: Callable[[str, bytes], None], uri: str) -> None:
        self._put = put
        self._uri = uri
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        self._data += data

    def commit(self) -> None:
        self._put(self._uri, bytes(self._data))

    def abort(self) -> None:
        self._data.clear()


class HeldStreams(ABC):
    """The stream methods of ``ports.results.ResultStore``, built on ``put`` and ``get``."""

    @abstractmethod
    def put(self, uri: str, data: bytes) -> None: ...

    @abstractmethod
    def get(self, uri: str) -> bytes: ...

    def writer(self, uri: str) -> HeldWriter:
        """Return a writer for an object. Raises InvalidInputError."""
        check_uri(uri)
        return HeldWriter(self.put, uri)

    def reader(self, uri: str, start: int = 0) -> io.BytesIO:
        stream = io.BytesIO(self.get(uri))
        stream.seek(start)
        return stream

    def path(self, uri: str) -> Path | None:
        return None
