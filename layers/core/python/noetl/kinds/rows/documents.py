"""JSON in DuckDB's values: it arrives as text, in a list, a struct or a map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError

Reader = Callable[[Any], Any]


def json_readers(types: Iterable[Any]) -> Mapping[int, Reader]:
    """Return a reader of values for each column with JSON in it, by its number.

    ``types``: as a cursor describes them.
    """
    found = {number: _reader(kind) for number, kind in enumerate(types)}
    return {number: read for number, read in found.items() if read is not None}


def with_documents(row: Sequence[Any], readers: Mapping[int, Reader]) -> list[Any]:
    """Return a row with its JSON read. Raises TaskError(code="row_unreadable")."""
    values = list(row)
    for number, read in readers.items():
        values[number] = read(values[number])
    return values


def _reader(kind: Any) -> Reader | None:
    """Return the reader of a type with JSON, None for a type without."""
    name = str(kind)
    if name == "JSON":
        return _document
    if "JSON" not in name or kind.id not in ("list", "array", "struct", "map"):
        return None
    parts = {key: _reader(part) for key, part in kind.children if key != "size"}
    if kind.id == "struct":
        return _of_members(parts)
    return _of_each(parts.get("value") if kind.id == "map" else parts.get("child"))


def _of_members(parts: Mapping[str, Reader | None]) -> Reader | None:
    readers = {name: read for name, read in parts.items() if read is not None}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: readers[name](one) if name in readers else one for name, one in value.items()}

    return read if readers else None


def _of_each(reader: Reader | None) -> Reader | None:
    if reader is None:
        return None

    def read(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: reader(one) for name, one in value.items()}
        return [reader(one) for one in value] if isinstance(value, (list, tuple)) else value

    return read


def _document(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return codec.decode(value)
    except (ValueError, RecursionError) as error:
        raise TaskError(
            f"a JSON value cannot be read: {str(error)[:200]}", kind="parse", code="row_unreadable"
        ) from error
