"""Statements of Snowflake that their caller waits for in place.

Kinds that carry out several statements use them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from noetl.domain.errors import TaskError, TemplateError
from noetl.domain.kinds import TaskContext
from noetl.kinds.http.api_call import json_of
from noetl.kinds.http.client import Answer
from noetl.kinds.snowflake.api import Session
from noetl.kinds.snowflake.values import read
from noetl.kinds.transfer.endpoints import Row, changed
from noetl.kinds.transfer.params import SnowflakePlace
from noetl.templating.contract import RenderedStatement
from noetl.templating.sql_values import quote_name

_LONGEST_WAIT = 5.0


class Statements(Session):
    """Statements that are waited for in place."""

    def __init__(self, place: SnowflakePlace, context: TaskContext) -> None:
        super().__init__(context.credential(place.auth), place.places, context)
        # An attempt that died may have used the numbers from 1 on for other statements.
        self._serial = time.time_ns()

    def begun(self, statement: RenderedStatement, count: int = 1) -> Mapping[str, Any]:
        """Run a statement and return Snowflake's answer when it is over.

        ``count``: statements in its text. Raises TaskError.
        """
        self._serial += 1
        self.statement_count = count
        answer = self._finished(self._submit(statement, self._serial), statement)
        return self._over(answer, statement)

    def kept(self, handle: str) -> Mapping[str, Any]:
        """Return the result of an earlier statement.

        Raises TaskError(code="source_changed") when it is not kept any more.
        """
        self.query_id = handle
        try:
            return self._over(self._look(RenderedStatement("")), RenderedStatement(""))
        except TaskError as error:
            if error.status in (404, 410, 422):
                raise changed("the statement's result", "is not kept by Snowflake any more") from None
            raise

    def part(self, handle: str, number: int) -> Sequence[Sequence[str | None]]:
        url = f"{self._base}/api/v2/statements/{handle}?partition={number}"
        return json_of(self._api.call("GET", url)).get("data") or []

    def rows(self, text: str, **params: Any) -> list[dict[str, Any]]:
        """Return the rows of a statement with few of them, by lower-case names."""
        body = self.begun(RenderedStatement(text, params))
        columns = columns_of(body)
        return [
            {name.lower(): cell for name, cell in row.items()}
            for row in rows_in(columns, body.get("data") or [])
        ]

    def _over(self, answer: Answer, statement: RenderedStatement) -> Mapping[str, Any]:
        wait = 0.2
        while answer.status == 202:
            if self._context.cancelled() or wait > self._remaining():
                raise self._cancel_unneeded()
            time.sleep(wait)
            wait = min(_LONGEST_WAIT, wait * 1.5)
            answer = self._look(statement)
        found: Mapping[str, Any] = json_of(answer)
        return found


def columns_of(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((body.get("resultSetMetaData") or {}).get("rowType") or [])


def rows_in(columns: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str | None]]) -> list[Row]:
    return [
        {str(column["name"]): read(cell, column) for cell, column in zip(row, columns, strict=True)}
        for row in rows
    ]


def exact_name(table: str) -> str:
    """Quote a name exactly as it is written: Snowflake's own are in capitals.

    Raises TaskError(code="name_invalid").
    """
    try:
        return str(quote_name(table))
    except TemplateError as error:
        raise TaskError(error.message, kind="client_error", code="name_invalid", hint=error.hint) from None
