"""Rows of a database as JSON: the one way for every SQL kind.

| database value | JSON |
|---|---|
| integers of any size | integer |
| numeric, decimal | integer when integral, a number when a double holds it exactly as written, else text |
| NaN, infinities | null |
| date, time, timestamp | ISO 8601 text; what Python cannot hold (``infinity``, year 10000) is the database's own text |
| uuid, enum, range, network address, bit | text |
| interval | text (``1 mon 2 days``; duckdb: days and ``HH:MM:SS``) |
| bytea, blob | base64 text |
| json | the value |
| array, list | list |
| struct, map, row | mapping with text keys |
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError

MAX_INTEGER_DIGITS = 1000
"""Longer integral numerics are text: Python itself refuses to print integers of many thousand digits."""


def to_json(value: Any, depth: int = 0) -> Any:
    """Convert a database driver's value to JSON (see the table above).

    Raises TaskError(kind="parse").
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return decimal_to_json(value)
    if isinstance(value, (Mapping, list, tuple, set)):
        if depth >= codec.MAX_DEPTH:
            raise TaskError(
                f"a value is nested more than {codec.MAX_DEPTH} levels deep", kind="parse", code="too_deep"
            )
        if isinstance(value, Mapping):
            return {_key(key): to_json(item, depth + 1) for key, item in value.items()}
        return [to_json(item, depth + 1) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return interval_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    return str(value)


def _key(key: Any) -> str:
    plain = to_json(key)
    return plain if isinstance(plain, str) else codec.encode(plain).decode()


def decimal_to_json(value: Decimal) -> int | float | str | None:
    """Convert a decimal to an exact number or to text; never round it.

    ``10.00`` → 10, ``0.1`` → 0.1, ``0.1234567890123456789`` → itself as text.
    """
    if not value.is_finite():
        return None
    if value.adjusted() >= MAX_INTEGER_DIGITS:
        return format(value, "f")
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    return number if math.isfinite(number) and Decimal(repr(number)) == value else str(value)


def interval_text(value: datetime.timedelta) -> str:
    """Write an interval as databases do: ``3 days 01:02:03.5``."""
    sign, span = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    hours, rest = divmod(span.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    clock = f"{sign}{hours:02}:{minutes:02}:{seconds:02}"
    if span.microseconds:
        clock += f".{span.microseconds:06}".rstrip("0")
    if not span.days:
        return clock
    days = f"{sign}{span.days} day{'' if span.days == 1 else 's'}"
    return f"{days} {clock}" if span.seconds or span.microseconds else days


def unique_names(names: Sequence[str]) -> list[str]:
    """Number repeated column names (``id``, ``id_2``), so no column hides another in a row."""
    taken = set(names)
    unique: list[str] = []
    seen: set[str] = set()
    for name in names:
        chosen, number = name, 2
        while chosen in seen or (chosen != name and chosen in taken):
            chosen, number = f"{name}_{number}", number + 1
        seen.add(chosen)
        unique.append(chosen)
    return unique


def refuse_twins(names: Iterable[str]) -> None:
    """Refuse columns that differ in upper and lower case alone: they are one to DuckDB.

    Raises TaskError(code="name_invalid").
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise TaskError(
                f"two columns are called {other!r} and {name!r}, which DuckDB does not tell apart",
                kind="client_error",
                code="name_invalid",
                hint="call one of them something else: SELECT … AS …",
            )


EARLIER_BYTES = 256 * 1024
"""Rows that a statement before the last one may leave in the result, as JSON."""


class Table:
    """The rows of one statement, measured as JSON while they arrive."""

    def __init__(self, columns: Sequence[str], limit: int, *, keep: bool = True) -> None:
        """Gather rows up to ``limit`` bytes.

        With ``keep=False`` rows are kept up to ``EARLIER_BYTES``, and above only counted.
        """
        self.columns = unique_names(columns)
        self.rows: list[dict[str, Any]] = []
        self.row_count = 0
        self.size = 0
        self._limit = limit
        self._keep = keep
        self._dropped = False

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows. Raises TaskError(kind="storage_quota", code="result_too_large")."""
        if self._dropped:
            self.row_count += sum(1 for _ in rows)
            return
        chunk = [dict(zip(self.columns, map(to_json, row), strict=True)) for row in rows]
        self.rows += chunk
        self.row_count += len(chunk)
        self.size += len(codec.encode(chunk)) - 2
        if not self._keep and self.size > min(EARLIER_BYTES, self._limit):
            self._dropped, self.rows = True, []
        elif self.size > self._limit:
            raise TaskError(
                f"the result is larger than {self._limit} bytes: {self.size} bytes after {self.row_count} rows",
                kind="storage_quota",
                code="result_too_large",
                hint="select fewer rows or columns, or aggregate in SQL",
                details={"size": self.size, "limit": self._limit, "row_count": self.row_count},
            )

    def result(self) -> dict[str, Any]:
        if self._dropped:
            return {"columns": self.columns, "row_count": self.row_count}
        return {"columns": self.columns, "rows": self.rows, "row_count": self.row_count}


def combine(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Build the task's result from its statements: the last one, and of several ``results``.

    ``results`` has what each statement returned, of the last one only the counts.
    """
    if not found:
        return {"affected_rows": 0}
    return {**found[-1], "results": [*found[:-1], summary_of(found[-1])]} if len(found) > 1 else found[-1]


def summary_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of a statement's result."""
    return {name: result[name] for name in ("row_count", "affected_rows") if name in result}
