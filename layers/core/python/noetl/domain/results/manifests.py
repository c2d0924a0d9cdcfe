"""Manifests of values stored in parts: references of the parts, and how to join them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeGuard

from noetl.domain.patches.scope_patches import deep_merge
from noetl.domain.results.references import canonical, leads_to_object, select

Strategy = Literal["append", "concat", "merge", "replace"]
_STRATEGIES = frozenset({"append", "concat", "merge", "replace"})
STORED = b'{"kind":"manifest",'
"""How a manifest begins in the result store."""


def manifest(
    parts: Sequence[Mapping[str, Any]], strategy: Strategy = "concat", merge_path: str = ""
) -> dict[str, Any]:
    """Build a manifest.

    ``parts``: ``{ref, store, sha256, bytes, count, …}`` in order. ``merge_path``: the part of each that is joined (empty: all of it).
    """
    return {
        "kind": "manifest",
        "strategy": strategy,
        "merge_path": merge_path,
        "parts": list(parts),
        "total_parts": len(parts),
        "total_bytes": sum(int(part.get("bytes") or 0) for part in parts),
    }


def growing(parts: Sequence[Mapping[str, Any]], rest: Any) -> dict[str, Any]:
    """Build the value of a result that still grows.

    It has what is in the result store, and ``rest``, which follows. A mapping is merged, a list joined.
    """
    return {**manifest(parts, "merge" if isinstance(rest, dict) else "concat"), "rest": rest}


def entries(value: Mapping[str, Any]) -> int:
    """How many entries a joined list has, as far as its parts tell."""
    return sum(int(part.get("count") or 0) for part in value["parts"]) + len(value.get("rest") or ())


def is_manifest(value: Any) -> TypeGuard[Mapping[str, Any]]:
    if not isinstance(value, Mapping) or value.get("kind") != "manifest":
        return False
    parts, strategy = value.get("parts"), value.get("strategy", "concat")
    return (
        isinstance(strategy, str)
        and strategy in _STRATEGIES
        and isinstance(value.get("total_bytes", 0), int)
        and isinstance(parts, list)
        and all(isinstance(part, Mapping) and leads_to_object(part) for part in parts)
    )


def part_refs(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a manifest as references of results, which is how tasks read them."""
    return [canonical({"size": part.get("bytes"), **part}) for part in value["parts"]]


def part_of(ref: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the entry of a manifest for one of its parts, from the part's reference."""
    meta = ref.get("meta") or {}
    copied = {
        name: meta[name] for name in ("compression", "run", "execution_id") if meta.get(name) is not None
    }
    return {
        "ref": ref["ref"],
        "store": ref["store"],
        "sha256": ref["sha256"],
        "size": ref["size"],
        "bytes": ref["size"],
        "count": count,
        **({"meta": copied} if copied else {}),
    }


def _held(value: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Any]) -> Iterator[Any]:
    for part in value["parts"]:
        yield read(part)
    if "rest" in value:
        yield value["rest"]


def join(value: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Return the value that a manifest describes.

    ``read`` returns the content of a part; what it raises is passed on.
    """
    path = str(value.get("merge_path") or "")
    found = (select(part, path) if path else part for part in _held(value, read))
    strategy = value.get("strategy", "concat")
    if strategy == "append":
        return list(found)
    if strategy == "concat":
        return [item for part in found for item in part or ()]
    if strategy == "replace":
        return next(reversed(list(found)), None)
    merged: Any = {}
    for part in found:
        merged = deep_merge(merged, part)
    return merged
