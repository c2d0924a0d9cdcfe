"""Plain JSON as templates see it.

A view wraps stored JSON without copying it. Children are wrapped when they are touched. Large results are
loaded when something behind their reference is touched. ``unwrap`` returns the stored JSON unchanged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from noetl.domain.codec import encode
from noetl.domain.errors import TemplateError
from noetl.domain.results.manifests import entries, is_manifest
from noetl.domain.results.paged_list import PartedList
from noetl.domain.results.references import canonical, is_ref
from noetl.templating.contract import Hydrate


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final[Any] = _Missing()
"""Answer of a lookup that found nothing (None is a value)."""

SCALARS = frozenset((str, int, float, bool, type(None)))


class View:
    """A value for templates. Subclasses answer ``attribute``, ``value``, ``plain``, ``keys``.

    Other packages may add their own (a response whose body's keys come first, say).
    """

    __slots__ = ()

    def attribute(self, name: str) -> Any:
        """Return the value of ``x.name``, wrapped; ``MISSING`` when there is none."""
        return MISSING

    def value(self) -> Any:
        """Return what iteration, length and indexing work on.

        It is a scalar, ``MapView`` or ``ListView``.
        """
        return self

    def content(self) -> Any:
        """Return the scalar or the view that comparing, printing and functions work on."""
        return self.value()

    @abstractmethod
    def plain(self) -> Any:
        """Return the JSON that is kept when an expression yields exactly this."""

    def keys(self) -> Iterable[Any]:
        """Names ``attribute`` knows, for "did you mean"."""
        return ()

    def __eq__(self, other: object) -> bool:
        own_content, other_content = content(self), content(other)
        left, right = raw(own_content), raw(other_content)
        if left == right:
            return True
        if isinstance(own_content, RowsView) and not isinstance(right, Mapping):
            return bool(left["rows"] == right)
        return bool(
            isinstance(other_content, RowsView) and not isinstance(left, Mapping) and right["rows"] == left
        )

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(raw(self))

    def __len__(self) -> int:
        return len(self.value())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value())

    def __contains__(self, item: object) -> bool:
        return raw(item) in raw(self)

    def __getitem__(self, key: Any) -> Any:
        return self.value()[key]

    def __lt__(self, other: Any) -> Any:
        return raw(self) < raw(other)

    def __le__(self, other: Any) -> Any:
        return raw(self) <= raw(other)

    def __gt__(self, other: Any) -> Any:
        return raw(self) > raw(other)

    def __ge__(self, other: Any) -> Any:
        return raw(self) >= raw(other)

    def __str__(self) -> str:
        return encode(raw(self)).decode()


class Stored(View):
    """A view over a stored value, ``raw``; ``hydrate`` loads large results inside it."""

    __slots__ = ("hydrate", "raw")

    def __init__(self, value: Any, hydrate: Hydrate | None = None) -> None:
        self.raw = value
        self.hydrate = hydrate

    def plain(self) -> Any:
        return self.raw


class MapView(Stored):
    """A mapping."""

    __slots__ = ()

    def attribute(self, name: str) -> Any:
        found = self.raw.get(name, MISSING)
        return found if found is MISSING else wrap(found, self.hydrate)

    def plain(self) -> Any:
        if isinstance(self.raw, dict):
            return self.raw
        return {key: entry.plain() if isinstance(entry, View) else entry for key, entry in self.raw.items()}

    def keys(self) -> Iterable[Any]:
        return list(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.raw)

    def __getitem__(self, key: Any) -> Any:
        return wrap(self.raw[key], self.hydrate)


class HttpView(MapView):
    """The result of an HTTP call: the envelope's keys first, then its body's."""

    __slots__ = ()

    def attribute(self, name: str) -> Any:
        found = MapView.attribute(self, name)
        if found is not MISSING:
            return found
        body = wrap(self.raw["data"], self.hydrate)
        found = body.attribute(name) if isinstance(body, View) else MISSING
        return body if found is MISSING and name == "body" else found


class ChangesView(MapView):
    """The result of SQL whose last statement returned no rows.

    It answers ``.affected_rows``, and ``.command_<n>`` of each statement.
    """

    __slots__ = ()

    def attribute(self, name: str) -> Any:
        found = self.raw.get(name, MISSING)
        if found is MISSING:
            found = _command(self.raw, name)
        if found is MISSING and name == "row_count":
            found = self.raw["affected_rows"]
        if found is MISSING and name == "rows":
            found = []
        return found if found is MISSING else wrap(found, self.hydrate)


class ListView(Stored):
    """A list."""

    __slots__ = ()

    def plain(self) -> Any:
        return self.raw if isinstance(self.raw, list) else list(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[Any]:
        hydrate = self.hydrate
        return (item if type(item) in SCALARS else wrap(item, hydrate) for item in self.raw)

    def __getitem__(self, key: Any) -> Any:
        return wrap(self.raw[key], self.hydrate)


def _command(result: Mapping[str, Any], name: str) -> Any:
    """Return the result of statement n for ``command_<n>``; ``MISSING`` for any other name."""
    number = name.removeprefix("command_")
    if number == name or not number.isdecimal():
        return MISSING
    parts = result.get("results") or [result]
    place = int(number)
    return MISSING if place >= len(parts) else result if place == len(parts) - 1 else parts[place]


class RowsView(Stored):
    """A SQL result: ``.rows``, ``.columns``, ``.row_count`` by name, otherwise its rows.

    By number, in loops and for length it is its rows.

    ``.command_<n>`` is the result of one of several statements.
    """

    __slots__ = ()

    def attribute(self, name: str) -> Any:
        found = self.raw.get(name, MISSING)
        if found is MISSING:
            found = _command(self.raw, name)
        return found if found is MISSING else wrap(found, self.hydrate)

    def value(self) -> Any:
        return ListView(self.raw["rows"], self.hydrate)

    def content(self) -> Any:
        return self

    def keys(self) -> Iterable[Any]:
        return list(self.raw)


class LoopView(Stored):
    """A loop's result: a list in index order.

    It also answers ``.count``, ``.failed``, ``.results``, ``.stats``, ``.failures`` ([{index, error}]) and ``.successes`` (the results of
    the other items).
    """

    __slots__ = ()
    _NAMES = ("count", "failed", "results", "stats", "failures", "successes")

    def attribute(self, name: str) -> Any:
        if name == "stats":
            total, failed = self.raw.get("count", 0), self.raw.get("failed", 0)
            done = total - failed
            return MapView({"total": total, "completed": done, "success": done, "failed": failed})
        if name in ("count", "failed", "results"):
            return wrap(self.raw.get(name, 0), self.hydrate)
        if name in ("failures", "successes"):
            return wrap(self._ended(failed=name == "failures"), self.hydrate)
        return MISSING

    def _ended(self, *, failed: bool) -> list[Any]:
        """Return the errors of the failed items with their places, or the results of others."""
        if not self.raw.get("failed"):
            return [] if failed else self.plain()
        results = [item.plain() if isinstance(item, View) else item for item in self.value()]
        if failed:
            return [{"index": at, **one} for at, one in enumerate(results) if _is_failure(one)]
        return [one for one in results if not _is_failure(one)]

    def value(self) -> Any:
        return resolve(wrap(self.raw["results"], self.hydrate))

    def plain(self) -> Any:
        return self.raw["results"]

    def keys(self) -> Iterable[Any]:
        return self._NAMES


def _is_failure(result: Any) -> bool:
    """Report whether a result is what a failed item of a best-effort loop has."""
    error = result["error"] if type(result) is dict and result.keys() == {"error"} else None
    return type(error) is dict and "code" in error


_MORE = frozenset(("status_code", "columns", "affected_rows"))
"""Keys of results that have more names than keys."""


class RefView(Stored):
    """A large result: its reference answers at once what it knows, the rest is loaded once.

    Order of ``.name``: promoted scalars, the reference's ``ref``, ``extracted`` and ``preview``, the value's own keys, the
    reference's other fields. The value's keys come before ``size``, ``kind`` … so that a playbook does not change its meaning
    when a result grows over the inline limit.
    """

    __slots__ = ("_loaded",)
    _DIRECT = frozenset(("ref", "extracted", "preview"))
    _FIELDS = frozenset(("kind", "store", "size", "sha256", "scope", "expires_at", "meta"))

    def __init__(self, value: Mapping[str, Any], hydrate: Hydrate | None = None) -> None:
        super().__init__(canonical(value), hydrate)
        self._loaded: Any = MISSING

    def has(self, name: str) -> bool:
        """Report whether the value is a mapping with this key.

        The value is loaded only when the reference does not know.
        """
        if name in (self.raw.get("extracted") or ()):
            return True
        known = self.raw.get("keys")
        if known is not None and (name in known or "status_code" not in known):
            return name in known
        return self.hydrate is not None and own_key(self._load(), name)

    def attribute(self, name: str) -> Any:
        extracted = self.raw.get("extracted") or {}
        if name in extracted:
            return wrap(extracted[name], self.hydrate)
        if name == "_ref":
            return MapView(self.raw)
        if name in self._DIRECT or (name in self._FIELDS and not self.has(name)):
            return wrap(self.raw.get(name), self.hydrate)
        known = self.raw.get("keys")
        if known is not None and name not in known and not _MORE.isdisjoint(known):
            known = None
        if known is not None and name not in known:
            return MISSING
        loaded = self._load()
        return loaded.attribute(name) if isinstance(loaded, View) else MISSING

    def content(self) -> Any:
        return content(self._load())

    def value(self) -> Any:
        return resolve(self._load())

    def keys(self) -> Iterable[Any]:
        yield from self.raw.get("extracted") or ()
        yield from self.raw.get("keys") or ()
        if isinstance(self._loaded, View):
            yield from self._loaded.keys()
        yield from self._DIRECT

    def _load(self) -> Any:
        if self._loaded is MISSING:
            if self.hydrate is None:
                raise TemplateError(
                    "this needs the content of a large result, which cannot be loaded here",
                    hint="pass the reference on, or read it in a task",
                    details={"ref": self.raw.get("ref")},
                )
            load = getattr(self.hydrate, "lazily", self.hydrate)
            self._loaded = wrap(load(self.raw), self.hydrate)
        return self._loaded


class ManifestView(RefView):
    """A value that is kept in parts: how many entries it has is known, anything else loads it."""

    __slots__ = ()

    def __init__(self, value: Mapping[str, Any], hydrate: Hydrate | None = None) -> None:
        Stored.__init__(self, value, hydrate)
        self._loaded = MISSING

    def attribute(self, name: str) -> Any:
        if name == "count" and self.raw.get("strategy") != "merge":
            return entries(self.raw)
        loaded = self._load()
        return loaded.attribute(name) if isinstance(loaded, View) else MISSING

    def has(self, name: str) -> bool:
        return self.hydrate is not None and own_key(self._load(), name)

    def keys(self) -> Iterable[Any]:
        return ("count",)


class DerivedView(View):
    """A view over something a template made (not stored data); ``made`` returns its parts."""

    __slots__ = ()

    @abstractmethod
    def made(self) -> dict[str, Any] | list[Any]:
        """Return the mapping or list behind the view; entries may be views."""


class _Blank(View):
    """The value of ``a if condition`` without an else.

    It is nothing in a text, null as a value, and counts as undefined.
    """

    __slots__ = ()

    def value(self) -> Any:
        return None

    def content(self) -> Any:
        return None

    def plain(self) -> Any:
        return None


BLANK: Final = _Blank()


def own_key(value: Any, name: str) -> bool:
    """Report whether a wrapped value is a mapping that has ``name``.

    A reference is not loaded when it knows the answer.
    """
    if isinstance(value, RefView):
        return value.has(name)
    if isinstance(value, HttpView):
        return value.attribute(name) is not MISSING
    return isinstance(value, (MapView, RowsView)) and name in value.raw


def wrap(value: Any, hydrate: Hydrate | None = None) -> Any:
    """Wrap plain JSON for templates, without copying. Scalars and views stay as they are."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is dict:
        face = _FACES.get(value.get("kind")) if "kind" in value and isinstance(value["kind"], str) else None
        if face is not None and face[0](value):
            return face[1](value, hydrate)
        if "rows" in value and "columns" in value and isinstance(value["rows"], list):
            return RowsView(value, hydrate)
        if "affected_rows" in value:
            return ChangesView(value, hydrate)
        if "status_code" in value and "headers" in value and "data" in value:
            return HttpView(value, hydrate)
        if "locator" in value and is_ref(value):
            return RefView(value, hydrate)
        return MapView(value, hydrate)
    if kind is list or kind is tuple or isinstance(value, PartedList):
        return ListView(value, hydrate)
    return MapView(value, hydrate) if isinstance(value, Mapping) else value


_FACES: dict[str, tuple[Callable[[Any], bool], type[Any]]] = {
    "result_ref": (is_ref, RefView),
    "temp_ref": (is_ref, RefView),
    "manifest": (is_manifest, ManifestView),
    "loop_result": (lambda value: "results" in value, LoopView),
}


def is_simple(value: dict[str, Any]) -> bool:
    """Report whether ``wrap`` would make a plain ``MapView`` of this mapping."""
    return (
        "kind" not in value
        and "status_code" not in value
        and "affected_rows" not in value
        and "locator" not in value
        and not ("rows" in value and "columns" in value)
    )


def content(value: Any) -> Any:
    """Return the content of a step or reference; large results are loaded."""
    return value.content() if isinstance(value, View) else value


def resolve(value: Any) -> Any:
    """Resolve a step, reference, loop or row set to the scalar, mapping or list to work on."""
    return value.value() if isinstance(value, View) else value


def raw(value: Any) -> Any:
    """Plain data of a value, for comparing and for functions that know nothing of views."""
    value = content(value)
    return value.plain() if isinstance(value, View) else value
