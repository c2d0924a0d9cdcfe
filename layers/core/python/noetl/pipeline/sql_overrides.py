"""Rendered SQL among the overrides of a ``call``, as plain JSON between turns."""

from __future__ import annotations

from typing import Any

from noetl.templating.contract import RenderedSql, RenderedStatement

_SQL = "$rendered_sql"


def pack_sql(value: Any) -> Any:
    """Return rendered SQL as plain JSON, so that overrides of a ``call`` can wait for a turn."""
    if isinstance(value, RenderedSql):
        return {_SQL: [[statement.text, dict(statement.params)] for statement in value.statements]}
    if isinstance(value, dict):
        return {name: pack_sql(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [pack_sql(entry) for entry in value]
    return value


def unpack_sql(value: Any) -> Any:
    """Reverse ``pack_sql``."""
    if isinstance(value, dict):
        if value.keys() == {_SQL}:
            return RenderedSql(tuple(RenderedStatement(text, params) for text, params in value[_SQL]))
        return {name: unpack_sql(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [unpack_sql(entry) for entry in value]
    return value
