"""Values with their references loaded.

(Beside ``hydration``, which the API reads with: this one knows what templates produce.)
"""

from __future__ import annotations

from typing import Any

from noetl.domain.results.manifests import is_manifest
from noetl.domain.results.references import is_ref, plain_loop
from noetl.templating.contract import RenderedSql, RenderedStatement


def hydrated(value: Any, hydrate: Any) -> Any:
    """Load every reference in ``value``; return the same object when there is none."""
    if not value or type(value) in _SCALARS:
        return value
    if isinstance(value, dict):
        if is_ref(value) or is_manifest(value):
            return _loaded(hydrate(value), hydrate)
        if "kind" in value and plain_loop(value) is not value:
            return hydrated(plain_loop(value), hydrate)
        return _changed(value, {key: hydrated(entry, hydrate) for key, entry in value.items()})
    if isinstance(value, list):
        found = [hydrated(entry, hydrate) for entry in value]
        return value if all(new is old for new, old in zip(found, value, strict=True)) else found
    if isinstance(value, RenderedSql):
        statements = tuple(
            RenderedStatement(one.text, hydrated(dict(one.params), hydrate)) for one in value.statements
        )
        return RenderedSql(statements)
    return value


def _loaded(value: Any, hydrate: Any) -> Any:
    """Load the references among the entries of a large result (large results of a loop)."""
    if isinstance(value, list) and any(is_ref(entry) or plain_loop(entry) is not entry for entry in value):
        return [hydrated(entry, hydrate) for entry in value]
    return plain_loop(value)


_SCALARS = frozenset((str, int, float, bool, type(None)))


def _changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return old if all(new[key] is old[key] for key in old) else new
