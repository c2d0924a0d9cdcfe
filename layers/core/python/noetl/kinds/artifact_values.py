"""What a reference stands for, read as a stream: a value, rows, text, bytes, or a slice of them."""

from __future__ import annotations

import base64
import codecs
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Artifacts, TaskContext
from noetl.domain.results import decoded, format_of, plain_loop, select
from noetl.kinds.rows.reading import CHUNK_ROWS, FORMATS, RowFormat, read_parquet, read_rows, read_values

As = Literal["value", "rows", "text", "base64"]
_MANIFEST = b'{"kind":"manifest",'
_BLOCK = 256 * 1024
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Slice:
    """``limit`` elements after the first ``offset``: of a list, rows, characters of a text, or bytes."""

    offset: int = 0
    limit: int | None = None

    @property
    def whole(self) -> bool:
        return not self.offset and self.limit is None

    @property
    def stop(self) -> int | None:
        return None if self.limit is None else self.offset + self.limit

    def of(self, value: Any) -> Any:
        """A list or a text is cut; anything else is as it is."""
        return value[self.offset : self.stop] if isinstance(value, (list, str)) else value


def load(
    ref: Mapping[str, Any],
    context: TaskContext,
    *,
    shown_as: As = "value",
    format: str | None = None,
    path: str | None = None,
    part: Slice = Slice(),
) -> Any:
    """What ``ref`` stands for, or the ``part`` of it. ``format``: instead of what the reference says.

    Raises TaskError: code ``REFERENCE_NOT_AVAILABLE``; ``result_too_large_to_load`` above the deployment's ``output_max_bytes``;
    ``object_format``, ``result_not_a_value`` when it is not what it is wanted as.
    """
    reading = _Reading(ref, context, format or format_of(ref), part)
    if shown_as == "text":
        return reading.text()
    if shown_as == "base64":
        return reading.base64()
    if path:
        return part.of(plain_loop(select(reading.whole(), path)))
    return reading.rows() if shown_as == "rows" else reading.value()


def rows_of(
    ref: Mapping[str, Any],
    artifacts: Artifacts,
    *,
    format: str | None = None,
    delimiter: str = ",",
    chunk_rows: int = CHUNK_ROWS,
    skip: int = 0,
) -> Iterator[list[dict[str, Any]]]:
    """The rows that a large result holds, after the first ``skip``, some at a time. A result of an SQL kind has them in ``rows``, one
    that was gathered from pages in parts. Raises TaskError as ``read_rows``, and REFERENCE_NOT_AVAILABLE."""
    form, what = format or format_of(ref), _named(ref)
    if form not in FORMATS:
        raise _no_value(what, form, f"say what its rows are: `format: {' | '.join(FORMATS)}`")
    if form == "parquet":
        with artifacts.file(ref, ".parquet") as file:
            yield from read_parquet(file, what=what, chunk_rows=chunk_rows, skip=skip)
        return
    for one in _parts(ref, artifacts) if form == "json" else [ref]:
        with artifacts.open(one) as stream:
            for chunk in read_rows(
                stream, cast(RowFormat, form), what=what, chunk_rows=chunk_rows, delimiter=delimiter
            ):
                if skip < len(chunk):
                    yield chunk[skip:]
                skip = max(0, skip - len(chunk))


@dataclass(frozen=True, slots=True)
class _Reading:
    ref: Mapping[str, Any]
    context: TaskContext
    form: str
    part: Slice

    def value(self) -> Any:
        if self.form == "text":
            return self.text()
        if self.form == "bytes":
            raise _no_value(
                _named(self.ref), self.form, "ask for it `as: base64`, or as text, or name its `format`"
            )
        if self.form in ("csv", "parquet"):
            return self.rows()
        if self.form == "json" and self.part.whole:
            return self.whole()
        values = _values(self.ref, self.context.artifacts, self.form)
        return self._gathered(itertools.islice(values, self.part.offset, self.part.stop))

    def whole(self) -> Any:
        """All of it, decoded."""
        if self.form != "json":
            return _Reading(self.ref, self.context, self.form, Slice()).value()
        found: list[Any] = []
        for one in _parts(self.ref, self.context.artifacts):
            self._refuse_above(int(one.get("size") or 0))
            with self.context.artifacts.open(one) as stream:
                value = decoded(stream.read(), one)
            if one is self.ref:
                return plain_loop(value)
            found += value
        return found

    def rows(self) -> list[dict[str, Any]]:
        chunks = rows_of(self.ref, self.context.artifacts, format=self.form, skip=self.part.offset)
        return self._gathered(itertools.islice(itertools.chain.from_iterable(chunks), self.part.limit))

    def text(self) -> str:
        decoder = codecs.getincrementaldecoder("utf-8-sig" if self.form == "csv" else "utf-8")()
        found: list[str] = []
        skip, left, size = self.part.offset, self.part.limit, 0
        try:
            for block in self._blocks():
                text = decoder.decode(block, final=not block)
                piece = text[skip : None if left is None else skip + left]
                skip = max(0, skip - len(text))
                left = None if left is None else left - len(piece)
                size += len(piece)
                self._refuse_above(size)
                found.append(piece)
                if left == 0:
                    break
        except UnicodeDecodeError as error:
            raise _no_value(_named(self.ref), "no text", f"ask for it `as: base64` ({error})") from None
        return "".join(found)

    def base64(self) -> str:
        found = bytearray()
        skip, left = self.part.offset, self.part.limit
        for block in self._blocks():
            piece = block[skip : None if left is None else skip + left]
            skip = max(0, skip - len(block))
            left = None if left is None else left - len(piece)
            found += piece
            self._refuse_above(len(found) * 4 // 3)
            if left == 0:
                break
        return base64.b64encode(found).decode()

    def _blocks(self) -> Iterator[bytes]:
        """The last one is empty."""
        with self.context.artifacts.open(self.ref) as stream:
            while block := stream.read(_BLOCK):
                yield block
        yield b""

    def _gathered(self, values: Iterable[_T]) -> list[_T]:
        found: list[_T] = []
        size = 0
        for value in values:
            size += len(codec.encode(value)) + 1
            self._refuse_above(size)
            found.append(value)
        return found

    def _refuse_above(self, size: int) -> None:
        most = self.context.settings.output_max_bytes
        if size > most:
            raise TaskError(
                f"{_named(self.ref)} is more than the {most} bytes that a task may load",
                kind="storage_quota",
                code="result_too_large_to_load",
                hint="load a slice (`offset`, `limit`), or pass the reference to a task that reads it as a stream (duckdb, transfer)",
                details={"limit": most},
            )


def _values(ref: Mapping[str, Any], artifacts: Artifacts, form: str) -> Iterator[Any]:
    """Elements of a list, one by one."""
    for one in _parts(ref, artifacts) if form == "json" else [ref]:
        with artifacts.open(one) as stream:
            yield from read_values(stream, cast(Literal["json", "jsonl"], form), what=_named(ref))


def _parts(ref: Mapping[str, Any], artifacts: Artifacts) -> list[Mapping[str, Any]]:
    """The references that a result in parts consists of; itself when it is in one piece."""
    with artifacts.open(ref) as stream:
        if stream.read(len(_MANIFEST)) != _MANIFEST:
            return [ref]
    with artifacts.open(ref) as stream:
        return list(codec.decode(stream.read())["parts"])


def _named(ref: Mapping[str, Any]) -> str:
    return f"the result {ref['ref']}"


def _no_value(what: str, form: str, hint: str) -> TaskError:
    return TaskError(
        f"{what} is {form}, which is not a value", kind="schema", code="result_not_a_value", hint=hint
    )
