"""Tables of a duckdb task that come from other places.

Every one is a view over files that the task may read, and no others. NoETL's own clients bring remote data here, as a stream into a
file: DuckDB itself reaches nothing. Nothing is held in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.results.references import plain_loop
from noetl.kinds.duckdb.copies import CHUNK, pieces_of, write_pieces
from noetl.kinds.duckdb.csv_dialect import csv_options
from noetl.kinds.duckdb.params import Source
from noetl.kinds.duckdb.quoting import literal
from noetl.kinds.duckdb.values import spool, spooled_rows
from noetl.kinds.rows.formats import format_of
from noetl.kinds.rows.reading import read_rows
from noetl.kinds.rows.sources import promised_rows, references, row_format, rows_of
from noetl.kinds.support.given_folders import in_given
from noetl.kinds.support.paths import locate, open_file
from noetl.templating.contract import RenderedStatement

_PACKED = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Table:
    """A view to be made: ``select`` reads ``files``.

    ``wide``: another SELECT, for files that have very many columns.
    """

    name: str
    select: str
    files: tuple[str, ...]
    wide: str = ""


def tables_of(
    sources: Mapping[str, Source], context: TaskContext, folder: Path, stack: ExitStack
) -> list[Table]:
    """Bring every source here.

    ``folder``: where copies may be written; ``stack`` is left when nothing is read any more.

    Raises TaskError; ``details.source`` is the source's name.
    """
    found = []
    until = time.monotonic() + context.timeout
    for number, (name, source) in enumerate(sources.items()):
        try:
            maker = _Maker(name, source, context, folder / f"source-{number}", stack, until)
            found.append(maker.table())
        except TaskError as error:
            error.details.setdefault("source", name)
            raise
    return found


@dataclass(frozen=True, slots=True)
class _Maker:
    name: str
    source: Source
    context: TaskContext
    place: Path
    stack: ExitStack
    until: float
    """When the task's time is over (monotonic seconds)."""

    @property
    def what(self) -> str:
        return f"the source {self.name!r}"

    def table(self) -> Table:
        source = self.source
        if source.postgres is not None:
            return self._postgres(source.postgres)
        if source.s3 is not None:
            return self._s3(source.s3)
        if source.file is not None:
            return self._file(source.file)
        return self._ref(source.ref)

    # --- results of steps -----------------------------------------------------------------------

    def _ref(self, value: Any) -> Table:
        refs = references(value, self.context)
        if refs is None:
            return self._rows(rows_of(value, self.what), plain_loop(value))
        held = [one for one in refs if isinstance(one, list)]
        kept = [one for one in refs if isinstance(one, Mapping)]
        if not kept:
            return self._rows([row for rows in held for row in rows_of(rows, self.what)], None)
        formats = {row_format(ref, self.source.format, self.what) for ref in kept}
        if len(formats) > 1:
            raise TaskError(
                f"{self.what} has parts of several formats: {', '.join(sorted(formats))}",
                kind="schema",
                code="not_rows",
                hint="make a source of each",
            )
        format: str = formats.pop()
        paths = [self.stack.enter_context(self.context.artifacts.file(ref, f".{format}")) for ref in kept]
        if format == "json":
            paths, format = self._json([*paths, *self._written(held)])
        if format == "jsonl":
            full = [path for path in paths if path.stat().st_size]
            if not full:
                return self._empty(_promised_columns(kept))
            paths = full
        elif format == "json" and all(_is_blank_list(path) for path in paths):
            return self._empty(_promised_columns(kept))
        return self._over(paths, format, written_here=promised_rows(kept) is not None)

    def _json(self, paths: list[Path]) -> tuple[list[Path], str]:
        """Prepare JSON files: DuckDB reads a list as it is; rows of a mapping are taken out.

        They are taken out one after the other.
        """
        plain = []
        for number, path in enumerate(paths):
            with path.open("rb") as file:
                begin = file.read(64).lstrip()
            if begin.startswith(b"["):
                plain.append(path)
                continue
            copied = self.place.with_suffix(f".{number}.jsonl")
            with path.open("rb") as file, copied.open("wb") as out:
                for chunk in read_rows(file, "json", what=self.what):
                    out.writelines(_line(row) for row in chunk)
            if len(paths) == 1:
                return [copied], "jsonl"
            plain.append(copied)
        return plain, "json"

    def _written(self, held: Sequence[Any]) -> Iterator[Path]:
        """Rows that have no object of their own yet, as files."""
        for number, rows in enumerate(held):
            path = self.place.with_suffix(f".held-{number}.json")
            path.write_bytes(codec.encode(rows_of(rows, self.what)))
            yield path

    def _rows(self, rows: Sequence[Mapping[str, Any]], value: Any) -> Table:
        if not rows:
            columns = value.get("columns") if isinstance(value, Mapping) else None
            return self._empty(columns if isinstance(columns, list) else [])
        path = self.place.with_suffix(".jsonl")
        with path.open("wb") as out:
            out.writelines(_line(row) for row in rows)
        return self._over([path], "jsonl")

    def _empty(self, columns: Sequence[Any]) -> Table:
        """Make a table without rows; its columns come from the source or from ``columns``."""
        types = self.source.columns or dict.fromkeys(map(str, columns), "VARCHAR")
        if not types:
            raise TaskError(
                f"{self.what} has no rows, so its columns are unknown",
                kind="schema",
                code="source_empty",
                hint="name them: columns: {id: BIGINT, city: VARCHAR}",
            )
        path = self.place.with_suffix(".jsonl")
        path.touch()
        return Table(
            self.name, _select("read_json", [path], _options("jsonl", types, several=False)), (str(path),)
        )

    # --- from elsewhere -------------------------------------------------------------------------

    def _postgres(self, auth: str) -> Table:
        from noetl.kinds.postgres.copy import quoted
        from noetl.kinds.postgres.open import opened
        from noetl.kinds.postgres.select import select_rows

        source = self.source
        if source.table is not None:
            statement = RenderedStatement(" ".join(["SELECT * FROM", quoted(source.table)]))
        else:
            statement = _one_statement(source, self.what)
        path = self.place.with_suffix(".jsonl")
        with opened(auth, self.context) as session:
            session.begin()
            session.command("SET TRANSACTION READ ONLY")
            rows = select_rows(session, statement)
            spool(rows, path)
            session.commit()
        types = (
            {column.name: source.columns.get(column.name) for column in rows.columns}
            if source.columns
            else {}
        )
        return Table(self.name, spooled_rows(path, rows.columns, types), (str(path),))

    def _s3(self, uri: str) -> Table:
        from noetl.kinds.cloud.aws_client import AwsParams, answering, client

        bucket, _, key = uri.removeprefix("s3://").partition("/")
        if bucket in self.context.settings.own_buckets:
            raise TaskError(
                f"{bucket} is a bucket of the deployment itself, which tasks do not name",
                kind="storage_access",
                code="bucket_refused",
                hint='pass the result of a step: ref: "{{ step }}"',
            )
        format = self._named(key)
        path = self._beside(key, format)
        service = client("s3", AwsParams(auth=self.source.auth, region=self.source.region), self.context)
        with answering("s3", uri):
            body = service.get_object(Bucket=bucket, Key=key)["Body"]
            write_pieces(body.iter_chunks(CHUNK), path, self.what, self.context, self.until)
        return self._over([path], format)

    # --- files ----------------------------------------------------------------------------------

    def _file(self, name: str) -> Table:
        """Read a file where it is, or a copy of it where tasks may write.

        DuckDB opens it by its name, and they could change where that leads.
        """
        settings = self.context.settings
        path = locate(name, settings, filter(None, [settings.work_dir]))
        format = self._named(path.name)
        if not in_given(str(path), settings.task_folders):
            return self._over([path], format)
        copied = self._beside(path.name, format)
        with open_file(path) as stream:
            write_pieces(pieces_of(stream), copied, self.what, self.context, self.until)
        return self._over([copied], format)

    def _beside(self, name: str, format: str) -> Path:
        """Return where a copy of a file is written, with the ending that says how it is packed."""
        return self.place.with_suffix("".join(Path(name).suffixes[-2:])[:20] or f".{format}")

    def _named(self, name: str) -> str:
        """Return the format of a file: the task's, else that of its name's ending."""
        bare = unquote(name)
        for ending in _PACKED:
            bare = bare.removesuffix(ending)
        format = self.source.format or ("csv" if bare.endswith(".tsv") else format_of(bare))
        if format is None:
            raise TaskError(
                f"{self.what}: {name!r} does not say what it is",
                kind="schema",
                code="source_format",
                hint="format: csv, jsonl, json or parquet",
            )
        return format

    def _over(self, paths: Sequence[Path], format: str, *, written_here: bool = False) -> Table:
        """Make a table over files.

        ``written_here``: a kind has written them.
        """
        if self.source.columns and format == "parquet":
            raise TaskError(
                f"{self.what}: Parquet says its types itself",
                kind="schema",
                code="source_columns",
                hint="leave `columns` out, or CAST in the query",
            )
        reader = {"csv": "read_csv", "parquet": "read_parquet"}.get(format, "read_json")
        options = [*_options(format, self.source.columns, several=len(paths) > 1)]
        if format == "csv":
            options += csv_options(paths[0], written_here=written_here)
        wide = ""
        if reader == "read_json" and not self.source.columns:
            wide = _select(reader, paths, [*options, "map_inference_threshold = -1"])
        return Table(self.name, _select(reader, paths, options), tuple(map(str, paths)), wide)


def _select(reader: str, paths: Sequence[Path], options: Iterable[str]) -> str:
    files = ", ".join(literal(str(path)) for path in paths)
    return " ".join(["SELECT * FROM", f"{reader}({', '.join([f'[{files}]', *options])})"])


def _options(format: str, columns: Mapping[str, str] | None, *, several: bool) -> Iterator[str]:
    if format == "jsonl":
        yield "format = 'newline_delimited'"
    elif format == "json":
        yield "format = 'auto'" if several else "format = 'array'"
    if columns:
        types = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in columns.items())
        yield f"{'types' if format == 'csv' else 'columns'} = {{{types}}}"
    elif several and format != "csv":
        yield "union_by_name = true"


def _one_statement(source: Source, what: str) -> RenderedStatement:
    from noetl.kinds.support.sql_params import statements_of

    found = statements_of((str(source.query),), source.values)
    if len(found) != 1:
        raise TaskError(
            f"{what} has {len(found)} statements", kind="schema", code="source_query", hint="write one query"
        )
    return found[0]


def _promised_columns(refs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the columns that a reference of rows states."""
    for ref in refs:
        columns = (ref.get("extracted") or {}).get("columns")
        if isinstance(columns, list):
            return columns
    return []


def _is_blank_list(path: Path) -> bool:
    """Report whether a file is ``[]``: DuckDB would make a table of one column of it."""
    if path.stat().st_size > 64:
        return False
    return path.read_bytes().strip()[1:-1].strip() == b""


def _line(row: Mapping[str, Any]) -> bytes:
    return codec.encode(row) + b"\n"
