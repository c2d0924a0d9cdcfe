"""Places of cached task results in memory."""

from __future__ import annotations

from noetl.ports.task_cache import CachedResult


class MemoryTaskCache:
    """Entries of one process."""

    def __init__(self) -> None:
        self._entries: dict[str, CachedResult] = {}

    def get(self, key: str) -> CachedResult | None:
        return self._entries.get(key)

    def put(self, entry: CachedResult) -> None:
        self._entries[entry.key] = entry
