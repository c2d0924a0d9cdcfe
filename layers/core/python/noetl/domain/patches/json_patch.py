"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396), as pure functions of values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import exceeded, weight
from noetl.domain.sizes.table import DOCUMENT_BYTES, DOCUMENT_DEPTH, PATCH_OPERATIONS

OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")
MOST = PATCH_OPERATIONS.value
"""Most operations of one patch."""
_LONE_TILDE = re.compile(r"~(?![01])")


def merge_patch(target: Any, patch: Any) -> Any:
    """Merge ``patch`` into ``target`` (RFC 7396).

    Mappings merge, null removes a key, anything else replaces.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def pointer(text: Any, where: str) -> list[str]:
    """The keys of a JSON Pointer (RFC 6901). Raises InvalidInputError(code="invalid_patch")."""
    if not isinstance(text, str) or not text.startswith("/"):
        raise refused(f"{where}: {text!r} is not a JSON pointer", "such as /approved")
    if _LONE_TILDE.search(text):
        raise refused(f"{where}: {text!r} is not a JSON pointer", "write ~ as ~0, and / in a key as ~1")
    keys = [key.replace("~1", "/").replace("~0", "~") for key in text[1:].split("/")]
    if len(keys) > DOCUMENT_DEPTH.value:
        raise exceeded(DOCUMENT_DEPTH, len(keys), where)
    if not keys[0]:
        raise refused(f"{where}: {text!r} names no key", "such as /approved")
    return keys


def check_operations(operations: Sequence[Mapping[str, Any]]) -> None:
    """Whether these are operations at all.

    Raises InvalidInputError(code="invalid_patch") naming the one that is not.
    """
    if len(operations) > MOST:
        remedy = "send several patches"
        raise exceeded(PATCH_OPERATIONS, len(operations), "the patch", code="invalid_patch", remedy=remedy)
    if not operations:
        raise refused(f"a patch has 1 to {MOST} operations, not 0", None)
    for number, operation in enumerate(operations):
        where = f"patch[{number}]"
        name = operation.get("op")
        if name not in OPERATIONS:
            raise refused(f"{where}.op: {name!r} is not an operation", f"one of {', '.join(OPERATIONS)}")
        pointer(operation.get("path"), f"{where}.path")
        if name in ("move", "copy"):
            pointer(operation.get("from"), f"{where}.from")
        elif name != "remove" and "value" not in operation:
            raise refused(f"{where}: {name} has no value", None)


def roots(operations: Sequence[Mapping[str, Any]]) -> list[str]:
    """The top-level keys that operations read or write, each once."""
    paths = [one[key] for one in operations for key in ("path", "from") if isinstance(one.get(key), str)]
    return list(dict.fromkeys(pointer(path, "path")[0] for path in paths))


def read_roots(operations: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the top-level keys whose values operations read.

    Keys that are only added, replaced or removed as a whole do not count.
    """
    read: set[str] = set()
    for one in operations:
        path = pointer(one["path"], "path")
        if len(path) > 1 or one["op"] == "test":
            read.add(path[0])
        if one["op"] in ("copy", "move"):
            read.add(pointer(one["from"], "from")[0])
    return read


def patch_document(document: dict[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``document`` after all operations; ``document`` itself stays as it is.

    Raises InvalidInputError(code="patch_conflict") naming the operation that does not fit.

    Each copy can double the document: together they are held against the limit of a document. Raises InvalidInputError(code="size_limit")
    then. What is changed is copied once, however many operations change it.
    """
    draft = _Draft(document)
    copied = 0
    for number, operation in enumerate(operations):
        where = f"patch[{number}]"
        path = pointer(operation["path"], f"{where}.path")
        try:
            if operation["op"] == "copy" and copied <= DOCUMENT_BYTES.value:
                source = pointer(operation["from"], f"{where}.from")
                copied += weight(_get(draft.root, source), DOCUMENT_BYTES.value)
            if copied > DOCUMENT_BYTES.value:
                raise exceeded(DOCUMENT_BYTES, None, f"{where}: what the patch copies")
            _apply(draft, operation, path, where)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise conflict(
                f"{where}: there is nothing at {operation.get('from', operation['path'])}"
            ) from error
    return draft.root  # type: ignore[no-any-return]


def _apply(draft: _Draft, operation: Mapping[str, Any], path: list[str], where: str) -> None:
    name = operation["op"]
    if name == "test":
        if not _same(_get(draft.root, path), operation["value"]):
            raise conflict(f"{where}: {operation['path']} is not what the test says")
        return
    if name == "remove":
        draft.change(path, "remove", None)
        return
    if name in ("add", "replace"):
        draft.change(path, name, operation["value"])
        return
    source = pointer(operation["from"], f"{where}.from")
    value = _get(draft.root, source)
    if name == "move":
        if path[: len(source)] == source and path != source:
            raise conflict(f"{where}: {operation['from']} cannot be moved into itself")
        draft.change(source, "remove", None)
    else:
        value = _fresh(value)
    draft.change(path, "add", value)


def _get(value: Any, path: list[str]) -> Any:
    for key in path:
        value = value[_place(value, key, len(value) - 1)] if isinstance(value, list) else _mapping(value)[key]
    return value


class _Draft:
    """A document that is being changed.

    Lists and mappings are copied when they are changed for the first time.
    """

    def __init__(self, document: Any) -> None:
        self.root = document
        self._own: dict[int, Any] = {}
        """What was copied here, by its identity."""

    def change(self, path: list[str], how: str, new: Any) -> None:
        self.root = self._changed(self.root, path, how, new)

    def _changed(self, value: Any, path: list[str], how: str, new: Any) -> Any:
        """``value``, or the draft's own copy of it, changed at the end of ``path``."""
        key, rest = path[0], path[1:]
        if not isinstance(value, list):
            found = self._owned(_mapping(value))
            if rest:
                found[key] = self._changed(found[key], rest, how, new)
            elif how == "add":
                found[key] = new
            elif how == "replace":
                found[key] = (found[key], new)[1]
            else:
                del found[key]
            return found
        place = _place(value, key, len(value) if how == "add" and not rest else len(value) - 1)
        items = self._owned(value)
        if rest:
            items[place] = self._changed(items[place], rest, how, new)
        elif how == "add":
            items.insert(place, new)
        elif how == "replace":
            items[place] = new
        else:
            del items[place]
        return items

    def _owned(self, value: Any) -> Any:
        if id(value) not in self._own:
            value = value.copy()
            self._own[id(value)] = value
        return value


def _fresh(value: Any) -> Any:
    """A copy that shares no list and no mapping with ``value``."""
    if isinstance(value, list):
        return [_fresh(item) for item in value]
    if isinstance(value, dict):
        return {key: _fresh(item) for key, item in value.items()}
    return value


def _place(items: list[Any], key: str, last: int) -> int:
    """A place in a list: digits without leading zeros, or ``-`` for the one after the last.

    Raises IndexError.
    """
    if key == "-":
        place = len(items)
    elif key.isascii() and key.isdigit() and (key == "0" or key[0] != "0"):
        place = int(key)
    else:
        raise IndexError(key)
    if place > last:
        raise IndexError(key)
    return place


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("neither a mapping nor a list")
    return value


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def refused(message: str, hint: str | None) -> InvalidInputError:
    return InvalidInputError(message, code="invalid_patch", hint=hint)


def conflict(message: str) -> InvalidInputError:
    return InvalidInputError(message, code="patch_conflict", hint="read the context, and patch what is there")
