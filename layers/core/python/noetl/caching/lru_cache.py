"""A bounded cache that forgets what was used longest ago."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """The values that were used last. Thread-safe.

    ``most``: entries. ``most_size``: what the sizes of all entries may add up to, in the unit of ``put``; one value that is larger stays
    until the next one is put.
    """

    def __init__(self, most: int | float = float("inf"), most_size: int | float = float("inf")) -> None:
        self._most = most
        self._most_size = most_size
        self._size = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Return whether the key is kept, which is no use of it."""
        return key in self._entries

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int = 0) -> bool:
        """Keep a value. Return whether the key is new."""
        with self._lock:
            before = self._entries.pop(key, None)
            if before is not None:
                self._size -= before[1]
            self._keep(key, value, size)
            return before is None

    def get_or_put(self, key: K, value: V) -> V:
        """Return the value of the key; keep and return ``value`` where there is none."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                return found[0]
            self._keep(key, value, 0)
            return value

    def pop(self, key: K) -> V | None:
        """Forget a key, and return its value."""
        with self._lock:
            found = self._entries.pop(key, None)
            if found is None:
                return None
            self._size -= found[1]
            return found[0]

    def values(self) -> list[V]:
        """Return every value, the one that was used longest ago first."""
        with self._lock:
            return [value for value, _ in self._entries.values()]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _keep(self, key: K, value: V, size: int) -> None:
        self._entries[key] = (value, size)
        self._size += size
        while len(self._entries) > max(1, self._most) or (
            self._size > self._most_size and len(self._entries) > 1
        ):
            self._size -= self._entries.popitem(last=False)[1][1]
