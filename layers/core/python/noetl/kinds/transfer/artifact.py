"""Results as an end of a transfer: rows of a step's result, or a new artifact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from noetl.domain.results.references import canonical, is_ref, plain_loop
from noetl.kinds.rows.formats import CHUNK_ROWS
from noetl.kinds.rows.reading import behind
from noetl.kinds.rows.sources import references, row_chunks, rows_of
from noetl.kinds.rows.writing import rows_meta
from noetl.kinds.support.task_workspace import private_folder
from noetl.kinds.transfer.endpoint_base import IntoFile, RowFile, SourceEnd
from noetl.kinds.transfer.endpoints import Chunk, Counted, Position, Row, Source, changed, in_chunks
from noetl.kinds.transfer.params import ArtifactSource, ArtifactTarget


class FromArtifact(SourceEnd[ArtifactSource]):
    """What is kept never changes: rows are counted off to where the transfer was."""

    def chunks(self, position: Position | None) -> Iterator[Chunk]:
        skip = int(position["rows"]) if position else 0
        value = plain_loop(self._params.ref)
        about = {"sha256": value.get("sha256")} if is_ref(value) else {}
        if position and position.get("sha256") != about.get("sha256"):
            raise changed("the result", "is another one")
        counted = Counted(about, skip)
        for chunk in in_chunks(self._pieces(value, skip), self._chunk_rows):
            yield counted.chunk(chunk)

    def _pieces(self, value: Any, skip: int) -> Iterator[Sequence[Row]]:
        parts = references(value, self._context)
        if parts is None:
            return behind([rows_of(value, "`source.ref`")], skip)
        return row_chunks(
            parts,
            self._context.artifacts,
            f"the result {canonical(value)['ref']}" if is_ref(value) else "`source.ref`",
            format=self._params.format,
            delimiter=self._params.delimiter,
            nulls=True,
            chunk_rows=min(self._chunk_rows, CHUNK_ROWS),
            skip=skip,
        )


class IntoArtifact(IntoFile[ArtifactTarget]):
    """A new artifact as a target, there when it is complete.

    A transfer that was cut off begins again with another one.
    """

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(private_folder(self._context))
        self._file = self._stack.enter_context(self._context.artifacts.create(self._params.format))
        self._rows = RowFile(
            self._params.format,
            self._file.write,
            self._plan,
            self._params.types,
            folder,
            redaction=self._context.artifacts.redaction(),
        )
        return self

    def finish(self, source: Source) -> dict[str, Any]:
        written = self._rows.close(source, "the artifact")
        return {"rows_written": written, "artifact": self._file.close(rows_meta(written, self._rows.columns))}
