"""Paged lists: lists too long for one object, stored as parts that a manifest names.

Part: a JSON list. Manifest: ``{"kind": "manifest", "strategy": "concat", "parts": [{"ref", "store", "sha256", "count", "bytes"}, …],
"total_parts": n}``. A reader of a few elements reads the manifest and the parts that hold them, never the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from noetl.domain import codec
from noetl.domain.results.manifests import manifest
from noetl.domain.results.references import INLINE_LIMIT, is_ref, make_ref, ref_uri

PART_ITEMS = 1000
"""Most elements of one part."""
PART_BYTES = 1024 * 1024
"""A part is closed when it has about so many bytes."""


class PartedList(Sequence[Any]):
    """A list that is read part by part: an element or a slice reads what holds it.

    See ``services/results/stored_lists.py``.
    """

    __slots__ = ()


Put = Callable[[str, bytes], None]
"""Keep bytes under a URI: durable at once, or before any client learns of it."""


class PartsWriter:
    """A writer of a list, element by element, that holds one part of the list at most.

    Objects are named by their content (below ``execution_id``, ``step`` and its ``run``), so that writing the same list again writes the
    same objects, another list never touches them, and a step that is redriven makes damaged objects again. An element above
    ``item_limit`` bytes becomes an object of its own, its reference the element (one that is a reference already stays).
    """

    def __init__(
        self, put: Put, execution_id: int, step: str, *, run: int, tier: str, item_limit: int = INLINE_LIMIT
    ) -> None:
        self._put = put
        self._execution_id = execution_id
        self._step = step
        self._run = run
        self._tier = tier
        self._item_limit = item_limit
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._parts: list[dict[str, Any]] = []
        self.count = 0
        self.size = 0
        """Bytes of the whole list so far."""

    def add(self, value: Any) -> None:
        encoded = codec.encode(value)
        if len(encoded) > self._item_limit and not is_ref(value):
            encoded = codec.encode(self._apart(value, encoded))
        self._pending.append(encoded)
        self._pending_bytes += len(encoded) + 1
        self.count += 1
        if len(self._pending) >= PART_ITEMS or self._pending_bytes >= PART_BYTES:
            self._flush()

    def extend(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)

    def close(self) -> dict[str, Any]:
        """The reference of the manifest."""
        if self._pending:
            self._flush()
        encoded = codec.encode(manifest(self._parts))
        uri, digest = self._keep(encoded)
        return make_ref(uri, store=self._tier, size=self.size, sha256=digest, value={"count": self.count})

    def _flush(self) -> None:
        encoded = b"[" + b",".join(self._pending) + b"]"
        uri, digest = self._keep(encoded)
        self._parts.append(
            {
                "ref": uri,
                "store": self._tier,
                "sha256": digest,
                "count": len(self._pending),
                "bytes": len(encoded),
            }
        )
        self.size += len(encoded)
        self._pending, self._pending_bytes = [], 0

    def _apart(self, value: Any, encoded: bytes) -> dict[str, Any]:
        uri, digest = self._keep(encoded)
        return make_ref(uri, store=self._tier, size=len(encoded), sha256=digest, value=value, encoded=encoded)

    def _keep(self, encoded: bytes) -> tuple[str, str]:
        digest = hashlib.sha256(encoded).hexdigest()
        uri = ref_uri(self._execution_id, self._step, f"collection/{self._run}/{digest}")
        self._put(uri, encoded)
        return uri, digest
