"""Results that are too large to travel: the reference that stands for them.

A reference is a mapping with ``"kind": "result_ref"``; objects are immutable and live under their execution.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import Any, TypeGuard

INLINE_LIMIT = 32 * 1024
"""Bytes of encoded JSON that travel inline (default; ``spec.result.inline_max_bytes`` overrides per task)."""
PREVIEW_LIMIT = 1024
KEYS_LIMIT = 64
"""Top-level keys of a large result that its reference lists."""
PROMOTED = ("row_count", "status", "status_code", "affected_rows", "count")
"""Scalars of a large result that stay readable on its reference."""
_PART = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


def is_ref(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """True for the mapping of a result reference."""
    return isinstance(value, Mapping) and value.get("kind") == "result_ref" and "ref" in value


def plain_loop(value: Any) -> Any:
    """A loop's result as the list it stands for; any other value as it is."""
    if isinstance(value, Mapping) and value.get("kind") == "loop_result" and "results" in value:
        return value["results"]
    return value


def select(value: Any, path: str) -> Any:
    """``$.paging.more`` or ``$.rows[0].id`` in a value; None when it leads nowhere."""
    for name, place in _PART.findall(path.removeprefix("$") if path.startswith("$") else f".{path}"):
        value = plain_loop(value)
        if name and isinstance(value, Mapping):
            value = value.get(name)
        elif place and isinstance(value, (list, tuple)) and int(place) < len(value):
            value = value[int(place)]
        else:
            return None
    return value


def top_level_keys(value: Any) -> list[str] | None:
    """The keys of a mapping, so that its reference can tell what is inside (none for other values); None: too many to list."""
    if not isinstance(value, Mapping):
        return []
    keys = [str(key) for key in value]
    return keys if len(keys) <= KEYS_LIMIT and sum(map(len, keys)) <= PREVIEW_LIMIT else None


def ref_uri(execution_id: int, step: str, key: str) -> str:
    """``noetl://execution/<eid>/result/<step>/<uuid>``; the uuid is derived from ``key``, so a repeat writes the same object."""
    digest = uuid.UUID(bytes=hashlib.sha256(f"{execution_id}/{step}/{key}".encode()).digest()[:16], version=4)
    return f"noetl://execution/{execution_id}/result/{step}/{digest}"


def format_of(ref: Mapping[str, Any]) -> str:
    """What the bytes behind a reference are: json unless it says so (``ArtifactFormat``)."""
    meta = ref.get("meta")
    found = meta.get("format") if isinstance(meta, Mapping) else None
    return found if isinstance(found, str) else "json"


def artifact_ref(
    uri: str,
    *,
    store: str,
    size: int,
    sha256: str,
    format: str,
    content_type: str,
    sample: bytes,
    extracted: Mapping[str, Any],
) -> dict[str, Any]:
    """The reference of bytes that were written as a stream. ``sample``: how they begin."""
    shown = sample.decode("utf-8", "replace") if format in ("json", "jsonl", "csv", "text") else ""
    return {
        "kind": "result_ref",
        "ref": uri,
        "store": store,
        "size": size,
        "sha256": sha256,
        "scope": "execution",
        "expires_at": None,
        "extracted": dict(extracted),
        "keys": None if format == "json" else [],
        "meta": {
            "content_type": content_type,
            "format": format,
            "bytes": size,
            "sha256": sha256,
            "compression": None,
        },
        "preview": {"truncated": size > len(sample), "bytes": size, "sample": shown},
    }


def make_ref(
    uri: str,
    *,
    store: str,
    size: int,
    sha256: str,
    value: Any,
    preview_limit: int = PREVIEW_LIMIT,
    encoded: bytes = b"",
) -> dict[str, Any]:
    """The mapping that takes a large value's place: where it is, how to check it, promoted scalars and a preview."""
    promoted: dict[str, Any] = {}
    if isinstance(value, Mapping):
        promoted = {
            name: value[name]
            for name in PROMOTED
            if name in value
            and (
                isinstance(value[name], (int, float, bool))
                or (isinstance(value[name], str) and len(value[name]) <= 200)
            )
        }
    elif isinstance(value, list):
        promoted = {"count": len(value)}
    return {
        "kind": "result_ref",
        "ref": uri,
        "store": store,
        "size": size,
        "sha256": sha256,
        "scope": "execution",
        "expires_at": None,
        "extracted": promoted,
        "keys": top_level_keys(value),
        "preview": {
            "truncated": True,
            "bytes": size,
            "sample": encoded[:preview_limit].decode("utf-8", "replace"),
        },
    }
