"""The result of an execution in an answer of limited size.

The answer has the whole result, or the addresses of its large parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.results.manifests import is_manifest
from noetl.domain.results.references import canonical, is_ref, size_of
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.results import ResultStore
from noetl.services.queries import read_execution
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.stored_bytes import fetch, outages

LEAST = 256
"""Bytes that reading one reference counts for at least."""


class Delivered(msgspec.Struct, frozen=True):
    """A result as an answer holds it.

    ``whole``: ``value`` is the result. Otherwise it has references (``parts``, by URI) in the place of large values. Files, which are no
    values, are always references.
    """

    value: Any
    whole: bool
    parts: dict[str, Mapping[str, Any]]


def in_parts(store: ExecutionStore, results: ResultStore, execution_id: int) -> Delivered:
    """Return a result with references for large values. Raises as ``deliver_result``."""
    return divided(read_execution.unresolved_result(store, execution_id), results)


def divided(value: Any, results: ResultStore) -> Delivered:
    """Return ``value`` with every large value as its reference.

    Raises TaskError and InfrastructureError.
    """
    parts = {str(ref["ref"]): ref for ref in map(canonical, _references(value))}
    return Delivered(value, not parts, parts | _pieces(parts, results))


class _TooMuchError(Exception):
    """The result is larger than any answer may be."""


def deliver_result(store: ExecutionStore, results: ResultStore, execution_id: int, *, most: int) -> Delivered:
    """Deliver the result of an execution as ``deliver`` does.

    Raises NotFoundError, ConflictError (codes ``not_completed``, ``execution_failed``), TaskError(code="REFERENCE_NOT_AVAILABLE") and
    InfrastructureError.
    """
    return deliver(read_execution.unresolved_result(store, execution_id), results, most=most)


def deliver(value: Any, results: ResultStore, *, most: int) -> Delivered:
    """Read large parts of ``value`` as long as the whole stays below ``most`` bytes of JSON.

    Raises TaskError and InfrastructureError.
    """
    response = divided(value, results)
    if response.whole:
        return response
    left = most
    hydrate = make_hydrate(results, cache_bytes=0)

    def read(ref: Mapping[str, Any]) -> Any:
        nonlocal left
        left -= max(size_of(ref), LEAST)  # a reference may tell less than there is, and lead to others
        if left < 0:
            raise _TooMuchError
        return hydrate(ref)

    try:
        whole = read_execution.resolve_with(response.value, read)
    except _TooMuchError:
        return response
    if len(codec.encode(whole)) > most:
        return response
    return Delivered(whole, True, {str(ref["ref"]): ref for ref in map(canonical, _references(whole))})


def _pieces(parts: Mapping[str, Mapping[str, Any]], results: ResultStore) -> dict[str, Mapping[str, Any]]:
    """Return the parts of those large values that are kept in parts themselves."""
    found: dict[str, Mapping[str, Any]] = {}
    for ref in parts.values():
        meta = ref.get("meta")
        if isinstance(meta, Mapping) and meta.get("parts"):
            with outages():
                listed = codec.decode(fetch(results, ref))
            found |= {str(part["ref"]): part for part in listed["parts"]} if is_manifest(listed) else {}
    return found


def _references(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    if is_ref(value):
        yield value
    elif depth <= read_execution.MAX_DEPTH and isinstance(value, Mapping):
        for item in value.values():
            yield from _references(item, depth + 1)
    elif depth <= read_execution.MAX_DEPTH and isinstance(value, list):
        for item in value:
            yield from _references(item, depth + 1)
