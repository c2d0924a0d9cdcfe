"""Results as an end of a transfer: rows of a step's result, or a new artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

from noetl.domain.kinds import TaskContext
from noetl.domain.results import canonical, is_ref, plain_loop
from noetl.kinds.private_folder import private_folder
from noetl.kinds.rows.formats import CHUNK_ROWS
from noetl.kinds.rows.reading import behind
from noetl.kinds.rows.sources import references, row_chunks, rows_of
from noetl.kinds.rows.writing import row_writer, told
from noetl.kinds.transfer.params import ArtifactSource, ArtifactTarget
from noetl.kinds.transfer.stores import (
    Chunk,
    Counted,
    Plan,
    Position,
    Progress,
    Row,
    Source,
    changed,
    counts_differ,
    in_chunks,
)


class FromArtifact(AbstractContextManager["FromArtifact"]):
    """What is kept never changes: rows are counted off to where the transfer was."""

    def __init__(self, params: ArtifactSource, context: TaskContext, chunk_rows: int) -> None:
        self._params = params
        self._context = context
        self._chunk_rows = chunk_rows
        self.columns: Sequence[str] | None = None
        self.types: Mapping[str, str] = {}

    def __exit__(self, *error: object) -> None:
        """Streams are closed by those who read them."""

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


class IntoArtifact(AbstractContextManager["IntoArtifact"]):
    """A new artifact, there when it is complete; a transfer that was cut off begins again with another one."""

    def __init__(self, params: ArtifactTarget, plan: Plan, context: TaskContext) -> None:
        self._params = params
        self._columns = plan.columns or None
        self._first: Sequence[str] = ()
        self._context = context
        self._progress = Progress()
        self._stack = ExitStack()
        self._out: Any = None

    def __enter__(self) -> Self:
        self._folder = self._stack.enter_context(private_folder(self._context))
        self._file = self._stack.enter_context(self._context.artifacts.create(self._params.format))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def begin(self) -> Progress:
        return self._progress

    def write(self, rows: Sequence[Row], position: Position, source: Source) -> None:
        self._writer(source).write(rows)
        self._first = self._first or tuple(rows[0])
        self._progress.rows_read += len(rows)

    def finish(self, source: Source) -> dict[str, Any]:
        written = self._writer(source).close()
        if written != self._progress.rows_read:
            raise counts_differ(self._progress.rows_read, written, "the artifact")
        about = told(written, self._columns or self._first)
        return {"rows_written": written, "artifact": self._file.close(about)}

    def _writer(self, source: Source) -> Any:
        if self._out is None:
            self._first = source.columns or ()
            self._out = row_writer(
                self._params.format,
                self._file.write,
                self._columns or source.columns,
                {**source.types, **self._params.types} if self._columns is None else dict(self._params.types),
                str(self._folder),
            )
        return self._out
