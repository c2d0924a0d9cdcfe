"""Values into and out of Postgres, both as text.

Going in, a value gets the type that lets the server choose where it can: text is untyped, numbers are as wide as
they need to be (but never ``smallint``, which makes calls such as ``generate_series`` ambiguous), mappings are
``jsonb``. A list is an array or JSON, whichever the statement wants there: ``= ANY(…)`` and array columns get an
array, a ``json``/``jsonb`` place gets JSON. When the server cannot tell, a list of one scalar type is an array and
any other list is ``jsonb``.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.abc import Loader as LoaderProtocol
from psycopg.adapt import Loader
from psycopg.types.json import set_json_loads
from psycopg.types.string import TextLoader

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.sizes.gate import find_unfit
from noetl.kinds.rows.database import decimal_to_json

UNTYPED, BOOL, INT8, INT4, TEXT, FLOAT8, NUMERIC, JSON, JSONB = 0, 16, 20, 23, 25, 701, 1700, 114, 3802
_ARRAYS = {bool: 1000, int: 1016, float: 1022, str: 1009}
_JSON_PLACES = frozenset({UNTYPED, TEXT, 1043, JSON, JSONB})
"""Types of a place that takes a list as JSON: json itself, and text, which could not hold an array."""

Wire = tuple[int, bytes | None]
"""Type (object id, 0 for untyped) and text of a value as it travels."""


def is_open(value: Any) -> bool:
    """Report whether a list may be an array or JSON: the statement must say."""
    return isinstance(value, (list, tuple)) and not any(isinstance(item, dict) for item in value)


def dump(value: Any) -> Wire:
    """Dump a value with the type it has by itself.

    Raises TaskError(kind="client_error", code="value_invalid").
    """
    if value is None:
        return UNTYPED, None
    if isinstance(value, bool):
        return BOOL, b"t" if value else b"f"
    if isinstance(value, int):
        oid = INT4 if -(2**31) <= value < 2**31 else INT8 if -(2**63) <= value < 2**63 else NUMERIC
        return oid, format(Decimal(value), "f").encode()
    if isinstance(value, float):
        return FLOAT8, repr(value).encode()
    if isinstance(value, str):
        return UNTYPED, text_bytes(value)
    if isinstance(value, dict):
        return JSONB, _json(value)
    if isinstance(value, (list, tuple)):
        array = _array_type(value)
        return (JSONB, _json(value)) if array is None else (array, _array(value))
    return UNTYPED, text_bytes(str(value))


def dump_for(oid: int, value: Any) -> bytes | None:
    """Dump a value for a place whose type the server has reported."""
    if is_open(value):
        return _json(value) if oid in _JSON_PLACES else _array(value)
    return dump(value)[1]


def text_bytes(text: str, what: str = "a value") -> bytes:
    """Encode a text in UTF-8.

    Raises TaskError for what Postgres cannot hold: NUL and lone surrogates.
    """
    if "\0" in text:
        raise _bad(f"{what} contains the character NUL, which Postgres text cannot hold", "22021")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _bad(
            f"{what} contains half a character (a lone surrogate), which UTF-8 cannot hold", "22021"
        ) from None


def _bad(message: str, code: str) -> TaskError:
    return TaskError(
        message, kind="client_error", code=code, hint="remove or replace it", details={"sqlstate": code}
    )


def _json(value: Any) -> bytes:
    problem = find_unfit(value)
    if problem:
        raise _bad(f"a value cannot be sent as JSON: {problem}", "22P02")
    return codec.encode(value)


def _array_type(items: Sequence[Any]) -> int | None:
    """Return the array type of a list of scalars of one type, else None.

    An empty list is ``text[]``.
    """
    kinds = {type(item) for item in items if item is not None}
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) > 1 or not kinds <= _ARRAYS.keys():
        return None
    if kinds == {int} and any(not -(2**63) <= item < 2**63 for item in items if item is not None):
        return 1231
    return _ARRAYS[kinds.pop()] if kinds else _ARRAYS[str]


def _array(items: Sequence[Any], depth: int = 0) -> bytes:
    """Encode an array as Postgres reads it: ``{1,NULL,"a b",{…}}``."""
    if depth > 6:
        raise _bad("an array has at most 6 dimensions", "54000")
    return b"{" + b",".join(_element(item, depth) for item in items) + b"}"


def _element(item: Any, depth: int) -> bytes:
    if item is None:
        return b"NULL"
    if isinstance(item, (list, tuple)):
        return _array(item, depth + 1)
    text = dump(item)[1]
    assert text is not None  # only None has no text
    return text if isinstance(item, (bool, int, float)) else b'"' + _escaped(text) + b'"'


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


class _Number(Loader):
    """numeric → exact JSON (rows.decimal_to_json)."""

    def load(self, data: Buffer) -> int | float | str | None:
        return decimal_to_json(Decimal(bytes(data).decode()))


def _lenient(loader: type[LoaderProtocol]) -> type[Loader]:
    """Make a loader to ISO text; what Python cannot hold stays the server's own text."""

    class Lenient(Loader):
        def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
            super().__init__(oid, context)
            # Held, not inherited: the compiled loaders are called past an overridden ``load``.
            self._exact = loader(oid, context)

        def load(self, data: Buffer) -> str:
            try:
                return str(self._exact.load(data).isoformat())
            except (psycopg.Error, ValueError, OverflowError):
                return bytes(data).decode()

    return Lenient


_AS_TEXT = (
    *("uuid", "interval", "inet", "cidr"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *(
        "int4multirange",
        "int8multirange",
        "nummultirange",
        "datemultirange",
        "tsmultirange",
        "tstzmultirange",
    ),
)


def use_json_loaders(connection: psycopg.Connection[Any]) -> None:
    """Make this connection give JSON values (rows.py) instead of Python's own types."""
    adapters = connection.adapters
    for name in ("date", "time", "timetz", "timestamp", "timestamptz"):
        loader = psycopg.adapters.get_loader(adapters.types[name].oid, psycopg.pq.Format.TEXT)
        if loader is not None:
            adapters.register_loader(name, _lenient(loader))
    for name in _AS_TEXT:
        adapters.register_loader(name, TextLoader)
    adapters.register_loader("numeric", _Number)
    set_json_loads(codec.decode, connection)
