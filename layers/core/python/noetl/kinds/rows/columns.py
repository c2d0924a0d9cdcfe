"""The common columns of rows: the named ones, or those of the first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.domain.errors import TaskError

_HINT = "name the columns that are wanted in `columns`, or write jsonl, where every row has its own"


class Columns:
    """Of rows that come a few at a time. ``names``: None until the first of them came."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self.names = list(names) if names is not None else None
        self.rows = 0

    def check(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the names. Raises TaskError(code="row_shape"): a row has others."""
        if self.names is None:
            self.names = list(rows[0]) if rows else []
        check_names(rows, self.names, self.rows, _HINT)
        self.rows += len(rows)
        return self.names


def check_names(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    before: int,
    hint: str = "say in `columns` which are wanted",
) -> None:
    """Refuse rows with columns that are not written, because their values would be lost.

    ``before``: how many rows came before these.

    Raises TaskError(code="row_shape").
    """
    known = frozenset(columns)
    for number, row in enumerate(rows, start=before + 1):
        if not row.keys() <= known:
            extra = next(name for name in row if name not in known)
            raise TaskError(
                f"row {number} has the column {extra!r}, which the first row does not have",
                kind="schema",
                code="row_shape",
                hint=hint,
                details={"row": number, "column": extra},
            )
