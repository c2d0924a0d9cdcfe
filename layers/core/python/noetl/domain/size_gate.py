"""The one gate for sizes: what comes from outside is held against the table of ``domain/sizes.py`` here.

Doors call it before anything is kept, and answer what it raises. The engine calls it again, so that a task or a worker that says
something too large ends its step, and not the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes import DOCUMENT_BYTES, DOCUMENT_DEPTH, DOCUMENT_KEYS, INTEGER_DIGITS, NAME, Size, Unit

CODE = "size_limit"
"""The code of everything that exceeds a limit at a door or in the engine; ``details["limit"]`` names the limit."""
_SHOWN = 40
"""Characters of a key in a place or a message."""
_PARTS = 20
"""Keys of a place that are told; of a longer one, the first ones."""
_MOST: int = 10**INTEGER_DIGITS.value
_LEAST: int = -_MOST

_HOLDS = (dict, list, tuple)

_REMEDY: dict[Unit, str] = {
    "characters": "give a shorter text",
    "bytes": "put large data into a bucket or a file, and its address into the document",
    "entries": "give fewer, or put them into a list or mapping below one key",
    "levels": "nest it less deeply",
    "digits": "give it as text",
}
"""What to do about a limit, by its unit."""

_Path = tuple[Any, object] | None
"""Where a value stands: the place of what holds it, and its key or index there."""


def exceeded(size: Size, found: int | None, what: str, place: str = "") -> InvalidInputError:
    """Make the error of a limit that is exceeded.

    ``found``: what there is, in the limit's unit; None: it was not counted to its end. ``what``: what is too large, as it begins a
    sentence. ``place``: a JSON pointer into the document, without it the error is about all of it.
    """
    where = f" at {place}" if place else ""
    told = (
        f"more than {size.value} {size.unit}"
        if found is None
        else f"{found} {size.unit}, more than {size.value}"
    )
    details: dict[str, Any] = {"limit": size.name, "most": size.value, "unit": size.unit, "place": place}
    if found is not None:
        details["found"] = found
    return InvalidInputError(
        f"{what}{where} has {told}",
        code=CODE,
        hint=f"{_REMEDY.get(size.unit, 'give less')} (limit `{size.name}` of docs/limits.md)",
        details=details,
    )


def check_document(document: Mapping[str, Any], what: str) -> None:
    """Hold a mapping whose keys become names (a payload, variables, a patch) against its limits.

    ``what``: the word for it, such as ``payload``. Raises InvalidInputError(code="size_limit"), or ``<what>_invalid`` for values that
    JSON cannot hold.
    """
    if len(document) > DOCUMENT_KEYS.value:
        raise exceeded(DOCUMENT_KEYS, len(document), f"the {what}")
    check_names(document, what)
    check_value(document, what)


def check_names(names: Iterable[Any], what: str) -> None:
    """Hold names that become rows of an index against their limit. Raises InvalidInputError(code="size_limit")."""
    for name in names:
        if isinstance(name, str) and len(name) > NAME.value:
            raise exceeded(NAME, len(name), f"a key of the {what}", _pointer((None, name)))


def check_text(size: Size, text: str, what: str) -> None:
    """Hold a text against a limit in characters. Raises InvalidInputError(code="size_limit")."""
    if len(text) > size.value:
        raise exceeded(size, len(text), what)


def check_value(value: Any, what: str) -> None:
    """Hold any JSON value against the limits of documents: depth, digits, bytes. Raises as ``check_document`` does."""
    check_tree(value, what)
    problem = codec.find_unstorable(value, what)
    if problem is not None:
        raise InvalidInputError(problem, code=f"{what}_invalid")
    size = len(codec.encode(value))
    if size > DOCUMENT_BYTES.value:
        raise exceeded(DOCUMENT_BYTES, size, f"the {what}")


def check_tree(value: Any, what: str) -> None:
    """Hold the depth of a value, and its whole numbers, against their limits. Raises InvalidInputError(code="size_limit")."""
    found = _find(value)
    if found is not None:
        size, path = found
        subject = "a whole number" if size is INTEGER_DIGITS else "a value"
        raise exceeded(size, None, f"{subject} of the {what}", _pointer(path))


def find_unfit(value: Any, path: str = "$") -> str | None:
    """Why ``value`` cannot be the result of a task, or None when it can: what JSON cannot hold, or a limit it exceeds."""
    found = _find(value)
    if found is None:
        return codec.find_unstorable(value, path)
    size, where = found
    if size is INTEGER_DIGITS:
        return f"{path}{_pointer(where)} is a whole number of more than {size.value} digits"
    return f"{path}{_pointer(where)} is nested more than {size.value} levels deep"


def number_fits(value: Any) -> bool:
    """Whether a number can be kept: finite, and no whole number of too many digits."""
    if isinstance(value, int):
        return _LEAST < value < _MOST
    return not isinstance(value, float) or isfinite(value)


def too_many_digits(error: Exception) -> bool:
    """Whether a reader of JSON or YAML gave up because a whole number has more digits than Python reads."""
    text = str(error)
    return "integer string conversion" in text or text.startswith("Integer value out of range")


def weight(value: Any, most: int) -> int:
    """Count a value's entries and characters, about as JSON counts bytes; counting ends beyond ``most``."""
    left, total = [value], 0
    while left and total <= most:
        one = left.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, dict):
            total += sum(len(key) for key in one)
            left.extend(one.values())
        elif isinstance(one, (list, tuple)):
            left.extend(one)
        total += 2
    return total


def _find(value: Any) -> tuple[Size, _Path] | None:
    """The first value that is too deep or has too many digits.

    Results of tasks pass here as well, so scalars are looked at where they stand, and only what holds something is put aside.
    """
    if not isinstance(value, _HOLDS):
        return (INTEGER_DIGITS, None) if isinstance(value, int) and not _LEAST < value < _MOST else None
    left: list[tuple[Any, _Path, int]] = [(value, None, 0)]
    while left:
        holder, path, depth = left.pop()
        depth += 1
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if depth > DOCUMENT_DEPTH.value:
                return DOCUMENT_DEPTH, (path, key)
            if type(item) is str:
                continue
            if isinstance(item, _HOLDS):
                left.append((item, (path, key), depth))
            elif isinstance(item, int) and not _LEAST < item < _MOST:
                return INTEGER_DIGITS, (path, key)
    return None


def _pointer(path: _Path) -> str:
    """A JSON pointer; long keys, and the end of a long one, are left out."""
    parts: list[str] = []
    while path is not None:
        path, key = path
        text = str(key)
        parts.append(
            (text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…").replace("~", "~0").replace("/", "~1")
        )
    told = "".join(f"/{part}" for part in parts[: -_PARTS - 1 : -1])
    return f"{told}/…" if len(parts) > _PARTS else told
