"""What ``noetl ctx patch`` asks for: values by ``--set``, or a whole patch from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.cli.actions.payload import parse_set, read_document
from noetl.domain.errors import InvalidInputError
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.patches.scope_patches import deep_merge

ContextPatch = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A JSON Merge Patch, or the operations of a JSON Patch."""


def read_patch(source: str | None, sets: Sequence[str]) -> ContextPatch:
    """``source``: a file (JSON or YAML) or ``-``. Raises InvalidInputError."""
    if source is not None and sets:
        raise InvalidInputError(
            "--patch and --set do not go together", code="invalid_set", hint="patch twice"
        )
    if source is None:
        if not sets:
            raise InvalidInputError("nothing to set", code="invalid_set", hint="add --set approved=true")
        return context_patch([_patch(text) for text in sets])
    found = read_document(source)
    if isinstance(found, dict) or (isinstance(found, list) and all(isinstance(one, dict) for one in found)):
        return found
    raise InvalidInputError(
        "a patch is a mapping (JSON Merge Patch) or a list of operations (JSON Patch)",
        code="invalid_patch",
        hint='such as {"approved": true}, or [{"op": "add", "path": "/approved", "value": true}]',
    )


def _patch(text: str) -> Patch:
    """``a.b=1`` merges into the key ``a``; ``a=1`` sets it."""
    keys, value = parse_set(text)
    if len(keys) == 1:
        return Patch("ctx", keys[0], value)
    for key in reversed(keys[1:]):
        value = {key: value}
    return Patch("ctx", keys[0], value, "merge")


def context_patch(patches: Sequence[Patch]) -> dict[str, Any] | list[dict[str, Any]]:
    """Build the body of a patch for ``--set``.

    It is a JSON Merge Patch, or a JSON Patch where that would remove (null), or merge where a mapping is to be set. Raises
    InvalidInputError when neither can say all of it at once.
    """
    if not any(_changes_more(one) for one in patches):
        merged: dict[str, Any] = {}
        for one in patches:
            merged[one.name] = deep_merge(merged.get(one.name), one.value) if one.op == "merge" else one.value
        return merged
    if any(one.op == "merge" for one in patches):
        raise InvalidInputError(
            "a dotted --set does not go together with one that sets a mapping or null",
            code="invalid_set",
            hint="patch twice",
        )
    return [{"op": "add", "path": f"/{_pointer(one.name)}", "value": one.value} for one in patches]


def _changes_more(patch: Patch) -> bool:
    """Whether a merge patch would do something else."""
    return _has_null(patch.value) or (patch.op == "set" and isinstance(patch.value, dict))


def _has_null(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and any(map(_has_null, value.values())))


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
