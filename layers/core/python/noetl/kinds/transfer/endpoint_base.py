"""Common parts of the ends of transfers, for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from noetl.domain.kinds import Redaction, TaskContext
from noetl.kinds.rows.formats import RowFormat
from noetl.kinds.rows.parquet import Sink
from noetl.kinds.rows.writing import RowWriter, row_writer
from noetl.kinds.transfer.endpoints import Plan, Position, Progress, Row, Source, counts_differ

P = TypeVar("P")


class End(Generic[P]):
    """A context manager. ``_stack``: what was opened for it, which is closed when it is left."""

    def __init__(self, params: P, context: TaskContext) -> None:
        self._params = params
        self._context = context
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


class SourceEnd(End[P]):
    """An end that is a ``Source``."""

    def __init__(self, params: P, context: TaskContext, chunk_rows: int) -> None:
        super().__init__(params, context)
        self._chunk_rows = chunk_rows
        self.columns: Sequence[str] | None = None
        self.types: Mapping[str, str] = {}


class TargetEnd(End[P]):
    """An end that is a ``Target``."""

    def __init__(self, params: P, plan: Plan, context: TaskContext) -> None:
        super().__init__(params, context)
        self._plan = plan
        self._progress = Progress()
        self._columns = plan.columns
        """Those that are written; empty until they are known."""


class IntoFile(TargetEnd[P]):
    """A target file that exists only when it is complete.

    A transfer that was cut off begins it again. ``_rows``: made when it is entered.
    """

    _rows: RowFile

    def begin(self) -> Progress:
        return self._rows.progress

    def write(self, rows: Sequence[Row], position: Position, source: Source) -> None:
        self._rows.write(rows, source)


class RowFile:
    """A file that rows are written into as they come; it exists only when it is complete.

    A transfer that was cut off begins it again. ``types``: of Parquet columns; those of the source go before them, unless the playbook
    names the columns.
    """

    def __init__(
        self,
        format: RowFormat,
        sink: Sink,
        plan: Plan,
        types: Mapping[str, str],
        folder: Path,
        delimiter: str = ",",
        *,
        redaction: Redaction | None = None,
    ) -> None:
        self._redaction = redaction
        self._format = format
        self._sink = sink
        self._named = plan.columns or None
        self._types = types
        self._folder = str(folder)
        self._delimiter = delimiter
        self._out: RowWriter | None = None
        self.progress = Progress()
        self.columns: Sequence[str] = plan.columns

    def write(self, rows: Sequence[Row], source: Source) -> None:
        """Write rows. Raises TaskError."""
        self._writer(source).write(rows)
        self.columns = self.columns or tuple(rows[0])
        self.progress.rows_read += len(rows)

    def close(self, source: Source, where: str) -> int:
        """Close the file; return its number of rows.

        Raises TaskError when it differs from the rows that were read.
        """
        written = self._writer(source).close()
        if written != self.progress.rows_read:
            raise counts_differ(self.progress.rows_read, written, where)
        return written

    def _writer(self, source: Source) -> RowWriter:
        if self._out is None:
            self.columns = self.columns or source.columns or ()
            types: dict[str, Any] = (
                {**source.types, **self._types} if self._named is None else {**self._types}
            )
            columns = self._named or source.columns
            self._out = row_writer(
                self._format,
                self._sink,
                columns,
                types,
                self._folder,
                self._delimiter,
                redaction=self._redaction,
            )
        return self._out
