"""Rows of a stream, some at a time: one reader for every kind that moves rows.

The formats are CSV, JSONL, a JSON list and Parquet. The reader holds at most one chunk of rows, for a stream of any size; a row of
more than ``ROW_BYTES`` is refused before it is held. Values are JSON values: CSV yields text, Parquet what ``rows.database.to_json``
makes of it. ``object_format`` reads whole objects by the same rules.
"""

from __future__ import annotations

import codecs
import csv
import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.kinds.rows.formats import CHUNK_ROWS, RowFormat, unreadable
from noetl.kinds.rows.parquet import read_parquet

CHUNK_BYTES = 8 * 1024 * 1024
"""A chunk ends early when its rows have this many bytes, so that wide rows do not add up."""
ROW_BYTES = 16 * 1024 * 1024
"""The largest single row."""
ROWS_MEMBER = "rows"
"""Where a JSON mapping has its rows: as the results of SQL kinds do."""
_BLOCK = 256 * 1024
_MAY_CONTINUE = frozenset(("", ".", "e", "E"))
"""What may stand behind a number that is cut off: ``1.`` and ``1e-`` are read as 1 until their digits are there."""
_Rows = TypeVar("_Rows", list[dict[str, Any]], Sequence[Mapping[str, Any]])


class Readable(Protocol):
    """A stream of bytes: at most ``size`` of them, none at its end."""

    def read(self, size: int, /) -> bytes: ...


def read_rows(
    stream: Readable,
    format: RowFormat,
    *,
    what: str = "the stream",
    chunk_rows: int = CHUNK_ROWS,
    delimiter: str = ",",
    nulls: bool = False,
    skip: int = 0,
    folder: str | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """Read the rows of ``stream`` after the first ``skip``, ``chunk_rows`` at a time or fewer.

    ``what`` names the stream in messages. ``delimiter``: of CSV. ``nulls``: whether an empty field of CSV is null, which it has no other
    way to say.
    Parquet cannot be read from its beginning: it is copied to a file in ``folder`` first (``read_parquet`` spares that).
    Raises TaskError: kind ``parse``, code ``object_format`` with the row's number; kind ``storage_quota``, code ``row_too_large``.
    """
    if format == "parquet":
        return _spooled(stream, what, chunk_rows, skip, folder)
    if format == "csv":
        sized = _csv_rows(stream, what, delimiter, nulls)
    else:
        sized = _mappings(_values(stream, format, what, ROWS_MEMBER), what)
    return behind(_chunks(sized, chunk_rows), skip)


def behind(chunks: Iterable[_Rows], skip: int) -> Iterator[_Rows]:
    """Yield what follows the first ``skip`` rows."""
    for chunk in chunks:
        if skip < len(chunk):
            yield chunk[skip:]
        skip = max(0, skip - len(chunk))


def read_values(
    stream: Readable, format: Literal["jsonl", "json"], *, what: str = "the stream", member: str = ROWS_MEMBER
) -> Iterator[Any]:
    """Read the values, of any type, of a JSONL stream or a JSON list, one after the other.

    Raises as ``read_rows``.
    """
    return (value for value, _ in _values(stream, format, what, member))


def _spooled(
    stream: Readable, what: str, chunk_rows: int, skip: int, folder: str | None
) -> Iterator[list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory(prefix="noetl-rows-", dir=folder) as place:
        path = Path(place) / "rows.parquet"
        with path.open("wb") as file:
            while block := stream.read(_BLOCK):
                file.write(block)
        yield from read_parquet(path, what=what, chunk_rows=chunk_rows, skip=skip)


def _chunks(sized: Iterable[tuple[dict[str, Any], int]], chunk_rows: int) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    held = 0
    for row, size in sized:
        chunk.append(row)
        held += size
        if len(chunk) >= chunk_rows or held >= CHUNK_BYTES:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


# --- CSV --------------------------------------------------------------------------------------------


def _csv_rows(
    stream: Readable, what: str, delimiter: str, nulls: bool
) -> Iterator[tuple[dict[str, Any], int]]:
    """Mappings of text by the header; every record has as many fields as the header."""
    _allow_wide_fields()
    text = _CsvText(stream, what)
    reader = csv.reader(text, strict=True, delimiter=delimiter)
    header: list[str] | None = None
    try:
        for fields in reader:
            size = text.record_ended()
            if not fields and header is not None and len(header) == 1:
                fields = [""]  # a null of the only column
            if not fields:
                continue
            if header is None:
                header = _header(fields)
                continue
            if len(fields) != len(header):
                more = "more" if len(fields) > len(header) else "fewer"
                raise ValueError(f"line {reader.line_num} has {more} fields than the header")
            values = (field or None for field in fields) if nulls else fields
            yield dict(zip(header, values, strict=True)), size
    except (ValueError, csv.Error) as error:
        place = "" if "line " in str(error) else f" (line {reader.line_num})"
        raise unreadable(what, "csv", f"{error}{place}") from None


def _header(fields: list[str]) -> list[str]:
    twice = next((name for index, name in enumerate(fields) if name in fields[:index]), None)
    if twice is not None:
        raise ValueError(f"the header names {twice!r} twice")
    return fields


def _allow_wide_fields() -> None:
    """Raise the csv module's limit of fields to that of rows.

    The limit is one of the process, and half a page of text is above its default.
    """
    if csv.field_size_limit() < ROW_BYTES:
        csv.field_size_limit(ROW_BYTES)


class _CsvText:
    """Lines for the csv module, with a bound on what one record may take.

    The module joins the lines of a quoted field.
    """

    def __init__(self, stream: Readable, what: str) -> None:
        self._lines = _lines(stream, what)
        self._what = what
        self._held = 0
        self._number = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._held += len(line)
        if self._held > ROW_BYTES:
            raise _too_large(self._what)
        self._number += 1
        if self._number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            return line.decode() + "\n"
        except UnicodeDecodeError as error:
            raise ValueError(f"line {self._number}: {error}") from None

    def record_ended(self) -> int:
        """Bytes of the record that has just been read."""
        size, self._held = self._held, 0
        return size


def _lines(stream: Readable, what: str) -> Iterator[bytes]:
    """Lines without their newline."""
    rest = b""
    while block := stream.read(_BLOCK):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield from lines
        if len(rest) > ROW_BYTES:
            raise _too_large(what)
    if rest:
        yield rest


# --- JSON -------------------------------------------------------------------------------------------


def _values(
    stream: Readable, format: Literal["jsonl", "json"], what: str, member: str
) -> Iterator[tuple[Any, int]]:
    """(value, bytes it took)."""
    if format == "json":
        yield from _JsonList(stream, what, member).values()
        return
    for number, line in enumerate(_lines(stream, what), start=1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if text.strip():
            try:
                value = codec.decode(text)
            except (ValueError, RecursionError) as error:
                raise unreadable(what, "jsonl", f"line {number}: {error}") from None
            yield value, len(text)


def _mappings(values: Iterable[tuple[Any, int]], what: str) -> Iterator[tuple[dict[str, Any], int]]:
    for number, (value, size) in enumerate(values, start=1):
        if not isinstance(value, dict):
            found = "a list" if isinstance(value, list) else repr(value)[:80]
            raise unreadable(what, "rows", f"row {number} is {found}, not a mapping of column to value")
        yield value, size


class _JsonList:
    """The elements of one JSON list, decoded one by one while the text arrives."""

    def __init__(self, stream: Readable, what: str, member: str) -> None:
        self._stream = stream
        self._what = what
        self._member = member
        self._bytes = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False
        self._row = 0
        self._whole = False
        self._decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode

    def values(self) -> Iterator[tuple[Any, int]]:
        """Yield the values with their sizes. Raises TaskError."""
        try:
            self._enter_list()
            if self._take("]"):
                self._refuse_rest()
                return
            for self._row in itertools.count(1):
                yield self._value()
                if self._take("]"):
                    self._refuse_rest()
                    return
                self._expect(",")
        except (ValueError, RecursionError) as error:
            place = f"row {self._row}: " if self._row else ""
            raise unreadable(self._what, "json", f"{place}{error}") from None

    def _enter_list(self) -> None:
        """To the first element of the list that the document is, or that its member is."""
        if self._take("["):
            self._whole = True
            return
        if not self._take("{"):
            raise ValueError("it is neither a list nor a mapping")
        while not self._take("}"):
            name, _ = self._value()
            self._expect(":")
            if name == self._member:
                self._expect("[")
                return
            self._value()
            if self._peek() != "}":
                self._expect(",")
        raise ValueError(f"it is a mapping without {self._member!r}, a list of rows")

    def _refuse_rest(self) -> None:
        """Refuse what follows the list.

        After a list that is the whole document nothing may follow; after a member's list other members may.
        """
        if self._peek() not in (("",) if self._whole else (",", "}")):
            raise ValueError("something follows the list" if self._peek() else "it ends behind the list")

    def _value(self) -> tuple[Any, int]:
        """Decode the value at this place; return it and the characters it took.

        A number at the end of what has arrived may continue, so more is read first.
        """
        self._peek()
        wanted = _BLOCK
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                if self._ended or self._text[end : end + 1] not in _MAY_CONTINUE or len(self._text) - end > 2:
                    size, self._at = end - self._at, end
                    return value, size
            except json.JSONDecodeError as error:
                if self._ended:
                    raise ValueError(error.msg) from None
            if len(self._text) - self._at > ROW_BYTES:
                raise _too_large(self._what)
            self._more(wanted)
            wanted *= 2

    def _peek(self) -> str:
        """Return the next character that is no blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\r\n":
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._more(_BLOCK)

    def _take(self, mark: str) -> bool:
        found = self._peek() == mark
        self._at += found
        return found

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise ValueError(f"{mark!r} is missing where {self._peek() or 'the end'!r} is")

    def _more(self, size: int) -> None:
        """Read more, and drop what was read already."""
        block = self._stream.read(size)
        self._ended = not block
        self._text = self._text[self._at :] + self._bytes.decode(block, final=self._ended)
        self._at = 0


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _too_large(what: str) -> TaskError:
    return TaskError(
        f"{what} has a row of more than {ROW_BYTES} bytes",
        kind="storage_quota",
        code="row_too_large",
        hint="is its format right? A file without line ends is one row",
        details={"limit": ROW_BYTES},
    )
