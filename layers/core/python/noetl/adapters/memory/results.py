"""Large values in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from noetl.adapters.buffered_stream import HeldStreams
from noetl.adapters.result_uri import check_uri
from noetl.domain.errors import ConflictError, NotFoundError
from noetl.ports.results import OneTier


class MemoryResultStore(HeldStreams, OneTier):
    """Of this process, and gone with it.

    ``limit``: bytes; what was not used for longest makes room for what is new (None: nothing does).
    """

    name = "memory"

    def __init__(self, limit: int | None = None) -> None:
        self._objects: dict[int, dict[str, bytes]] = {}
        self._limit = limit
        self._used: OrderedDict[str, int] = OrderedDict()
        """URI → execution, in the order of their last use; only where there is a limit."""
        self._size = 0
        self._lock = threading.Lock()

    def put(self, uri: str, data: bytes) -> None:
        execution_id, _ = check_uri(uri)
        with self._lock:
            kept = self._objects.setdefault(execution_id, {}).setdefault(uri, bytes(data))
            self._use(uri, execution_id, len(data))
        if kept != data:
            raise ConflictError(f"{uri} exists with other content", code="result_exists")

    def get(self, uri: str) -> bytes:
        execution_id, _ = check_uri(uri)
        with self._lock:
            data = self._objects.get(execution_id, {}).get(uri)
            if data is not None and uri in self._used:
                self._used.move_to_end(uri)
        if data is None:
            raise NotFoundError(
                f"{uri} is not in the memory of this process",
                code="REFERENCE_NOT_AVAILABLE",
                hint="it made room for newer results, or its process ended: the tier memory keeps nothing for longer",
            )
        return data

    def delete(self, uris: Sequence[str]) -> None:
        for uri in uris:
            execution_id, _ = check_uri(uri)
            with self._lock:
                data = self._objects.get(execution_id, {}).pop(uri, None)
                if data is not None and self._used.pop(uri, None) is not None:
                    self._size -= len(data)

    def delete_execution(self, execution_id: int) -> int:
        with self._lock:
            gone = self._objects.pop(execution_id, {})
            for uri, data in gone.items():
                if self._used.pop(uri, None) is not None:
                    self._size -= len(data)
            return len(gone)

    def _use(self, uri: str, execution_id: int, size: int) -> None:
        if self._limit is None:
            return
        if uri not in self._used:
            self._size += size
        self._used[uri] = execution_id
        self._used.move_to_end(uri)
        while self._size > self._limit and len(self._used) > 1:
            oldest, owner = self._used.popitem(last=False)
            self._size -= len(self._objects[owner].pop(oldest))
