"""Port of the cache of task results: where the result of an earlier call is.

An entry holds a reference, never a result: the result belongs to the execution that made it, and is removed with it.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from noetl.domain import codec


class CachedResult(msgspec.Struct, frozen=True):
    """The place of a result that later calls may take.

    ``key``: SHA-256 (hex). ``execution_id``, ``step``, ``run``: who made the result. ``at``, ``until``: epoch seconds by the worker's
    clock. ``ref``: the reference of the stored result. ``meta``: what the call said beside it, which rules read as ``outcome.http``.
    """

    key: str
    execution_id: int
    step: str
    run: int
    at: float
    until: float
    ref: dict[str, Any]
    meta: dict[str, Any] = {}


_DECODER = codec.decoder(CachedResult)


def stored_entry(data: bytes) -> CachedResult | None:
    """Read a stored entry.

    None for one that cannot be read, which is no reason to fail a task.
    """
    try:
        return codec.decode_as(_DECODER, data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


class TaskCache(Protocol):
    """Entries by key. Adapters: Postgres; memory; objects of a bucket.

    Raises InfrastructureError when the store cannot be reached.
    """

    def get(self, key: str) -> CachedResult | None:
        """Return the latest entry; it may be out of date, and its result may be removed."""

    def put(self, entry: CachedResult) -> None:
        """Replace the entry of its key. It can be read when this returns."""
