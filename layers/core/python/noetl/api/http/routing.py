"""The router of requests, for API Gateway's function and for the local server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from noetl.api.table import Route


@dataclass(slots=True)
class _Place:
    """One segment deep in the tree of paths.

    ``rest``: routes that take everything from here on, by the words that follow it.
    """

    words: dict[str, _Place] = field(default_factory=dict)
    name: _Place | None = None
    routes: dict[str, Route] = field(default_factory=dict)
    rest: dict[tuple[str, ...], dict[str, Route]] = field(default_factory=dict)


class Router:
    """The routes by path.

    ``{name}`` is one segment, ``{name+}`` all the rest, or all up to the words after it. A literal segment wins over a name, a name
    over the rest. A client percent-encodes the slash before a word to make the word part of the rest.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Place()
        for route in routes:
            self._add(route)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]] | None:
        """Find the route and the (percent-decoded) parts of the path.

        None: no route answers this method at this path.
        """
        parts = path.split("/")[1:]
        for routes in _matches(self._root, parts, 0):
            route = routes.get(method)
            if route is not None:
                return route, _params(route.path, parts)
        return None

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path answers to."""
        parts = path.split("/")[1:]
        return sorted({method for routes in _matches(self._root, parts, 0) for method in routes})

    def _add(self, route: Route) -> None:
        place = self._root
        parts = route.path.split("/")[1:]
        for number, part in enumerate(parts):
            if part.endswith("+}"):
                place.rest.setdefault(tuple(parts[number + 1 :]), {})[route.method] = route
                return
            if part.startswith("{"):
                place.name = place.name or _Place()
                place = place.name
            else:
                place = place.words.setdefault(part, _Place())
        place.routes[route.method] = route


def _matches(place: _Place, parts: list[str], depth: int) -> Iterable[Mapping[str, Route]]:
    """Yield the routes that a path may mean, the most literal first."""
    if depth == len(parts):
        yield place.routes
        return
    part = parts[depth]
    if part in place.words:
        yield from _matches(place.words[part], parts, depth + 1)
    if place.name is not None and part:
        yield from _matches(place.name, parts, depth + 1)
    if place.rest and part:
        for words in sorted(place.rest, key=len, reverse=True):
            if len(parts) - depth > len(words) and tuple(parts[len(parts) - len(words) :]) == words:
                yield place.rest[words]


def _params(pattern: str, parts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    wanted = pattern.split("/")[1:]
    for place, part in enumerate(wanted):
        if part.endswith("+}"):
            past = len(parts) - (len(wanted) - place - 1)
            found[part[1:-2]] = unquote("/".join(parts[place:past]))
        elif part.startswith("{"):
            found[part[1:-1]] = unquote(parts[place])
    return found
