"""Rows that a task is given: as a list, or as references of results that are read as streams.

A reference is passed to the kind as it is (``KindSpec.ref_fields``), so that nothing large is loaded to be carried on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.manifests import is_manifest
from noetl.domain.results import format_of, is_ref, plain_loop
from noetl.kinds.rows.reading import FORMATS, ROWS_MEMBER, read_parquet, read_rows

Row = Mapping[str, Any]
Part = Mapping[str, Any] | list[Any]
"""A reference, or rows that are held."""
_MANIFEST = b'{"kind":"manifest"'
_CHUNK = 1000


def references(value: Any, context: TaskContext) -> list[Part] | None:
    """What lies in the result store of ``value``, in order: of a reference, of a list of them, of a list that is kept in parts (what has no
    part of its own yet is there as rows). None when ``value`` is no reference."""
    value = plain_loop(value)
    if is_manifest(value):
        return _listed(value)
    if is_ref(value):
        return _parts(value, context)
    if isinstance(value, list) and value and all(is_ref(one) for one in value):
        return [part for one in value for part in _parts(one, context)]
    return None


def rows_of(value: Any, what: str) -> list[Row]:
    """The rows of a value: a list of mappings, or a mapping with such a list in ``rows``, as SQL kinds give it. Raises TaskError."""
    value = plain_loop(value)
    if isinstance(value, Mapping) and isinstance(value.get(ROWS_MEMBER), list):
        value = value[ROWS_MEMBER]
    if not isinstance(value, list):
        raise _no_rows(what, f"{type(value).__name__}" if not isinstance(value, Mapping) else _keys(value))
    for number, row in enumerate(value, start=1):
        if not isinstance(row, Mapping) or is_ref(row):
            found = "a reference" if is_ref(row) else type(row).__name__
            raise _no_rows(what, f"a list whose entry {number} is {found}", row=number)
    return value


def row_format(ref: Mapping[str, Any], given: str | None, what: str) -> str:
    """What rows of a reference are written as: what the task says, else the reference. Raises TaskError."""
    told = given or format_of(ref)
    if told not in FORMATS:
        raise TaskError(
            f"{what} is {told}, which has no rows",
            kind="schema",
            code="not_rows",
            hint=f"say what its bytes are, if they are rows: `format: {' | '.join(FORMATS)}`",
        )
    return told


def row_chunks(
    parts: Iterable[Part], format: str | None, context: TaskContext, what: str
) -> Iterator[Sequence[Row]]:
    """The rows of what ``references`` gave, a chunk at a time. Raises TaskError."""
    for ref in parts:
        if isinstance(ref, list):
            yield from chunked(rows_of(ref, what))
            continue
        told = row_format(ref, format, what)
        if told == "parquet":
            with context.artifacts.file(ref, ".parquet") as path:
                yield from read_parquet(path, what=what)
        else:
            with context.artifacts.open(ref) as stream:
                yield from read_rows(stream, told, what=what)  # type: ignore[arg-type]  # one of FORMATS


def chunked(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Pieces of rows that are held anyway."""
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]


def promised_rows(parts: Iterable[Part]) -> int | None:
    """How many rows references say they have; None when one does not say."""
    total = 0
    for ref in parts:
        extracted = ref.get("extracted") if isinstance(ref, Mapping) else None
        count = extracted.get("row_count") if isinstance(extracted, Mapping) else None
        if type(count) is not int:
            return None
        total += count
    return total


def _parts(ref: Mapping[str, Any], context: TaskContext) -> list[Part]:
    """A list that was too long for one object lies in several."""
    if format_of(ref) != "json":
        return [ref]
    with context.artifacts.open(ref) as stream:
        begin = stream.read(len(_MANIFEST))
        if begin != _MANIFEST:
            return [ref]
        found = codec.decode(begin + stream.read())
    return _listed(found) if is_manifest(found) else [ref]


def _listed(manifest: Mapping[str, Any]) -> list[Part]:
    if manifest.get("strategy", "concat") != "concat" or manifest.get("merge_path"):
        raise _no_rows("what is given", "a value that is gathered from pages, and no plain list of rows")
    rest = manifest.get("rest")
    return [*manifest["parts"], *([rest] if rest else [])]


def _keys(value: Mapping[str, Any]) -> str:
    return f"a mapping of {', '.join(sorted(map(str, value))[:8])}"


def _no_rows(what: str, found: str, **details: Any) -> TaskError:
    return TaskError(
        f"{what} is {found}, not a list of rows (mappings of column to value)",
        kind="schema",
        code="not_rows",
        hint="name the part that is the list: {{ step.data.items }}",
        details=details,
    )
