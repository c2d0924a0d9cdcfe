"""The JSON encoding of this system: exact integers of any size, any text, no NaN.

One pair of functions for everything that is stored or sent, so that a value survives every hop
unchanged. Lone surrogates and NUL travel as escapes (the columns are ``json``, not ``jsonb``).
"""

from __future__ import annotations

import json
import math
import threading
from typing import Any, TypeVar, overload

import msgspec

from noetl.domain.sizes.table import DOCUMENT_DEPTH, INTEGER_DIGITS, RESULT_VALUES, Size
from noetl.domain.text.timestamps import Timestamp, read_timestamp, rfc3339

T = TypeVar("T")


def _plain_text(value: Any) -> str:
    """Encode what msgspec does not know: a timestamp."""
    if isinstance(value, Timestamp):
        return rfc3339(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _own_type(shape: type, value: Any) -> Any:
    """Decode what msgspec does not know: a timestamp."""
    if shape is Timestamp:
        return read_timestamp(value)
    raise TypeError(f"{shape.__name__} is no type of JSON")


_encoder = msgspec.json.Encoder(enc_hook=_plain_text)
_sorting = msgspec.json.Encoder(order="sorted", enc_hook=_plain_text)
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
            made = _decoders[shape] = msgspec.json.Decoder(shape, dec_hook=_own_type)
    return made


def convert(value: Any, shape: type[T]) -> T:
    """Plain JSON values (numbers that are keys may be text) → ``shape``.

    Raises msgspec.ValidationError.
    """
    decoder(shape)
    try:
        return msgspec.convert(value, shape, str_keys=True, dec_hook=_own_type)
    except (
        UnicodeEncodeError
    ) as error:  # msgspec reads a text where the shape wants none, and stumbles over half of a surrogate pair
        raise msgspec.ValidationError(
            "a text with a lone surrogate is at a place that takes no text"
        ) from error


def encode(value: Any) -> bytes:
    """Value → compact JSON bytes.

    NaN and infinities become null; check results with ``find_unstorable`` first.

    Raises ValueError for an integer of more than 4,300 digits.
    """
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        return _dumps(value)


def encode_sorted(value: Any) -> bytes:
    """Encode with keys in order: the same bytes for equal values."""
    try:
        return _sorting.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        return _dumps(value, in_order=True)


def _dumps(value: Any, in_order: bool = False) -> bytes:
    """Encode by the standard library, which escapes half of a surrogate pair.

    msgspec refuses such a half.
    """
    plain = _finite_only(msgspec.to_builtins(value, enc_hook=_document))
    return json.dumps(plain, separators=(",", ":"), allow_nan=False, sort_keys=in_order).encode()


def _finite_only(value: Any) -> Any:
    """Replace NaN and infinities by None, as msgspec does when it encodes."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite_only(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite_only(item) for item in value]
    return value


def _document(value: Any) -> Any:
    """Decode a document that is kept as bytes (for what ``to_builtins`` does not know)."""
    if isinstance(value, msgspec.Raw):
        return decode(bytes(value))
    return _plain_text(value)


def plain(value: Any) -> Any:
    """Return a value as JSON values."""
    return msgspec.to_builtins(value, enc_hook=_document)


def settled(value: T) -> T:
    """Return ``value`` as every later reader gets it.

    Halves of a surrogate pair that meet are one character in JSON.

    Texts meet that way when they are joined (by ``~``, say). ``value`` itself comes back when it is plain, which costs one encoding.
    """
    try:
        _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        return decode_as(decoder(type(value)), _dumps(value))
    return value


class TooManyValuesError(ValueError):
    """A foreign document has more values than a process should hold in memory."""


PIECE = 256 * 1024
"""Bytes of a document that are counted in one go, so that other threads run in between."""


def decode_foreign(data: bytes, most: int = RESULT_VALUES.value) -> Any:
    """Decode what a task or a remote service has made.

    A value takes up to thirty times its bytes in memory (an empty list 64), so that a limit of bytes is none of memory. Raises
    TooManyValuesError before anything is made of ``data``, and what ``decode`` raises.
    """
    if excess_entries(data, most, stop=True):
        raise TooManyValuesError(f"it has more than {most:,} entries of lists and mappings")
    return decode(data)


def excess_entries(data: bytes, most: int, *, stop: bool = False) -> int:
    """Count the entries of a JSON text when there are more than ``most``; else return 0.

    Entries are the lists and mappings, and the commas between their entries.

    Nothing is made of ``data``, and most texts are counted at the speed of a search. ``stop``: count no further than needed.
    """
    if _entries(data) <= most:
        return 0
    found = _entries_outside_texts(data, most if stop else len(data))
    return found if found > most else 0


def _entries(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _entries_outside_texts(data: bytes, most: int) -> int:
    """Count until there are more than ``most``."""
    if b"\\" in data:
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    found, inside = 0, False
    for at in range(0, len(data), PIECE):
        parts = data[at : at + PIECE].split(b'"')
        found += _entries(b"".join(parts[inside::2]))
        inside ^= len(parts) % 2 == 0
        if found > most:
            break
    return found


def decode(data: bytes | str) -> Any:
    """JSON → value.

    Raises ValueError (msgspec.DecodeError is one) for anything that is not JSON, or is nested too deeply.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return _loads(data)
    except RecursionError:
        raise _too_deep() from None


def decode_as(reader: msgspec.json.Decoder[T], data: bytes | str) -> T:
    """JSON → the type of a ``decoder``; reads everything that ``encode`` writes.

    Raises ValueError (msgspec.DecodeError is one) for anything else.
    """
    try:
        return reader.decode(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # msgspec cannot read half of a surrogate pair. ``str_keys``: in JSON, numbers that are keys are text.
        return msgspec.convert(_with_documents(_loads(data), reader.type), reader.type, str_keys=True)
    except RecursionError:
        raise _too_deep() from None


def _loads(data: bytes | str) -> Any:
    # `json.loads` guesses the encoding of bytes; JSON between systems is UTF-8 without a byte order mark (RFC 8259).
    text = data.decode("utf-8", "surrogatepass") if isinstance(data, bytes) else data
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise _too_deep() from None


def _with_documents(value: Any, shape: Any) -> Any:
    """Encode the fields or items that ``shape`` keeps as documents (``msgspec.Raw``).

    ``convert`` cannot make them.
    """
    if shape == list[msgspec.Raw] and isinstance(value, list):
        return [msgspec.Raw(encode(item)) for item in value]
    if not (isinstance(value, dict) and isinstance(shape, type) and issubclass(shape, msgspec.Struct)):
        return value
    raw = [field.encode_name for field in msgspec.structs.fields(shape) if field.type is msgspec.Raw]
    return value | {name: msgspec.Raw(encode(value[name])) for name in raw if name in value}


def _too_deep() -> ValueError:
    return ValueError("the document is nested too deeply")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """``1e999`` would be infinite, and null when it is kept."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is larger than any number")
    return value


MAX_DEPTH = DOCUMENT_DEPTH.value
MAX_DIGITS = INTEGER_DIGITS.value
"""Of an integer. Python itself neither writes nor reads more than 4,300 digits as text."""
MOST: int = 10**MAX_DIGITS
"""The first whole number that is too large."""
_LEAST: int = -MOST
_ALWAYS_FIT = frozenset((str, bool, type(None)))
"""Types of which every value can be kept."""
_HOLDS = (dict, list, tuple)

_Path = tuple[Any, object] | None
"""The position of a value: the place of what holds it, and its key or index there."""


class Unstorable(msgspec.Struct, frozen=True):
    """Why a value cannot be kept as JSON.

    ``keys`` lead to the place; ``size`` is the limit that is exceeded, if it is one.
    """

    keys: list[Any]
    problem: str
    size: Size | None = None

    def describe(self, path: str) -> str:
        """Say it with the place, as ``$.a[3] is nan, …`` when ``path`` is ``$``."""
        keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys)
        return f"{path}{keys} {self.problem}"


def find_unstorable(value: Any) -> Unstorable | None:
    """Find the first value that cannot be kept as JSON.

    It is too deep, has too many digits, or is nothing that JSON has.

    The one walk over what comes from outside. Results of tasks pass it as well, so scalars are looked at where they stand, and only what
    holds something is put aside.
    """
    if not isinstance(value, _HOLDS):
        return _scalar(value, None)
    left: list[tuple[Any, _Path, int]] = [(value, None, 1)]
    while left:
        holder, path, depth = left.pop()
        if depth > MAX_DEPTH and holder:
            first = next(iter(holder)) if isinstance(holder, dict) else 0
            problem = f"is nested more than {MAX_DEPTH} levels deep"
            return Unstorable(_keys((path, first)), problem, DOCUMENT_DEPTH)
        named = isinstance(holder, dict)
        for key, item in holder.items() if named else enumerate(holder):
            if named and not isinstance(key, str):
                return Unstorable(_keys(path), f"has the key {key!r}; JSON keys are text")
            if type(item) in _ALWAYS_FIT:
                continue
            if isinstance(item, _HOLDS):
                left.append((item, (path, key), depth + 1))
            elif (found := _scalar(item, (path, key))) is not None:
                return found
    return None


def _scalar(value: Any, path: _Path) -> Unstorable | None:
    if value is None or isinstance(value, (str, bool)):
        return None
    if isinstance(value, int):
        if _LEAST < value < MOST:
            return None
        return Unstorable(_keys(path), f"is a whole number of more than {MAX_DIGITS} digits", INTEGER_DIGITS)
    if isinstance(value, float):
        return (
            None if math.isfinite(value) else Unstorable(_keys(path), f"is {value!r}, which JSON cannot hold")
        )
    return Unstorable(_keys(path), f"is of type {type(value).__name__}, which JSON cannot hold")


def _keys(path: _Path) -> list[Any]:
    keys: list[Any] = []
    while path is not None:
        path, key = path
        keys.append(key)
    return keys[::-1]
