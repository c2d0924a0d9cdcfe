"""``a.b`` and ``a[b]``: keys first, then a short list of harmless methods.

Python attributes are never reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from string import Formatter
from typing import Any

from noetl.domain.errors import TemplateError
from noetl.templating.limits import Meter, over_limit
from noetl.templating.plain import to_text, weighed
from noetl.templating.undefined import Undefined
from noetl.templating.views import MISSING, MapView, View, raw, resolve

Method = Callable[..., Any]


def attribute(meter: Meter, obj: Any, name: str) -> Any:
    """Return ``obj.name``: the mapping's key, else a method of the value, else ``Undefined``."""
    if isinstance(obj, Undefined):
        return obj
    if isinstance(obj, View):
        found = obj.attribute(name)
    elif isinstance(obj, Mapping):
        found = obj.get(name, MISSING)
    else:
        found = MISSING
    if found is not MISSING:
        return found
    if name in METHOD_NAMES:
        subject = resolve(obj)
        methods = next((methods for kind, methods in _METHODS if isinstance(subject, kind)), {})
        if name in methods:
            return partial(methods[name], meter, subject)
    return missing_key(obj, name)


def missing_key(obj: Any, name: str) -> Undefined:
    """Return the undefined value of a missing key, without loading anything."""
    if isinstance(obj, Mapping):
        return Undefined(name, "the mapping has no such key", lambda: list(obj))
    if isinstance(obj, View):
        return Undefined(name, "there is no such key", obj.keys)
    return Undefined(name, f"{describe(obj)} has nothing of that name", _no_names)


def _no_names() -> Iterable[Any]:
    return ()


def describe(value: Any) -> str:
    """Name a value's type shortly, in the author's words."""
    value = resolve(value)
    for kind, word in _WORDS:
        if isinstance(value, kind):
            return word
    return "this value"


_WORDS: tuple[tuple[Any, str], ...] = (
    (type(None), "none"),
    (bool, "a boolean"),
    (str, "a text"),
    ((int, float), "a number"),
    ((Mapping, MapView), "a mapping"),
    ((list, tuple, range, View), "a list"),
)


def item(meter: Meter, obj: Any, key: Any) -> Any:
    """Return ``obj[key]``: a key, a place in a list or text, or ``Undefined``."""
    if isinstance(key, str):
        return attribute(meter, obj, str(key))
    if isinstance(obj, Undefined):
        return obj
    if isinstance(key, Undefined):
        raise key.error()
    subject = resolve(obj)
    key = resolve(key)
    try:
        if isinstance(subject, (str, list, tuple, range, Mapping, View)):
            return subject[key]
    except (LookupError, TypeError):
        pass
    near = f"[{key!r}]" if isinstance(key, int) else ""
    size = f" of {len(subject)}" if isinstance(subject, (str, list, tuple, range, View)) else ""
    return Undefined(str(key), f"{describe(obj)}{size} has no such entry", _no_names, near)


def slice_of(meter: Meter, obj: Any, start: Any, stop: Any, step: Any) -> Any:
    """Return ``obj[start:stop:step]``."""
    if isinstance(obj, Undefined):
        raise obj.error()
    subject = resolve(obj)
    if not isinstance(subject, (str, list, tuple, range, View)) or isinstance(subject, MapView):
        raise TemplateError(f"{describe(obj)} cannot be sliced")
    wanted = slice(raw(start), raw(stop), raw(step))
    meter.allocate(len(range(*wanted.indices(len(subject)))))
    return subject[wanted]


_PIECE = 1 << 16
"""Characters of a text that are looked at in one go, to find out how many parts it has."""


# --- methods ------------------------------------------------------------------------------------


def _text_method(name: str) -> Method:
    function = getattr(str, name)

    def call(meter: Meter, text: str, *args: Any, **kwargs: Any) -> Any:
        meter.tick()
        meter.allocate(len(text))
        found = function(text, *(raw(arg) for arg in args), **{key: raw(arg) for key, arg in kwargs.items()})
        return list(found) if isinstance(found, tuple) else found

    return call


def _splitting_method(name: str) -> Method:
    function = getattr(str, name)

    def call(meter: Meter, text: str, *args: Any, **kwargs: Any) -> Any:
        meter.allocate(len(text))
        given = [raw(arg) for arg in args]
        options = {key: raw(arg) for key, arg in kwargs.items()}
        separator = given[0] if given else options.get("sep")
        most = given[1] if len(given) > 1 else options.get("maxsplit", -1)
        if isinstance(separator, str) and separator:
            parts = text.count(separator) + 1
        else:
            parts = count_words(text)
        meter.allocate(8 * (parts if not isinstance(most, int) or most < 0 else min(parts, most + 1)))
        return function(text, *given, **options)

    return call


def _splitlines(meter: Meter, text: str, *args: Any, **kwargs: Any) -> Any:
    meter.allocate(len(text))
    meter.allocate(8 * sum(len(part.splitlines()) for part in _pieces(text)))
    return text.splitlines(*(raw(arg) for arg in args), **{key: raw(arg) for key, arg in kwargs.items()})


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def count_words(text: str) -> int:
    """Count the words of ``text`` without making all of them.

    A text of 8 million characters holds a gigabyte of words.
    """
    total, within = 0, False
    for piece in _pieces(text):
        total += len(piece.split()) - (within and not piece[0].isspace())
        within = not piece[-1].isspace()
    return total


def _padding_method(name: str) -> Method:
    function = getattr(str, name)

    def call(meter: Meter, text: str, width: Any, *fill: Any) -> Any:
        meter.allocate(max(len(text), check_int(width)))
        return function(text, width, *fill)

    return call


def check_int(value: Any) -> int:
    """Check an argument that must be a whole number. Raises TemplateError."""
    value = resolve(value)
    if isinstance(value, int):
        return value
    raise TemplateError(f"a whole number is needed here, not {describe(value)}")


def replace(meter: Meter, text: str, old: Any, new: Any, count: Any = -1) -> str:
    """Replace text; the result's size is checked before it is made."""
    old, new = to_text(old), to_text(new)
    count = -1 if count is None else check_int(count)
    meter.allocate(len(text))
    found = text.count(old) if count < 0 else min(count, text.count(old))
    meter.allocate(len(text) + found * max(0, len(new) - len(old)))
    return text.replace(old, new, count)


def _join(meter: Meter, text: str, values: Any) -> str:
    parts = iterate(meter, values)
    meter.allocate(sum(len(part) + len(text) for part in parts if isinstance(part, str)))
    return text.join(parts)


def _expandtabs(meter: Meter, text: str, tabsize: Any = 8) -> str:
    meter.allocate(len(text) + text.count("\t") * max(0, check_int(tabsize)))
    return text.expandtabs(tabsize)


def iterate(meter: Meter, value: Any) -> list[Any]:
    """Return the entries of a list, keys of a mapping or characters of a text, wrapped.

    Raises TemplateError for anything else.
    """
    if isinstance(value, Undefined):
        raise value.error()
    subject = resolve(value)
    if isinstance(subject, (str, list, tuple, range, Mapping, View)):
        meter.allocate(8 * len(subject))
        return list(subject)
    raise TemplateError(f"{describe(value)} cannot be looped over", code="template_type")


def check_format(meter: Meter, spec: str) -> int:
    """Return the sum of a format's width and precision.

    Raises TemplateError when one would make an enormous text.
    """
    total = 0
    for digits in "".join(char if char.isdecimal() else " " for char in spec).split():
        if len(digits) > 9 or int(digits) > meter.limits.max_width:
            raise over_limit(
                f"the width in {spec[:40]!r} is too large; at most {meter.limits.max_width} is allowed"
            )
        total += int(digits)
    return total


class _SafeFormatter(Formatter):
    """``str.format`` whose fields reach only what templates reach."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        first = field_name
        for mark in ".[":
            first = first.partition(mark)[0]
        value = self.get_value(int(first) if first.isdigit() else first, args, kwargs)
        for is_key, name in _field_path(field_name[len(first) :]):
            value = (
                item(self._meter, value, int(name))
                if is_key and name.isdigit()
                else attribute(self._meter, value, name)
            )
        return value, first

    def format_field(self, value: Any, format_spec: str) -> str:
        check_format(self._meter, format_spec)
        text = format(raw(value), format_spec) if format_spec else to_text(value)
        self._meter.allocate(len(text))
        return text

    def convert_field(self, value: Any, conversion: Any) -> Any:
        plain = raw(value)
        if conversion == "s" or not isinstance(plain, str):
            return to_text(value)
        return super().convert_field(plain, conversion)


def _field_path(rest: str) -> Iterable[tuple[bool, str]]:
    while rest:
        is_key = rest[0] == "["
        if is_key:
            name, _, rest = rest[1:].partition("]")
        else:
            end = min((at for at in (rest.find(".", 1), rest.find("[", 1)) if at > 0), default=len(rest))
            name, rest = rest[1:end], rest[end:]
        yield is_key, name


def _format(meter: Meter, text: str, *args: Any, **kwargs: Any) -> str:
    meter.allocate(len(text))
    return _SafeFormatter(meter).vformat(text, args, kwargs)


def _get(meter: Meter, mapping: Any, key: Any, default: Any = None) -> Any:
    found = item(meter, mapping, key) if key in _key_set(mapping) else default
    return default if isinstance(found, Undefined) else found


def _key_set(mapping: Any) -> Any:
    return mapping.raw if isinstance(mapping, MapView) else mapping


def pairs(meter: Meter, mapping: Any) -> list[tuple[Any, Any]]:
    """Return ``mapping.items()``, values wrapped."""
    meter.allocate(16 * len(mapping))
    return [(key, mapping[key]) for key in mapping]


def _plain(meter: Meter, value: Any) -> Any:
    plain, weight = weighed(value)
    meter.tick(1 + (weight >> 9))
    return plain


def _list_index(meter: Meter, values: Any, wanted: Any) -> int:
    return list(_plain(meter, values)).index(_plain(meter, wanted))


def _list_count(meter: Meter, values: Any, wanted: Any) -> int:
    return list(_plain(meter, values)).count(_plain(meter, wanted))


_PLAIN_TEXT_METHODS = """
    upper lower strip lstrip rstrip partition rpartition startswith endswith find rfind index rindex
    count title capitalize swapcase casefold isdigit isalpha isalnum isnumeric isdecimal isspace isupper islower istitle
    isidentifier isascii removeprefix removesuffix
"""

_TEXT_METHODS: dict[str, Method] = {
    **{name: _text_method(name) for name in _PLAIN_TEXT_METHODS.split()},
    **{name: _padding_method(name) for name in ("ljust", "rjust", "center", "zfill")},
    **{name: _splitting_method(name) for name in ("split", "rsplit")},
    "splitlines": _splitlines,
    "replace": replace,
    "join": _join,
    "expandtabs": _expandtabs,
    "format": _format,
}
_MAPPING_METHODS: dict[str, Method] = {
    "items": pairs,
    "keys": lambda meter, mapping: iterate(meter, mapping),
    "values": lambda meter, mapping: [value for _, value in pairs(meter, mapping)],
    "get": _get,
}
_LIST_METHODS: dict[str, Method] = {"index": _list_index, "count": _list_count}
_FLOAT_METHODS: dict[str, Method] = {"is_integer": lambda meter, number: number.is_integer()}

_METHODS: tuple[tuple[Any, dict[str, Method]], ...] = (
    (str, _TEXT_METHODS),
    ((MapView, Mapping), _MAPPING_METHODS),
    ((list, tuple, View), _LIST_METHODS),
    (float, _FLOAT_METHODS),
)
"""The first that fits holds: a mapping is no list, although both are views."""
METHOD_NAMES = frozenset(name for _, methods in _METHODS for name in methods)
