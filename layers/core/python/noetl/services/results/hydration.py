"""The reader of result references, which verifies checksums and joins manifests."""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import TaskError
from noetl.domain.results.manifests import is_manifest, join
from noetl.domain.results.references import canonical, decoded, format_of, size_of
from noetl.ports.results import ResultStore
from noetl.services.results.stored_bytes import MOST, fetch, store_calls
from noetl.services.results.stored_lists import StoredLists, is_parted, object_key

if TYPE_CHECKING:
    from noetl.kinds.support.object_format import Format

CACHE_BYTES = 64 * 1024 * 1024
"""Most bytes of encoded objects kept decoded in one process."""
LOADED: dict[str, Format] = {"jsonl": "jsonl", "csv": "csv", "text": "text"}
"""Formats of text that are a value, beside JSON."""
NOT_VALUES = ("result_too_large_to_load", "result_not_a_value", "object_format")
"""Codes: the reference is all there is to show."""


def make_hydrate(
    results: ResultStore, cache_bytes: int = CACHE_BYTES, most: int = MOST
) -> Callable[[Mapping[str, Any]], Any]:
    """Make a ``Hydrate`` over a result store. Thread-safe.

    ``most``: bytes of an artifact that is loaded as one value. It raises TaskError(code="REFERENCE_NOT_AVAILABLE", or
    "result_too_large_to_load"), and ResultsUnreachable.
    """
    return _Hydrator(results, cache_bytes, most)


class _Hydrator:
    def __init__(self, results: ResultStore, limit: int, most: int) -> None:
        self.results = results
        self.lists = StoredLists(results)
        self.limit = limit
        self.most = most
        self.cache: LruCache[Hashable, list[Any]] = LruCache(most_size=limit)
        """Values, each in a list: null is a value, too."""

    def __call__(self, ref: Mapping[str, Any]) -> Any:
        return self._value(ref, lazily=False)

    def lazily(self, ref: Mapping[str, Any]) -> Any:
        """Read the value; of a list in parts, a ``PartedList``."""
        return self._value(ref, lazily=True)

    def _value(self, ref: Mapping[str, Any], *, lazily: bool) -> Any:
        if is_manifest(ref):
            return join(ref, self)
        ref = canonical(ref)
        form = format_of(ref)
        key = (*object_key(ref), form)
        found = self.cache.get(key)
        if found is not None:
            return found[0]
        if form != "json":
            value, size = self._content(ref, form)
            self._keep(key, value, size)
            return value
        data = self._read(ref)
        value = decoded(data, ref)
        if lazily and is_parted(value):
            self.lists.keep(ref, value, len(data))
            return self.lists.open(ref)
        if is_manifest(value):
            size = max(len(data), value.get("total_bytes") or size_of(ref))
            value = join(value, lambda part: decoded(self._read(part), part))
            self._keep(key, value, size)
            return value
        self._keep(key, value, len(data))
        return value

    def _content(self, ref: Mapping[str, Any], form: str) -> tuple[Any, int]:
        """Decode an artifact into its value, and count its bytes."""
        what = f"the result {ref['ref']}"
        hint = "pass the reference on to a task that reads it as a stream"
        if form != "parquet" and form not in LOADED:
            raise TaskError(
                f"{what} is {form}, which is not a value", kind="schema", code="result_not_a_value", hint=hint
            )
        if size_of(ref) > self.most:
            raise TaskError(
                f"{what} has {size_of(ref)} bytes; at most {self.most} are loaded as a value",
                kind="storage_quota",
                code="result_too_large_to_load",
                hint=hint,
            )
        data = self._read(ref)
        if form == "parquet":
            from noetl.kinds.rows.reading import read_rows

            try:
                rows = read_rows(io.BytesIO(data), "parquet", what=what)
                return [row for chunk in rows for row in chunk], len(data)
            except TaskError as error:
                if error.code != "dependency_missing":
                    raise
                # Functions of a deployment, and a bare installation, have no DuckDB: the reference is shown, with its link.
                raise TaskError(
                    f"{what} is parquet, which is read by tasks only",
                    kind="schema",
                    code="result_not_a_value",
                    hint=hint,
                ) from None
        from noetl.kinds.support.object_format import read_object

        return read_object(data, LOADED[form], "", "", what), len(data)

    def _read(self, ref: Mapping[str, Any]) -> bytes:
        """Read the bytes of a reference, or of a part of a manifest, as they were stored."""
        with store_calls():
            return fetch(self.results, ref, max(self.most, MOST))

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        if size <= self.limit // 4:
            self.cache.put(key, [value], size)
