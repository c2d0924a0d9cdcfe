"""Large values in memory."""

from __future__ import annotations

import io
import threading
from pathlib import Path

from noetl.adapters.held_stream import HeldWriter
from noetl.adapters.result_uri import check_uri
from noetl.domain.errors import ConflictError, NotFoundError


class MemoryResultStore:
    name = "memory"

    def __init__(self) -> None:
        self._objects: dict[int, dict[str, bytes]] = {}
        self._lock = threading.Lock()

    def put(self, uri: str, data: bytes) -> None:
        execution_id, _ = check_uri(uri)
        with self._lock:
            kept = self._objects.setdefault(execution_id, {}).setdefault(uri, bytes(data))
        if kept != data:
            raise ConflictError(f"{uri} exists with other content", code="result_exists")

    def get(self, uri: str) -> bytes:
        execution_id, _ = check_uri(uri)
        with self._lock:
            data = self._objects.get(execution_id, {}).get(uri)
        if data is None:
            raise NotFoundError(f"{uri} is not in this store", code="REFERENCE_NOT_AVAILABLE")
        return data

    def writer(self, uri: str) -> HeldWriter:
        check_uri(uri)
        return HeldWriter(self.put, uri)

    def reader(self, uri: str, start: int = 0) -> io.BytesIO:
        stream = io.BytesIO(self.get(uri))
        stream.seek(start)
        return stream

    def path(self, uri: str) -> Path | None:
        return None

    def delete_execution(self, execution_id: int) -> int:
        with self._lock:
            return len(self._objects.pop(execution_id, {}))
