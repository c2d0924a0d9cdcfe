"""Values as code reads them: further names of results, and the names of ``context``.

Templates read ``body`` of an HTTP answer and ``command_0`` of a SQL result, which no result stores. Code finds them, too: a lookup that would
find nothing answers them. Length, iteration, equality and what is returned stay those of the stored mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_DEPTH = 3
"""Levels of values that are looked at for results: a value, an entry, an item of a list."""
_NOTHING = object()


class Result(dict[str, Any]):
    """A result whose further names are found by ``[…]``, ``get`` and ``in``."""

    __slots__ = ()

    def further(self, name: Any) -> Any:
        """Return the value of a name that the result does not store, or ``_NOTHING``."""
        return _NOTHING

    def __missing__(self, name: Any) -> Any:
        found = self.further(name)
        if found is _NOTHING:
            raise KeyError(name)
        return found

    def get(self, name: Any, default: Any = None) -> Any:
        found = dict.get(self, name, _NOTHING)
        if found is _NOTHING:
            found = self.further(name)
        return default if found is _NOTHING else found

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or self.further(name) is not _NOTHING


class HttpResult(Result):
    """An HTTP answer: ``body`` is its ``data``."""

    __slots__ = ()

    def further(self, name: Any) -> Any:
        return dict.get(self, "data") if name == "body" else _NOTHING


class SqlResult(Result):
    """What SQL returned: ``command_<n>`` is the result of one statement."""

    __slots__ = ()

    def further(self, name: Any) -> Any:
        number = name[8:] if isinstance(name, str) and name[:8] == "command_" else ""
        if not number.isdecimal():
            return _NOTHING
        parts = dict.get(self, "results") or [self]
        place = int(number)
        if place >= len(parts):
            return _NOTHING
        return self if place == len(parts) - 1 else parts[place]


def readable(value: Any, depth: int = 0) -> Any:
    """Return a value with its results as ``Result``.

    Every other value is the same object.
    """
    if type(value) is dict:
        known = _result(value)
        if known is not value or depth == _DEPTH:
            return known
        made = {key: readable(item, depth + 1) for key, item in value.items()}
        return made if any(made[key] is not value[key] for key in made) else value
    if type(value) is list and value and depth < _DEPTH and type(value[0]) is dict:
        first = readable(value[0], depth + 1)
        return value if first is value[0] else [readable(item, depth + 1) for item in value]
    return value


def _result(value: dict[str, Any]) -> dict[str, Any]:
    if "status_code" in value and "headers" in value and "data" in value:
        return HttpResult(value)
    if ("rows" in value and "columns" in value) or "affected_rows" in value:
        return SqlResult(value)
    return value


class Context(Mapping[str, Any]):
    """Names of the playbook, looked up when they are read.

    Those of the task's input come first.
    """

    def __init__(self, values: Mapping[str, Any], ask: Callable[[list[str]], Mapping[str, Any]]) -> None:
        self._known = dict(values)
        self._ask = ask

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            found = self._ask([name])
            if name not in found:
                raise KeyError(name)
            self._known[name] = readable(found[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __bool__(self) -> bool:
        """Return True: there are names that were not looked up yet."""
        return True
