"""The content of a reference, loaded: a value, rows, text, bytes, or a slice of them.

A slice is read as a stream up to its end.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal, TypeVar, cast

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.results.manifests import join, part_refs
from noetl.domain.results.references import canonical, decoded, format_of, plain_loop, select, size_of
from noetl.kinds.rows.formats import FORMATS
from noetl.kinds.rows.reading import read_values
from noetl.kinds.rows.sources import parts_of, row_chunks, stored_manifest

As = Literal["value", "rows", "text", "base64"]
_BLOCK = 256 * 1024
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Slice:
    """``limit`` elements after the first ``offset``.

    The elements are of a list, rows, characters of a text, or bytes.
    """

    offset: int = 0
    limit: int | None = None

    @property
    def whole(self) -> bool:
        return not self.offset and self.limit is None

    @property
    def stop(self) -> int | None:
        return None if self.limit is None else self.offset + self.limit

    def of(self, value: Any) -> Any:
        """Cut a list or a text; return anything else as it is."""
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
    """Load the content of ``ref``, or the ``part`` of it.

    ``format`` replaces the format that the reference states.

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
        return self._gathered(islice(self._elements(), self.part.offset, self.part.stop))

    def whole(self) -> Any:
        """Return all of it, decoded."""
        if self.form != "json":
            return _Reading(self.ref, self.context, self.form, Slice()).value()
        found = stored_manifest(self.ref, self.context.artifacts)
        if found is None:
            self._refuse_above(size_of(self.ref))
            return plain_loop(self._decoded(self.ref))
        parts = part_refs(found)
        self._refuse_above(sum(map(size_of, parts)))
        return join({**found, "parts": parts}, self._decoded)

    def rows(self) -> list[Mapping[str, Any]]:
        what = _named(self.ref)
        if self.form not in FORMATS:
            raise _no_value(what, self.form, f"say what its rows are: `format: {' | '.join(FORMATS)}`")
        artifacts = self.context.artifacts
        parts = parts_of(self.ref, artifacts)
        chunks = row_chunks(parts, artifacts, what, format=self.form, skip=self.part.offset)
        return self._gathered(islice(chain.from_iterable(chunks), self.part.limit))

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

    def _decoded(self, ref: Mapping[str, Any]) -> Any:
        with self.context.artifacts.open(ref) as stream:
            return decoded(stream.read(), ref)

    def _elements(self) -> Iterator[Any]:
        """Yield the elements of a list, one by one."""
        form = cast(Literal["json", "jsonl"], self.form)
        for one in parts_of(self.ref, self.context.artifacts):
            if isinstance(one, list):
                yield from one
                continue
            with self.context.artifacts.open(one) as stream:
                yield from read_values(stream, form, what=_named(self.ref))

    def _blocks(self) -> Iterator[bytes]:
        """Yield blocks; the last one is empty."""
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


def _named(ref: Mapping[str, Any]) -> str:
    return f"the result {canonical(ref)['ref']}"


def _no_value(what: str, form: str, hint: str) -> TaskError:
    return TaskError(
        f"{what} is {form}, which is not a value", kind="schema", code="result_not_a_value", hint=hint
    )
