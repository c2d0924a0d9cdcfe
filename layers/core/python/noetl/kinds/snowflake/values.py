"""Values into and out of Snowflake's SQL API, where all of them are text.

Going in: ``?`` marks with a type each. Coming out, by the type of the column (documentation of the SQL API, "Getting the data from the
results"): dates are days, times seconds, timestamps seconds since 1970, with a zone ``seconds offset`` where the offset is minutes + 1440.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.kinds.rows.database import decimal_to_json

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
OFFSET = 1440
"""Minutes added to a zone's offset, so that it is never negative."""


def bind(value: Any) -> dict[str, Any]:
    """Bind a value as ``{type, value}``.

    A mapping or a list goes as JSON text: write ``PARSE_JSON(%(name)s)``. Raises TaskError(kind="client_error").
    """
    if value is None:
        return {"type": "TEXT", "value": None}
    if isinstance(value, bool):
        return {"type": "BOOLEAN", "value": "true" if value else "false"}
    if isinstance(value, int):
        return {"type": "FIXED", "value": str(value)}
    if isinstance(value, float):
        return {"type": "REAL", "value": repr(value)}
    if isinstance(value, (dict, list, tuple)):
        return {"type": "TEXT", "value": codec.encode(value).decode()}
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TaskError(
            "a text has half a character, which no database takes", kind="client_error", code="value_invalid"
        ) from None
    return {"type": "TEXT", "value": text}


def read(value: str | None, column: Mapping[str, Any]) -> Any:
    """Convert a cell to JSON. What a column's type does not explain stays text."""
    if value is None:
        return None
    reader = _READERS.get(str(column.get("type", "")).lower())
    if reader is None:
        return value
    try:
        return reader(value)
    except (ValueError, ArithmeticError, OverflowError):
        return value


def _fixed(value: str) -> Any:
    return decimal_to_json(Decimal(value))


def _real(value: str) -> Any:
    number = float(value)
    return number if number == number and abs(number) != float("inf") else None


def _boolean(value: str) -> bool:
    return value.lower() in ("true", "1")


def _date(value: str) -> str:
    return (EPOCH + datetime.timedelta(days=int(value))).date().isoformat()


def _moment(value: str) -> datetime.datetime:
    whole, _, fraction = value.partition(".")
    micros = int((fraction + "000000")[:6])
    return EPOCH + datetime.timedelta(
        seconds=int(whole), microseconds=-micros if value.startswith("-") else micros
    )


def _time(value: str) -> str:
    return _moment(value).time().isoformat()


def _plain(value: str) -> str:
    return _moment(value).replace(tzinfo=None).isoformat()


def _instant(value: str) -> str:
    return _moment(value).isoformat()


def _zoned(value: str) -> str:
    moment, _, offset = value.partition(" ")
    zone = datetime.timezone(datetime.timedelta(minutes=int(offset) - OFFSET))
    return _moment(moment).astimezone(zone).isoformat()


def _binary(value: str) -> str:
    return base64.b64encode(bytes.fromhex(value)).decode()


_READERS: Mapping[str, Any] = {
    "fixed": _fixed,
    "real": _real,
    "boolean": _boolean,
    "date": _date,
    "time": _time,
    "timestamp_ntz": _plain,
    "timestamp_ltz": _instant,
    "timestamp_tz": _zoned,
    "binary": _binary,
    "variant": codec.decode,
    "object": codec.decode,
    "array": codec.decode,
}
