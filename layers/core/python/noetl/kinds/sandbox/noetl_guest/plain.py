"""What user code returns, as plain JSON values; or why it cannot be one, and where."""

from __future__ import annotations

import math
import sys
from typing import Any

MAX_DEPTH = 200
MAX_INTEGER_BITS = 14_000
"""Just below the 4,300 digits that Python is willing to read back."""


class NotJsonError(Exception):
    """A value that JSON cannot hold. ``path`` leads to it, innermost part first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"result{''.join(reversed(self.path))} {self.reason}"


def plain(value: Any, depth: int = 0) -> Any:
    """Convert ``value`` to dict, list, str, int, float, bool and None.

    Tuples and sets become lists (sets sorted), dates ISO text, durations seconds, UUIDs, paths and enum
    members their text or value, Decimals numbers when that is exact and text otherwise, dataclasses
    mappings, numpy values what ``tolist`` returns. Keys that are numbers, booleans or None become the text that
    JSON has for them. Raises NotJsonError for anything else, for NaN, for other keys, and for two keys of one text.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is int:
        return _integer(value)
    if kind is float:
        return _number(value)
    if depth > MAX_DEPTH:
        raise NotJsonError(f"is nested more than {MAX_DEPTH} levels deep")
    if kind is dict:
        return _mapping(value, depth)
    if kind is list or kind is tuple:
        return _sequence(value, depth)
    return _other(value, depth)


def _integer(value: int) -> int:
    if value.bit_length() > MAX_INTEGER_BITS:
        raise NotJsonError(f"is an integer of {value.bit_length()} bits; give it as text")
    return value


def _number(value: float) -> float:
    if not math.isfinite(value):
        raise NotJsonError(f"is {value!r}, which JSON cannot hold; give None instead")
    return value


def _mapping(value: Any, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, item in value.items():
        name = str(key) if isinstance(key, str) else _key(key)
        if name in made:
            raise NotJsonError(f"has two keys that are {_short(name)} in JSON, where keys are text")
        try:
            made[name] = plain(item, depth + 1)
        except NotJsonError as error:
            error.path.append(f"[{_short(key)}]")
            raise
    return made


def _key(key: Any) -> str:
    """Return the text that JSON has for a key."""
    if key is None or type(key) is bool:
        return {None: "null", True: "true", False: "false"}[key]
    if type(key) is int:
        return str(_integer(key))
    if type(key) is float and math.isfinite(key):
        return repr(key)
    raise NotJsonError(f"has the key {_short(key)}; JSON keys are text, write str(key)")


def _sequence(value: Any, depth: int) -> list[Any]:
    made = []
    for index, item in enumerate(value):
        try:
            made.append(plain(item, depth + 1))
        except NotJsonError as error:
            error.path.append(f"[{index}]")
            raise
    return made


def _other(value: Any, depth: int) -> Any:
    """Convert values of less usual types without importing their modules.

    A module that is not loaded cannot have made the value.
    """
    if _is_a(value, "enum", "Enum"):
        return plain(value.value, depth + 1)
    if _is_a(value, "decimal", "Decimal"):
        return _decimal(value)
    if _is_a(value, "datetime", "date") or _is_a(value, "datetime", "time"):
        return value.isoformat()
    if _is_a(value, "datetime", "timedelta"):
        return value.total_seconds()
    if _is_a(value, "uuid", "UUID") or _is_a(value, "pathlib", "PurePath"):
        return str(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), depth + 1)
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, int):
        return _integer(int(value))
    if isinstance(value, float):
        return _number(float(value))
    return _container(value, depth)


def _container(value: Any, depth: int) -> Any:
    if hasattr(type(value), "__dataclass_fields__"):
        return _mapping({name: getattr(value, name) for name in type(value).__dataclass_fields__}, depth)
    if isinstance(value, (set, frozenset)):
        try:
            return _sequence(sorted(value), depth)
        except TypeError:
            raise NotJsonError("is a set whose items have no order; give a list") from None
    if isinstance(value, dict) or _is_a(value, "collections.abc", "Mapping"):
        return _mapping(value, depth)
    if isinstance(value, (list, tuple)):
        return _sequence(value, depth)
    raise NotJsonError(f"is of type {type(value).__name__}, which JSON cannot hold{_advice(value)}")


def _decimal(value: Any) -> int | float | str:
    if value.is_finite() and abs(value.adjusted()) < MAX_DEPTH:
        if value == value.to_integral_value():
            return int(value)
        number = float(value)
        if type(value)(repr(number)) == value:
            return number
    return str(value)


def _is_a(value: Any, module: str, name: str) -> bool:
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(value, found)


def _advice(value: Any) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "; decode it to text, or encode it with base64"
    if type(value).__name__ == "DataFrame":
        return "; give its .to_dict('records')"
    if type(value).__name__ == "coroutine":
        return "; await it"
    if callable(value):
        return "; call it"
    if hasattr(value, "__iter__"):
        return "; give list(…) of it"
    return "; give a mapping of its fields"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
