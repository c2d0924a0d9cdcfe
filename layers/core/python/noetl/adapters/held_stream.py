"""Streams over stores that take and give whole objects: what is written is held until it is complete."""

from __future__ import annotations

from collections.abc import Callable


class HeldWriter:
    """``put``: the store's own, called once."""

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
