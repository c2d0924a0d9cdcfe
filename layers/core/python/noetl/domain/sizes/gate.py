"""Check the sizes of input against the table of ``domain/sizes/table.py``, for every door.

Doors call it before anything is kept, and answer what it raises. The engine calls it again, so that a task or a worker that says
something too large ends its step, and not the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.table import DOCUMENT_BYTES, DOCUMENT_KEYS, INTEGER_DIGITS, NAME, Size, Unit
from noetl.domain.text.excerpt import excerpt

CODE = "size_limit"
"""The code of everything that exceeds a limit at a door or in the engine; ``details["limit"]`` names the limit."""
_SHOWN = 40
"""Characters of a key in a place or a message."""
_PARTS = 20
"""Most keys of a place that a message shows."""

_Place = tuple[Any, Any] | None
"""The place of the holder, and the key in it."""
_REMEDY: dict[Unit, str] = {
    "characters": "give a shorter text",
    "bytes": "put large data into a bucket or a file, and its address into the document",
    "entries": "give fewer, or put them into a list or mapping below one key",
    "levels": "nest it less deeply",
    "digits": "give it as text",
}
"""What to do about a limit, by its unit."""


def exceeded(
    size: Size,
    found: int | None,
    what: str,
    place: str = "",
    *,
    code: str = CODE,
    family: type[InvalidInputError] = InvalidInputError,
    remedy: str = "",
) -> InvalidInputError:
    """Make the error of a limit that is exceeded.

    ``found``: what there is, in the limit's unit; None: it was not counted to its end. ``what``: what is too large, as it begins a
    sentence. ``place``: a JSON pointer into the document, without it the error is about all of it. ``code``, ``family``: of the door, where
    it has its own. ``remedy``: what to do, where the unit does not say it.
    """
    where = f" at {place}" if place else ""
    verb, unit = ("is", "") if size.unit == "value" else ("has", f" {size.unit}")
    amount = f"more than {size.value}{unit}" if found is None else f"{found}{unit}, more than {size.value}"
    details: dict[str, Any] = {"limit": size.name, "most": size.value, "unit": size.unit, "place": place}
    if found is not None:
        details["found"] = found
    return family(
        f"{what}{where} {verb} {amount}",
        code=code,
        hint=f"{remedy or _REMEDY.get(size.unit, 'give less')} (limit `{size.name}` of docs/limits.md)",
        details=details,
    )


def check_document(document: Mapping[str, Any], what: str) -> None:
    """Check a mapping whose keys become names against its limits.

    It is a payload, variables, or a patch.

    ``what``: the word for it, such as ``payload``. Raises InvalidInputError(code="size_limit"), or ``<what>_invalid`` for values that
    JSON cannot hold.
    """
    if len(document) > DOCUMENT_KEYS.value:
        raise exceeded(DOCUMENT_KEYS, len(document), f"the {what}")
    check_names(document, what)
    check_value(document, what)


def check_names(names: Iterable[Any], what: str) -> None:
    """Hold names that become rows of an index against their limit.

    Raises InvalidInputError(code="size_limit").
    """
    for name in names:
        if isinstance(name, str) and len(name) > NAME.value:
            raise exceeded(NAME, len(name), f"a key of the {what}", _pointer([name]))


def check_text(
    size: Size,
    text: str,
    what: str,
    *,
    code: str = CODE,
    family: type[InvalidInputError] = InvalidInputError,
) -> None:
    """Hold a text against a limit in characters. Raises ``family`` with ``code``."""
    if len(text) > size.value:
        raise exceeded(size, len(text), what, code=code, family=family)


def check_value(value: Any, what: str) -> None:
    """Hold any JSON value against the limits of documents: depth, digits, bytes.

    Raises as ``check_document`` does.
    """
    check_tree(value, what)
    size = len(codec.encode(value))
    if size > DOCUMENT_BYTES.value:
        raise exceeded(DOCUMENT_BYTES, size, f"the {what}")


def check_depth(size: Size, value: Any, what: str) -> None:
    """Hold the depth of a value against a limit of its own.

    Raises InvalidInputError(code="size_limit").
    """
    if (place := find_too_deep(value, size)) is not None:
        raise exceeded(size, None, what, _pointer(place))


def check_tree(value: Any, what: str) -> None:
    """Hold the depth of a JSON value, and its whole numbers, against their limits.

    Raises as ``check_document`` does.
    """
    found = codec.find_unstorable(value)
    if found is not None:
        raise _refused(found, what)


def find_too_deep(value: Any, size: Size) -> tuple[Any, ...] | None:
    """Find the first place whose lists and mappings are nested deeper than ``size``.

    None: there is none. It does not recurse.
    """
    left: list[tuple[Any, _Place, int]] = [(value, None, 1)]
    while left:
        holder, place, depth = left.pop()
        if not isinstance(holder, (dict, list, tuple)):
            continue
        if depth > size.value:
            return _keys(place)
        entries = list(holder.items() if isinstance(holder, dict) else enumerate(holder))
        left.extend((item, (place, key), depth + 1) for key, item in reversed(entries))
    return None


def find_unfit(value: Any, path: str = "$") -> str | None:
    """Return why ``value`` cannot be the result of a task, or None when it can.

    Either JSON cannot hold it, or it exceeds a limit.
    """
    found = codec.find_unstorable(value)
    if found is None:
        return None
    return found.describe(path) if found.size is None else f"{path}{_pointer(found.keys)} {found.problem}"


def _refused(found: codec.Unstorable, what: str) -> InvalidInputError:
    if found.size is None:
        return InvalidInputError(found.describe(what), code=f"{what}_invalid")
    subject = "a whole number" if found.size is INTEGER_DIGITS else "a value"
    return exceeded(found.size, None, f"{subject} of the {what}", _pointer(found.keys))


def number_fits(value: Any) -> bool:
    """Whether a number can be kept: finite, and no whole number of too many digits."""
    if isinstance(value, int):
        return -codec.MOST < value < codec.MOST
    return not isinstance(value, float) or isfinite(value)


def too_many_digits(error: Exception) -> bool:
    """Return whether a reader of JSON or YAML refused a whole number with too many digits.

    Python limits the digits that it reads.
    """
    text = str(error)
    return "integer string conversion" in text or text.startswith("Integer value out of range")


def weight(value: Any, most: int) -> int:
    """Count a value's entries and characters, about as JSON counts bytes.

    Counting ends beyond ``most``.
    """
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


def _keys(place: _Place) -> tuple[Any, ...]:
    keys: list[Any] = []
    while place is not None:
        place, key = place
        keys.append(key)
    return tuple(reversed(keys))


def _pointer(keys: Sequence[Any]) -> str:
    """A JSON pointer; long keys, and the end of a long one, are left out."""
    parts = [str(key) for key in keys[:_PARTS]]
    shown = [excerpt(part, _SHOWN) for part in parts]
    pointer = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in shown)
    return f"{pointer}/…" if len(keys) > _PARTS else pointer
