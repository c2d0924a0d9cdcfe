"""Filters over lists and mappings. All return finished lists: nothing is left running."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from noetl.domain.codec import encode
from noetl.domain.errors import TemplateError
from noetl.templating.access import attribute, check_int, describe, item, iterate, pairs
from noetl.templating.limits import Meter
from noetl.templating.operators import add, comparable, texts_of
from noetl.templating.plain import to_text, unwrap
from noetl.templating.undefined import Undefined
from noetl.templating.views import MISSING, DerivedView, MapView, View, raw, resolve

Apply = Callable[[Meter, str, Any, tuple[Any, ...], dict[str, Any]], Any]
"""Calls a filter or test by its name (given by the table that holds them all)."""


class Group(DerivedView):
    """One entry of ``groupby``: ``.grouper`` and ``.list``, or two loop variables."""

    __slots__ = ("_key", "_members")

    def __init__(self, key: Any, members: list[Any]) -> None:
        self._key = key
        self._members = members

    def attribute(self, name: str) -> Any:
        return {"grouper": self._key, "list": self._members}.get(name, MISSING)

    def value(self) -> Any:
        return [self._key, self._members]

    def made(self) -> list[Any]:
        return [self._key, self._members]

    def plain(self) -> Any:
        return unwrap(self)

    def keys(self) -> Any:
        return ("grouper", "list")


def getter(meter: Meter, path: Any) -> Callable[[Any], Any]:
    """Make ``a.b.0`` a function of an entry; ``None``: the entry itself."""
    if path is None:
        return lambda entry: entry
    parts = [int(part) if part.isdigit() else part for part in str(path).split(".")]

    def get(entry: Any) -> Any:
        for part in parts:
            entry = item(meter, entry, part)
        meter.tick()
        return entry

    return get


def _sort_key(meter: Meter, path: Any, case_sensitive: Any) -> Callable[[Any], Any]:
    paths = str(path).split(",") if path is not None else [None]
    getters = [getter(meter, one) for one in paths]

    def key(entry: Any) -> Any:
        meter.tick()
        found = [comparable(meter, resolve(get(entry))) for get in getters]
        if not case_sensitive:
            found = [value.lower() if isinstance(value, str) else value for value in found]
        return found if len(found) > 1 else found[0]

    return key


def length(meter: Meter, value: Any) -> int:
    """Number of entries or characters."""
    subject = resolve(value)
    if isinstance(subject, (str, list, tuple, range, Mapping, View)):
        return len(subject)
    raise TemplateError(f"{describe(value)} has no length")


def _first(meter: Meter, value: Any) -> Any:
    return _end(meter, value, 0)


def _last(meter: Meter, value: Any) -> Any:
    return _end(meter, value, -1)


def _end(meter: Meter, value: Any, index: int) -> Any:
    if isinstance(resolve(value), (MapView, Mapping)):
        value = iterate(meter, value)
    return item(meter, value, index)


def _join(meter: Meter, value: Any, separator: Any = "", attribute: Any = None) -> str:
    get = getter(meter, attribute)
    texts = texts_of(meter, (get(entry) for entry in iterate(meter, value)))
    glue = to_text(separator)
    meter.allocate(len(glue) * len(texts))
    return glue.join(texts)


def _sort(
    meter: Meter, value: Any, reverse: Any = False, case_sensitive: Any = False, attribute: Any = None
) -> list[Any]:
    entries = iterate(meter, value)
    meter.tick(1 + len(entries))
    try:
        return sorted(entries, key=_sort_key(meter, attribute, case_sensitive), reverse=bool(reverse))
    except TypeError as error:
        raise TemplateError(
            f"these entries cannot be put in order: {error}", hint="name an attribute to sort by"
        ) from None


def _sum(meter: Meter, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    get = getter(meter, attribute)
    total = start
    for entry in iterate(meter, value):
        total = add(meter, total, get(entry))
    return total


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def apply(meter: Meter, value: Any, case_sensitive: Any = False, attribute: Any = None) -> Any:
        entries = iterate(meter, value)
        if not entries:
            return Undefined(choose.__name__, "the list is empty", lambda: ())
        return choose(entries, key=_sort_key(meter, attribute, case_sensitive))

    return apply


def _unique(meter: Meter, value: Any, case_sensitive: Any = False, attribute: Any = None) -> list[Any]:
    key = _sort_key(meter, attribute, case_sensitive)
    seen: dict[Any, Any] = {}
    for entry in iterate(meter, value):
        meter.tick()
        mark = raw(key(entry))
        seen.setdefault(encode(unwrap(mark)) if isinstance(mark, (list, dict)) else mark, entry)
    return list(seen.values())


def _groupby(
    meter: Meter, value: Any, attribute: Any, default: Any = None, case_sensitive: Any = False
) -> list[Group]:
    get = getter(meter, attribute)

    def shown(entry: Any) -> Any:
        found = get(entry)
        missing = isinstance(found, Undefined) and default is not None
        return comparable(meter, resolve(default if missing else found))

    def key(entry: Any) -> Any:
        found = shown(entry)
        return found.lower() if isinstance(found, str) and not case_sensitive else found

    entries = sorted(iterate(meter, value), key=key)
    groups = [list(members) for _, members in groupby(entries, key)]
    return [Group(shown(members[0]), members) for members in groups]


def _batch(meter: Meter, value: Any, size: Any, fill: Any = None) -> list[list[Any]]:
    entries, size = iterate(meter, value), check_int(size)
    if size < 1:
        raise TemplateError("batch needs a size of at least 1")
    groups = [entries[at : at + size] for at in range(0, len(entries), size)]
    if groups and fill is not None:
        meter.allocate(8 * size)
        groups[-1] += [fill] * (size - len(groups[-1]))
    return groups


def _slice(meter: Meter, value: Any, slices: Any, fill: Any = None) -> list[list[Any]]:
    entries, count = iterate(meter, value), check_int(slices)
    if count < 1:
        raise TemplateError("slice needs at least 1 slice")
    meter.allocate(64 * count)
    per_slice, rest = divmod(len(entries), count)
    groups = []
    for number in range(count):
        start = number * per_slice + min(number, rest)
        group = entries[start : start + per_slice + (number < rest)]
        groups.append([*group, fill] if fill is not None and rest and number >= rest else group)
    return groups


def _dictsort(
    meter: Meter, value: Any, case_sensitive: Any = False, by: Any = "key", reverse: Any = False
) -> list[Any]:
    if by not in ("key", "value"):
        raise TemplateError(f"dictsort sorts by key or value, not {by!r}")
    place = 0 if by == "key" else 1

    def key(pair: Any) -> Any:
        found = comparable(meter, resolve(pair[place]))
        return found.lower() if isinstance(found, str) and not case_sensitive else found

    return sorted(_items(meter, value), key=key, reverse=bool(reverse))


def _items(meter: Meter, value: Any) -> list[tuple[Any, Any]]:
    subject = resolve(value)
    if not isinstance(subject, (MapView, Mapping)):
        raise TemplateError(f"a mapping is needed here, not {describe(value)}")
    return pairs(meter, subject)


def _combine(meter: Meter, value: Any, *others: Any) -> dict[Any, Any]:
    """Return a mapping with the entries of all; those of a later one win."""
    return {key: entry for one in (value, *others) for key, entry in _items(meter, one)}


def _reverse(meter: Meter, value: Any) -> Any:
    subject = resolve(value)
    if isinstance(subject, str):
        meter.allocate(len(subject))
        return subject[::-1]
    return iterate(meter, value)[::-1]


SEQUENCE_FILTERS: dict[str, Callable[..., Any]] = {
    "batch": _batch,
    "combine": _combine,
    "count": length,
    "dictsort": _dictsort,
    "first": _first,
    "groupby": _groupby,
    "items": _items,
    "join": _join,
    "last": _last,
    "length": length,
    "list": lambda meter, value: iterate(meter, value),
    "max": _extreme(max),
    "min": _extreme(min),
    "reverse": _reverse,
    "slice": _slice,
    "sort": _sort,
    "sum": _sum,
    "unique": _unique,
}


def mapped(meter: Meter, apply: Apply, value: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """Apply ``map('upper')`` or ``map(attribute='a.b', default=…)``."""
    entries = iterate(meter, value)
    if args:
        return [apply(meter, to_text(args[0]), entry, args[1:], kwargs) for entry in entries]
    if "attribute" not in kwargs:
        raise TemplateError("map needs the name of a filter, or attribute='…'")
    get = getter(meter, kwargs["attribute"])
    found = [get(entry) for entry in entries]
    if "default" in kwargs:
        return [kwargs["default"] if isinstance(value, Undefined) else value for value in found]
    return found


def selected(
    meter: Meter, test: Apply, wanted: bool, by_attribute: bool, value: Any, *args: Any, **kwargs: Any
) -> list[Any]:
    """Apply ``select``, ``reject``, ``selectattr`` or ``rejectattr``."""
    get = getter(meter, None)
    if by_attribute:
        if not args:
            raise TemplateError("selectattr and rejectattr need the name of an attribute")
        get, args = getter(meter, args[0]), args[1:]

    def holds(entry: Any) -> bool:
        found = get(entry)
        return bool(test(meter, to_text(args[0]), found, args[1:], kwargs)) if args else bool(found)

    return [entry for entry in iterate(meter, value) if holds(entry) is wanted]


__all__ = ["SEQUENCE_FILTERS", "Group", "attribute", "getter", "length", "mapped", "selected"]
