"""References of results: small values in the place of results that are too large to send.

A reference is a mapping with ``"kind": "result_ref"``; objects are immutable and live under their execution. Other published shapes of it
are read as well (``canonical``).
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import Any, TypeGuard

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.ids import LARGEST_ID
from noetl.domain.results.retention import PERMANENT, Scope
from noetl.domain.sizes.table import INLINE_BYTES, PREVIEW_BYTES

INLINE_LIMIT = INLINE_BYTES.value
"""Bytes of encoded JSON that travel inline (default; ``spec.result.inline_max_bytes`` overrides per task)."""
PREVIEW_LIMIT = PREVIEW_BYTES.value
KEYS_LIMIT = 64
"""Top-level keys of a large result that its reference lists."""
PROMOTED = ("row_count", "status", "status_code", "affected_rows", "count")
"""Scalars of a large result that stay readable on its reference."""
MEDIA_TYPES: Mapping[str, str] = {
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "text": "text/plain; charset=utf-8",
    "bytes": "application/octet-stream",
}
"""What the bytes of an artifact are called where bytes have media types, by ``ArtifactFormat``."""
_PART = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


_KINDS = frozenset({"result_ref", "temp_ref"})
_PLACES = frozenset({"object_store", "nats", "relational"})
_URI = re.compile(r"noetl://execution/([0-9]{1,19})/result/(.+)/[^/]+\Z", re.DOTALL)
_READABLE = re.compile(r"noetl://execution/([0-9]{1,19})/.{1,2000}\Z", re.DOTALL)
_SHAPES: Mapping[str, tuple[type, ...]] = {
    "store": (str,),
    "size": (int,),
    "bytes": (int,),
    "count": (int,),
    "sha256": (str,),
    "meta": (Mapping,),
    "extracted": (Mapping,),
    "keys": (list,),
}
"""Further entries of an object's reference; None: there are none."""


def is_ref(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether ``value`` is the mapping of a result reference, in any published shape.

    A mapping that merely resembles one (its ``ref`` is no URI of a result, its ``size`` is a text) is data: any sender may have made it.
    """
    if not isinstance(value, Mapping):
        return False
    if "kind" in value:
        kind = value["kind"]
        return isinstance(kind, str) and kind in _KINDS and leads_to_object(value)
    return "locator" in value and _located(value) is not None


def leads_to_object(value: Mapping[str, Any]) -> bool:
    """Return whether ``ref`` is a URI that stores take and the other entries have their types."""
    uri = value.get("ref")
    found = _READABLE.match(uri) if isinstance(uri, str) else None
    if found is None or int(found[1]) > LARGEST_ID:
        return False
    for name, types in _SHAPES.items():
        entry = value.get(name)
        if entry is not None and (not isinstance(entry, types) or (isinstance(entry, int) and entry < 0)):
            return False
    return True


def size_of(ref: Mapping[str, Any]) -> int:
    """Return the bytes that a reference states; 0 where it states none."""
    size = ref.get("size")
    return size if isinstance(size, int) else 0


def _located(value: Mapping[str, Any]) -> str | None:
    """Return the URI in ``{type, locator, auth_reference, meta}``, or None.

    None: the locator leads to no result of NoETL, so the mapping is data.
    """
    place, locator = value.get("type"), value["locator"]
    if not isinstance(place, str) or place not in _PLACES:
        return None
    if isinstance(locator, Mapping):
        locator = locator.get("ref") or locator.get("uri")
    return locator if isinstance(locator, str) and _URI.match(locator) else None


def canonical(ref: Mapping[str, Any]) -> Mapping[str, Any]:
    """A reference in the shape that is written here; one that has it already, as it is."""
    if ref.get("kind") == "result_ref":
        return ref
    meta = ref.get("meta")
    entries: dict[str, Any] = dict(meta) if isinstance(meta, Mapping) else {}
    uri = ref["ref"] if "ref" in ref else _located(ref)
    return {
        "store": ref.get("type", ""),
        "size": entries["bytes"] if isinstance(entries.get("bytes"), int) else 0,
        "sha256": entries["sha256"] if isinstance(entries.get("sha256"), str) else None,
        "scope": "execution",
        "expires_at": None,
        "extracted": {},
        "preview": None,
        **ref,
        "kind": "result_ref",
        "ref": uri,
        "meta": entries,
    }


def made_by(ref: Mapping[str, Any]) -> tuple[int, str, int | None]:
    """Return (execution, step, step run) that made a result, as its reference states them.

    A part that the reference does not state is 0, "" or None.
    """
    found = _URI.match(str(ref.get("ref")))
    meta = ref.get("meta")
    entries: Mapping[str, Any] = meta if isinstance(meta, Mapping) else {}
    run, execution = entries.get("run"), entries.get("execution_id")
    if found is None:
        return 0, "", None
    maker = int(execution) if isinstance(execution, str) and execution.isdigit() else int(found[1])
    return maker, found[2], run if isinstance(run, int) else None


def unavailable(ref: Mapping[str, Any], why: str = "is not available") -> TaskError:
    """A result that cannot be read, and who can make it again."""
    execution, step, run = made_by(ref)
    details: dict[str, Any] = {"ref": str(ref.get("ref"))}
    hint = None
    if step:
        details |= {"execution_id": str(execution), "step": step}
        if run is not None:
            details["run"] = run
        hint = f"step {step} of execution {execution} made it; `noetl redrive {execution} --from {step}` makes it again"
    return TaskError(
        f"the result {ref.get('ref')} {why}",
        kind="storage_access",
        code="REFERENCE_NOT_AVAILABLE",
        hint=hint,
        details=details,
    )


def decoded(data: bytes, ref: Mapping[str, Any]) -> Any:
    """The value of a result that is kept as JSON.

    Raises TaskError: a body that was streamed is what its sender called it, and may be none.
    """
    try:
        return codec.decode(data)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise TaskError(
            f"the result {ref.get('ref')} is kept as JSON and cannot be read as that: {why}",
            kind="parse",
            code="object_format",
            hint="if what came is no JSON, keep it as what it is: `save: {format: text}` of the http task that streamed it",
            details={"ref": str(ref.get("ref"))},
        ) from None


def plain_loop(value: Any) -> Any:
    """Return a loop's result as a plain list; any other value as it is."""
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
    """Return the keys of a mapping, so that its reference can list its content.

    Other values have none. None: too many to list.
    """
    if not isinstance(value, Mapping):
        return []
    keys = [str(key) for key in value]
    return keys if len(keys) <= KEYS_LIMIT and sum(map(len, keys)) <= PREVIEW_LIMIT else None


def ref_uri(execution_id: int, step: str, key: str) -> str:
    """Build ``noetl://execution/<eid>/result/<step>/<uuid>``.

    The uuid is derived from ``key``, so a repeat writes the same object.
    """
    digest = uuid.UUID(bytes=hashlib.sha256(f"{execution_id}/{step}/{key}".encode()).digest()[:16], version=4)
    return f"noetl://execution/{execution_id}/result/{step}/{digest}"


def result_name(
    execution_id: int, step: str, run: int, key: str, life: tuple[Scope, float | None] | None
) -> tuple[str, dict[str, Any]]:
    """Return the URI of a result, and the ``meta`` entries of its reference about its origin.

    A permanent result belongs to no execution.
    """
    if life is not None and life[0] == "permanent":
        uri = ref_uri(PERMANENT, step, f"{execution_id}/{run}/{key}")
        return uri, {"run": run, "execution_id": str(execution_id)}
    return ref_uri(execution_id, step, f"{run}/{key}"), {"run": run}


def format_of(ref: Mapping[str, Any]) -> str:
    """What the bytes behind a reference are: json unless it says so (``ArtifactFormat``)."""
    meta = ref.get("meta")
    found = meta.get("format") if isinstance(meta, Mapping) else None
    return found if isinstance(found, str) else "json"


def artifact_ref(
    *,
    uri: str,
    store: str,
    size: int,
    sha256: str,
    format: str,
    content_type: str,
    sample: bytes,
    extracted: Mapping[str, Any],
    scope: str = "execution",
    ttl: float | None = None,
    extra_meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the reference of bytes that were written as a stream.

    ``sample``: how they begin; ``scope``, ``ttl``, ``extra_meta``: see ``make_ref``.
    """
    shown = sample.decode("utf-8", "replace") if format in ("json", "jsonl", "csv", "text") else ""
    return {
        "kind": "result_ref",
        "ref": uri,
        "store": store,
        "size": size,
        "sha256": sha256,
        "scope": scope,
        **({} if ttl is None else {"ttl": ttl}),
        "expires_at": None,
        "extracted": dict(extracted),
        "keys": None if format == "json" else [],
        "meta": {
            "content_type": content_type,
            "format": format,
            "bytes": size,
            "sha256": sha256,
            "compression": None,
            **(extra_meta or {}),
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
    scope: str = "execution",
    ttl: float | None = None,
    extra_meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the mapping that takes a large value's place in a scope.

    It holds where the value is, how to check it, promoted scalars and a preview.
    ``size``: of the value as JSON. ``sha256``: of the bytes as they are stored. ``ttl``: seconds that it stays after the tree of its
    execution is over. ``extra_meta``: further entries of ``meta`` (``run``, ``compression``, ``stored_bytes``).
    """
    ref = artifact_ref(
        uri=uri,
        store=store,
        size=size,
        sha256=sha256,
        format="json",
        content_type=MEDIA_TYPES["json"],
        sample=encoded[:preview_limit],
        extracted=_promoted(value),
        scope=scope,
        ttl=ttl,
        extra_meta=extra_meta,
    )
    ref["keys"] = top_level_keys(value)
    ref["preview"]["truncated"] = True
    return ref


def _promoted(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"count": len(value)}
    if not isinstance(value, Mapping):
        return {}
    return {
        name: value[name]
        for name in PROMOTED
        if name in value
        and (
            isinstance(value[name], (int, float, bool))
            or (isinstance(value[name], str) and len(value[name]) <= 200)
        )
    }
