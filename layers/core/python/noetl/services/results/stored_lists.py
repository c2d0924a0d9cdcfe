"""Lists in the result store as sequences that read only the parts they need.

An element, a slice or an iteration reads the parts that hold it, one or a few at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping
from itertools import accumulate
from typing import Any, TypeGuard, overload

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import TaskError
from noetl.domain.results.manifests import is_manifest
from noetl.domain.results.paged_list import PartedList
from noetl.domain.results.references import decoded
from noetl.ports.results import ResultStore
from noetl.services.results.stored_bytes import fetch, store_calls

CACHE_BYTES = 4 * 1024 * 1024
"""Most bytes of encoded parts and manifests kept decoded in one process (where rows take some ten times as much). A reader of a
list needs one part at a time."""


def is_parted(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether an object is the manifest of a list in parts that are lists.

    The parts follow one after the other, and the manifest states how long they are.
    """
    return (
        is_manifest(value)
        and value.get("strategy", "concat") == "concat"
        and not value.get("merge_path")
        and all(type(part.get("count")) is int for part in value["parts"])
    )


def object_key(ref: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """Make the cache key of an object's decoded content.

    It holds all that decides about the content, since any client may send references. One that states another checksum, or none, does
    not get (and does not leave) what an honest one gets.
    """
    meta = ref.get("meta")
    packed = meta.get("compression") if isinstance(meta, Mapping) else None
    return ref["ref"], ref.get("sha256"), ref.get("store"), str(packed)


class StoredLists:
    """The lists of one result store. Thread-safe.

    Methods that read raise TaskError(code="REFERENCE_NOT_AVAILABLE"), InfrastructureError, and ResultsUnreachable inside a template.
    """

    def __init__(self, results: ResultStore, cache_bytes: int = CACHE_BYTES) -> None:
        self._results = results
        self._cache: LruCache[Hashable, list[Any]] = LruCache(most_size=cache_bytes)
        """Values, each in a list: null is a value, too."""

    def open(self, ref: Mapping[str, Any]) -> StoredList:
        """Open the list behind a reference. It is read when an element is first asked for."""
        return StoredList(self, ref)

    def value(self, ref: Mapping[str, Any]) -> Any:
        """Read and decode an object."""
        found = self._cache.get(object_key(ref))
        if found is not None:
            return found[0]
        with store_calls():
            data = fetch(self._results, ref)
        value = decoded(data, ref)
        self.keep(ref, value, len(data))
        return value

    def keep(self, ref: Mapping[str, Any], value: Any, size: int) -> None:
        """Cache the content of an object of ``size`` bytes."""
        self._cache.put(object_key(ref), [value], size)


class StoredList(PartedList):
    """A list that is read like any list, and never changed.

    Used by one thread: it caches the part that it read last.
    """

    __slots__ = ("_ends", "_held", "_lists", "_parts", "_ref")

    def __init__(self, lists: StoredLists, ref: Mapping[str, Any]) -> None:
        self._lists = lists
        self._ref = ref
        self._parts: list[Mapping[str, Any]] | None = None
        self._ends: list[int] = []
        self._held: tuple[int, int, list[Any]] = (0, 0, [])
        """First place, last place + 1, elements."""

    def __len__(self) -> int:
        self._open()
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        begin, past, held = self._held
        if begin <= place < past:
            return held[place - begin]
        count = len(self)
        index = place + count if place < 0 else place
        if not 0 <= index < count:
            raise IndexError(place)
        number = bisect_right(self._ends, index)
        begin = self._ends[number - 1] if number else 0
        part = self._part(number)
        self._held = (begin, self._ends[number], part)
        return part[index - begin]

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self._open())):
            yield from self._part(number)

    def _open(self) -> list[Mapping[str, Any]]:
        if self._parts is None:
            found = self._lists.value(self._ref)
            if is_parted(found):
                parts = found["parts"]
            elif isinstance(found, list):
                parts = [{**self._ref, "count": len(found)}]
            else:
                raise TaskError(
                    f"the result {self._ref['ref']} is not a list",
                    kind="storage_access",
                    code="REFERENCE_NOT_AVAILABLE",
                )
            self._ends = list(accumulate(part["count"] for part in parts))
            self._parts = parts
        return self._parts

    def _part(self, number: int) -> list[Any]:
        found: list[Any] = self._lists.value(self._open()[number])
        return found
