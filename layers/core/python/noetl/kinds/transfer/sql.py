"""Queries that a transfer reads: one statement each, wrapped to continue behind a row."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.results.references import is_ref
from noetl.kinds.support.sql_params import statements_of
from noetl.kinds.transfer.params import Query
from noetl.templating.contract import RenderedStatement

_AFTER = "noetl_after_"


def statement_of(params: Query, context: TaskContext, quoted: Callable[[str], str]) -> RenderedStatement:
    """Return the query, or one of all of ``table``. Raises TaskError."""
    if params.query is None:
        return RenderedStatement(" ".join(["SELECT * FROM", quoted(str(params.table))]))
    statements = statements_of(params.query, params.params)
    if len(statements) != 1:
        raise TaskError(
            f"`source.query` holds {len(statements)} statements; a transfer reads the rows of one",
            kind="schema",
            code="not_a_query",
        )
    found = statements[0]
    return RenderedStatement(
        found.text, {name: _loaded(value, context) for name, value in found.params.items()}
    )


def _loaded(value: Any, context: TaskContext) -> Any:
    """Load a reference for a query, which needs the value itself.

    ``source`` reaches the kind with references in it.
    """
    from noetl.kinds.support.artifact_values import load

    return load(value, context) if is_ref(value) else value


def after_clause(
    statement: RenderedStatement, order: Sequence[str], after: Sequence[str] | None
) -> RenderedStatement:
    """Order ``statement`` by columns (quoted names), behind the row with the values ``after``."""
    names = ", ".join(order)
    params = dict(statement.params)
    text, where = statement.text, ""
    if after is not None:
        if not params:
            text = text.replace("%", "%%")
            names = names.replace("%", "%%")
        marks = ", ".join(f"%({_AFTER}{at})s" for at in range(len(after)))
        where = f" WHERE ({names}) > ({marks})"
        params |= {f"{_AFTER}{at}": value for at, value in enumerate(after)}
    elif params:
        names = names.replace("%", "%%")
    parts = ["SELECT * FROM (\n", text, "\n) AS noetl_source", where, " ORDER BY ", names]
    return RenderedStatement("".join(parts), params)


def last_key(
    rows: Sequence[Mapping[str, Any]],
    order: Sequence[str],
    before: Sequence[str] | None,
    binary: Collection[str] = (),
) -> list[str]:
    """Return the values of ``order`` in the last row, as texts that the database reads.

    ``binary``: columns whose values are base64.

    Raises TaskError: the values do not identify where to continue.
    """
    first, last = (_key(rows[at], order, binary) for at in (0, -1))
    if before is not None and list(before) == first:
        raise TaskError(
            f"two rows have the same {', '.join(order)}: {', '.join(first)[:200]}",
            kind="schema",
            code="order_not_unique",
            hint="`order_by` takes columns that are unique together; add one",
        )
    return last


def _key(row: Mapping[str, Any], order: Sequence[str], binary: Collection[str]) -> list[str]:
    found = []
    for name in order:
        value = row.get(name)
        if value is None or isinstance(value, (dict, list)):
            what = "has no column" if name not in row else "has null, or no single value, in"
            raise TaskError(
                f"the source {what} {name!r}, by which it is ordered",
                kind="schema",
                code="order_not_unique",
                hint="`order_by` takes columns of the source that are never null",
            )
        if name in binary and isinstance(value, str):
            value = f"\\x{base64.b64decode(value).hex()}"
        found.append(("t" if value else "f") if isinstance(value, bool) else str(value))
    return found
