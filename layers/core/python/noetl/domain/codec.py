"""JSON as this system keeps it: exact integers of any size, any text, no NaN.

One pair of functions for everything that is stored or sent, so that a value survives every hop
unchanged. Lone surrogates and NUL travel as escapes (the columns are ``json``, not ``jsonb``).
"""

from __future__ import annotations

import json
import math
import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_making = threading.Lock()


@overload
def decoder(shape: type[T]) -> msgspec.json.Decoder[T]: ...


@overload
def decoder(shape: Any) -> msgspec.json.Decoder[Any]: ...


def decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of a type, made once and by one thread at a time.

    msgspec gathers what it knows of a struct at its first use and runs Python code meanwhile: a second thread that decodes the
    same struct then reads half of it and crashes the process. So all decoders are made here (a test of the sources sees to it).
    """
    made = _decoders.get(shape)
    if made is None:
        with _making:
            made = _decoders[shape] = msgspec.json.Decoder(shape)
    return made


def convert(value: Any, shape: type[T]) -> T:
    """Plain JSON values → ``shape``. Raises msgspec.ValidationError."""
    decoder(shape)
    return msgspec.convert(value, shape)


def encode(value: Any) -> bytes:
    """Value → compact JSON bytes. NaN and infinities become null; check results with ``find_unstorable`` first."""
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        return json.dumps(
            msgspec.to_builtins(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False
        ).encode()


def decode(data: bytes | str) -> Any:
    """JSON → value. Raises ValueError (msgspec.DecodeError is one) for anything that is not JSON."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(data, parse_constant=_refuse, parse_float=_finite)


def decode_as(reader: msgspec.json.Decoder[T], data: bytes | str) -> T:
    """JSON → the type of a ``decoder``, with the same latitude as ``decode``. Raises msgspec.DecodeError (a ValueError) otherwise."""
    try:
        return reader.decode(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(data, parse_constant=_refuse, parse_float=_finite), reader.type)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """``1e999`` would be infinite, and null when it is kept."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is larger than any number")
    return value


MAX_DEPTH = 200


def find_unstorable(value: Any, path: str = "$", depth: int = 0) -> str | None:
    """Why ``value`` cannot be kept as JSON (with the place, as ``$.a[3]``), or None when it can."""
    if depth > MAX_DEPTH:
        return f"{path[:80]}… is nested more than {MAX_DEPTH} levels deep"
    if value is None or isinstance(value, (str, bool, int)):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{path} is {value!r}, which JSON cannot hold"
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                return f"{path} has the key {key!r}; JSON keys are text"
            found = find_unstorable(item, f"{path}.{key}", depth + 1)
            if found:
                return found
        return None
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found = find_unstorable(item, f"{path}[{index}]", depth + 1)
            if found:
                return found
        return None
    return f"{path} is a {type(value).__name__}, which JSON cannot hold"
