"""Snowflake as an end of a transfer, through its SQL API.

Each request is a session of its own.

Read: Snowflake keeps the result of a statement for a day, so a transfer that was cut off continues in the same result. Written: rows
are gathered in a table beside the target, whose rows record the transfer's progress (each statement that inserts is atomic). In the end
one request with one transaction carries them into the target and records that the transfer is over.
"""

from __future__ import annotations

import hashlib
import secrets as randomness
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.kinds.rows.columns import check_names
from noetl.kinds.snowflake.statements import Statements, columns_of, exact_name, rows_in
from noetl.kinds.transfer.endpoint_base import SourceEnd, TargetEnd
from noetl.kinds.transfer.endpoints import (
    Chunk,
    Counted,
    Plan,
    Position,
    Progress,
    Row,
    Source,
    check_begun,
    counts_differ,
    in_chunks,
)
from noetl.kinds.transfer.params import SnowflakeSource, SnowflakeTarget
from noetl.kinds.transfer.sql import statement_of
from noetl.templating.contract import RenderedStatement
from noetl.templating.sql_values import quote_part

BOOKS = "NOETL_TRANSFER"
MOST_BINDS = 10_000
_ORDER, _PLACE, _RUN = "NOETL_ROW", "NOETL_POSITION", "NOETL_RUN"
_TYPES = {
    "real": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "time": "TIME",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "timestamp_ltz": "TIMESTAMP_LTZ",
    "timestamp_tz": "TIMESTAMP_TZ",
}
_DUCKDB = {
    **_TYPES,
    "timestamp_ntz": "TIMESTAMP",
    "timestamp_ltz": "TIMESTAMP WITH TIME ZONE",
    "timestamp_tz": "TIMESTAMP WITH TIME ZONE",
    "variant": "JSON",
    "object": "JSON",
    "array": "JSON",
    "binary": "BLOB",
    "text": "VARCHAR",
}
_DOCUMENTS = frozenset({"variant", "object", "array"})


class FromSnowflake(SourceEnd[SnowflakeSource]):
    """The result of one statement, part by part."""

    def chunks(self, position: Position | None) -> Iterator[Chunk]:
        session = Statements(self._params, self._context)
        if position:
            body = session.kept(str(position["handle"]))
        else:
            body = session.begun(statement_of(self._params, self._context, exact_name))
        handle, skip = session.query_id, int(position["rows"]) if position else 0
        columns = columns_of(body)
        self.columns = [str(column["name"]) for column in columns]
        self.types = {str(column["name"]): kind for column in columns if (kind := _duckdb_type(column))}
        counted = Counted({"handle": handle}, skip)
        for chunk in in_chunks(self._pieces(session, body, handle, columns, skip), self._chunk_rows):
            yield counted.chunk(chunk)

    @staticmethod
    def _pieces(
        session: Statements,
        body: Mapping[str, Any],
        handle: str,
        columns: list[Mapping[str, Any]],
        skip: int,
    ) -> Iterator[list[Row]]:
        parts = (body.get("resultSetMetaData") or {}).get("partitionInfo") or [{}]
        for number, about in enumerate(parts):
            count = about.get("rowCount")
            if isinstance(count, int) and skip >= count > 0:
                skip -= count
                continue
            rows = body.get("data") or [] if number == 0 else session.part(handle, number)
            if skip < len(rows):
                yield rows_in(columns, rows[skip:])
            skip = max(0, skip - len(rows))


def _duckdb_type(column: Mapping[str, Any]) -> str:
    kind = str(column.get("type", "")).lower()
    if kind != "fixed":
        return _DUCKDB.get(kind, "")
    precision, scale = column.get("precision"), column.get("scale")
    return f"DECIMAL({precision},{scale})" if isinstance(precision, int) and isinstance(scale, int) else ""


class IntoSnowflake(TargetEnd[SnowflakeTarget]):
    """A table as a target.

    Rows of a source without an order are marked as those of this attempt, and others are left out. What is not over stays beside the target,
    for the next attempt.
    """

    def __init__(self, params: SnowflakeTarget, plan: Plan, context: TaskContext) -> None:
        super().__init__(params, plan, context)
        self._key = hashlib.sha256(plan.key.encode()).hexdigest()
        self._run = "" if plan.resumable else randomness.token_hex(8)
        place, _, _ = params.table.rpartition(".")
        beside = f"{place}." if place else ""
        self._table = exact_name(params.table)
        self._books = exact_name(f"{beside}{BOOKS}")
        self._staging = exact_name(f"{beside}{plan.staging.upper()}")

    def begin(self) -> Progress:
        session = self._session = Statements(self._params, self._context)
        self._say(
            "CREATE TABLE IF NOT EXISTS", self._books,
            "(KEY VARCHAR, FINGERPRINT VARCHAR, ROWS_READ BIGINT, ROWS_WRITTEN BIGINT, DONE_AT TIMESTAMP_NTZ)",
        )  # fmt: skip
        text = " ".join(
            ["SELECT FINGERPRINT, ROWS_READ, ROWS_WRITTEN FROM", self._books, "WHERE KEY = %(key)s"]
        )
        done = session.rows(text, key=self._key)
        if done:
            check_begun(self._plan, done[0]["fingerprint"])
            self._progress = Progress(None, done[0]["rows_read"], done[0]["rows_written"], True)
            return self._progress
        self._types = {
            str(column["name"]): column
            for column in columns_of(self._say("SELECT * FROM", self._table, "LIMIT 0"))
        }
        extra = f", CAST(0 AS BIGINT) AS {_ORDER}, CAST(NULL AS VARCHAR) AS {_PLACE}, CAST(NULL AS VARCHAR) AS {_RUN}"
        self._say(
            "CREATE TABLE IF NOT EXISTS",
            self._staging,
            "AS SELECT *",
            extra,
            "FROM",
            self._table,
            "WHERE 1 = 0",
        )
        self._go_on(session)
        return self._progress

    def _go_on(self, session: Statements) -> None:
        """To the last row that has a position: what lies behind it is of a chunk that was cut off."""
        if not self._plan.resumable:
            self._say("DELETE FROM", self._staging)
            return
        text = " ".join(
            [
                "SELECT",
                _ORDER,
                ",",
                _PLACE,
                "FROM",
                self._staging,
                "WHERE",
                _PLACE,
                "IS NOT NULL ORDER BY",
                _ORDER,
                "DESC LIMIT 1",
            ]
        )
        found = session.rows(text)
        if not found:
            self._say("DELETE FROM", self._staging)
            return
        kept = codec.decode(found[0][_PLACE.lower()])
        check_begun(self._plan, kept["fingerprint"])
        self._progress = Progress(kept["position"], int(found[0][_ORDER.lower()]))
        self._columns = tuple(kept["columns"])
        self._say("DELETE FROM", self._staging, "WHERE", _ORDER, ">", str(self._progress.rows_read))

    def write(self, rows: Sequence[Row], position: Position, source: Source) -> None:
        if not self._columns:
            self._columns = tuple(source.columns or rows[0])
        self._check_columns()
        if not self._plan.columns:
            check_names(rows, self._columns, self._progress.rows_read)
        size = max(1, MOST_BINDS // (len(self._columns) + 3))
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            state = {"position": position, "columns": self._columns, "fingerprint": self._plan.fingerprint}
            last = codec.encode(state).decode() if start + size >= len(rows) else None
            self._insert(batch, last)
            self._progress.rows_read += len(batch)

    def finish(self, source: Source) -> dict[str, Any]:
        read = self._progress.rows_read
        written = self._counted(_ORDER)
        if written != read:
            raise counts_differ(read, written, "the table beside the target")
        if self._plan.mode == "upsert" and read:
            written = self._counted(self._names(self._plan.keys))
        statements = ["BEGIN TRANSACTION", *self._exchange(read > 0), self._noted(read, written), "COMMIT"]
        self._session.begun(RenderedStatement(";\n".join(statements)), len(statements))
        self._say("DROP TABLE IF EXISTS", self._staging)
        self._progress.rows_written = written
        return {"rows_written": written, "table": self._params.table}

    # --- rows ------------------------------------------------------------------------------------------

    def _insert(self, rows: Sequence[Row], position: str | None) -> None:
        """Insert rows by one statement, which is one transaction.

        All values travel as text, and are converted to the types of their columns.
        """
        width = len(self._columns)
        values: dict[str, Any] = {}
        lines = []
        for at, row in enumerate(rows):
            fields = [
                *(_text(row.get(name)) for name in self._columns),
                str(self._progress.rows_read + at + 1),
            ]
            fields += [position if at == len(rows) - 1 else None, self._run]
            values |= {f"v{at}_{place}": value for place, value in enumerate(fields)}
            lines.append(f"({', '.join(f'%(v{at}_{place})s' for place in range(width + 3))})")
        given = ", ".join(f"c{place}" for place in range(width + 3))
        chosen = [self._cast(self._types[name], f"c{place}") for place, name in enumerate(self._columns)]
        chosen += [f"CAST(c{width} AS BIGINT)", f"c{width + 1}", f"c{width + 2}"]
        names = f"({self._names(self._columns)}, {_ORDER}, {_PLACE}, {_RUN})".replace("%", "%%")
        parts = [
            "INSERT INTO",
            self._staging.replace("%", "%%"),
            names,
            "SELECT",
            ", ".join(chosen),
            "FROM (VALUES",
        ]
        text = " ".join([*parts, ", ".join(lines), f") AS v ({given})"])
        first = self._progress.rows_read + 1
        try:
            self._session.begun(RenderedStatement(text, values))
        except TaskError as error:
            error.message = f"rows {first} to {first + len(rows) - 1}: {error.message}"
            error.details["rows"] = [first, first + len(rows) - 1]
            raise

    @staticmethod
    def _cast(column: Mapping[str, Any], value: str) -> str:
        kind = str(column.get("type", "")).lower()
        if kind in _DOCUMENTS:
            return f"PARSE_JSON({value})"
        if kind == "binary":
            return f"TO_BINARY({value}, 'BASE64')"
        if kind == "fixed":
            return f"CAST({value} AS DECIMAL({int(column.get('precision') or 38)}, {int(column.get('scale') or 0)}))"
        return f"CAST({value} AS {_TYPES[kind]})" if kind in _TYPES else value

    # --- the end ---------------------------------------------------------------------------------------

    def _exchange(self, any_rows: bool) -> list[str]:
        """Write the statements that carry gathered rows into the target, each row once.

        Repeated rows are dropped; of rows with one key the last one is taken.
        """
        cleared = [" ".join(["DELETE FROM", self._table])] if self._plan.mode == "replace" else []
        if not any_rows:
            return cleared
        names = self._names(self._columns)
        by = self._names(self._plan.keys) if self._plan.mode == "upsert" else _ORDER
        once = f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {_ORDER} DESC) = 1"
        rows = " ".join(["SELECT", names, "FROM", self._staging, self._own_rows(), once])
        if self._plan.mode != "upsert":
            return [*cleared, " ".join(["INSERT INTO", self._table, f"({names})", rows])]
        keys = " AND ".join(f"t.{name} = s.{name}" for name in map(quote_part, self._plan.keys))
        others = [str(quote_part(name)) for name in self._columns if name not in self._plan.keys]
        changes = ", ".join(f"{name} = s.{name}" for name in others)
        sets = ["WHEN MATCHED THEN UPDATE SET", changes] if others else []
        own = ", ".join(f"s.{quote_part(name)}" for name in self._columns)
        added = ["WHEN NOT MATCHED THEN INSERT (", names, ") VALUES (", own, ")"]
        return [" ".join(["MERGE INTO", self._table, "AS t USING (", rows, ") AS s ON", keys, *sets, *added])]

    def _noted(self, read: int, written: int) -> str:
        values = f"('{self._key}', '{self._plan.fingerprint}', {read}, {written}, CURRENT_TIMESTAMP)"
        return " ".join(["INSERT INTO", self._books, "VALUES", values])

    def _counted(self, what: str) -> int:
        text = [
            "SELECT COUNT(*) AS N FROM (SELECT DISTINCT",
            what,
            "FROM",
            self._staging,
            self._own_rows(),
            ") AS d",
        ]
        return int(self._session.rows(" ".join(text))[0]["n"])

    def _own_rows(self) -> str:
        return f"WHERE {_RUN} = '{self._run}'" if self._run else ""

    def _names(self, names: Sequence[str]) -> str:
        return ", ".join(str(quote_part(name)) for name in names)

    def _check_columns(self) -> None:
        missing = [name for name in self._columns if name not in self._types]
        if missing:
            raise TaskError(
                f"the table {self._params.table} has no column {', '.join(map(repr, missing[:10]))}",
                kind="client_error",
                code="000904",
                hint=f"it has {', '.join(self._types)[:300]}; say what goes where in `columns` ({{{next(iter(self._types))}: {missing[0]}}})",
            )

    def _say(self, *parts: str) -> Mapping[str, Any]:
        """Run a statement of words and of names that are quoted."""
        return self._session.begun(RenderedStatement(" ".join(parts)))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return codec.encode(value).decode()
