"""The rows of a task's parameter: a list, or references that are read as streams.

A reference is passed to the kind as it is (``KindSpec.ref_fields``), so that nothing large is loaded only to be forwarded. What was
gathered in several objects is read one object after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Artifacts, TaskContext
from noetl.domain.results.manifests import STORED, is_manifest, part_refs
from noetl.domain.results.references import decoded, format_of, is_ref, plain_loop
from noetl.kinds.rows.formats import CHUNK_ROWS, FORMATS, RowFormat
from noetl.kinds.rows.parquet import read_parquet
from noetl.kinds.rows.reading import ROWS_MEMBER, behind, read_rows

Row = Mapping[str, Any]
Part = Mapping[str, Any] | list[Any]
"""A reference, or rows that are held."""


def references(value: Any, context: TaskContext) -> list[Part] | None:
    """Return what of ``value`` is in the result store, in order; None when it is no reference.

    It is of a reference, of a list of them, or of a list that is kept in parts (what has no part of its own yet is there as rows).
    """
    value = plain_loop(value)
    if is_manifest(value):
        return _listed(value)
    if is_ref(value):
        return parts_of(value, context.artifacts)
    if isinstance(value, list) and value and all(is_ref(one) for one in value):
        return [part for one in value for part in parts_of(one, context.artifacts)]
    return None


def stored_manifest(ref: Mapping[str, Any], artifacts: Artifacts) -> Mapping[str, Any] | None:
    """Read the manifest behind a reference; None behind that of a result in one piece.

    Raises TaskError(code="REFERENCE_NOT_AVAILABLE").
    """
    if format_of(ref) != "json":
        return None
    with artifacts.open(ref) as stream:
        begin = stream.read(len(STORED))
        if begin != STORED:
            return None
        found = decoded(begin + stream.read(), ref)
    return found if is_manifest(found) else None


def parts_of(ref: Mapping[str, Any], artifacts: Artifacts) -> list[Part]:
    """Return the lists of a list in parts; a result in one piece is its only part.

    Raises TaskError.
    """
    found = stored_manifest(ref, artifacts)
    return [ref] if found is None else _listed(found)


def rows_of(value: Any, what: str) -> list[Row]:
    """Return the rows of a value: a list of mappings, or a mapping with one in ``rows``.

    SQL kinds return such a mapping. Raises TaskError.
    """
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


def row_format(ref: Mapping[str, Any], given: str | None, what: str) -> RowFormat:
    """Return the format of a reference's rows: the task's, else the reference's.

    Raises TaskError.
    """
    format = given or format_of(ref)
    if format not in FORMATS:
        raise TaskError(
            f"{what} is {format}, which has no rows",
            kind="schema",
            code="not_rows",
            hint=f"say what its bytes are, if they are rows: `format: {' | '.join(FORMATS)}`",
        )
    return format


def row_chunks(
    parts: Sequence[Part],
    artifacts: Artifacts,
    what: str,
    *,
    format: str | None = None,
    delimiter: str = ",",
    nulls: bool = False,
    chunk_rows: int = CHUNK_ROWS,
    skip: int = 0,
) -> Iterator[Sequence[Row]]:
    """Read the rows of ``parts`` after the first ``skip``, a chunk at a time.

    ``format``, ``delimiter``, ``nulls``: see ``read_rows``, and ``row_format``. Raises TaskError.
    """

    def chunks(part: Part, skip: int) -> Iterator[Sequence[Row]]:
        if isinstance(part, list):
            yield from behind(chunked(rows_of(part, what)), skip)
            return
        row_form = row_format(part, format, what)
        if row_form == "parquet":
            with artifacts.file(part, ".parquet") as path:
                yield from read_parquet(path, what=what, chunk_rows=chunk_rows, skip=skip)
            return
        with artifacts.open(part) as stream:
            yield from read_rows(
                stream,
                row_form,
                what=what,
                chunk_rows=chunk_rows,
                delimiter=delimiter,
                nulls=nulls,
                skip=skip,
            )

    if len(parts) == 1:  # a Parquet file finds the row itself
        return chunks(parts[0], skip)
    return behind(chain.from_iterable(chunks(part, 0) for part in parts), skip)


def chunked(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Pieces of rows that are held anyway."""
    for start in range(0, len(rows), CHUNK_ROWS):
        yield rows[start : start + CHUNK_ROWS]


def promised_rows(parts: Sequence[Part]) -> int | None:
    """Return the number of rows that references state; None when one states none."""
    total = 0
    for ref in parts:
        extracted = ref.get("extracted") if isinstance(ref, Mapping) else None
        count = extracted.get("row_count") if isinstance(extracted, Mapping) else None
        if type(count) is not int:
            return None
        total += count
    return total


def _listed(manifest: Mapping[str, Any]) -> list[Part]:
    if manifest.get("strategy", "concat") != "concat" or manifest.get("merge_path"):
        raise _no_rows("what is given", "a value that was gathered from pages")
    rest = manifest.get("rest")
    return [*part_refs(manifest), *([rest] if rest else [])]


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
