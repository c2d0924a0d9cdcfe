"""Template values back to JSON and to text.

Stored values come back as the same objects. Containers that a template made are walked, each distinct one once: a few lines can
make a list that holds another list twice, which holds another twice …, so what it all unfolds to is weighed before anything
is written out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from noetl.domain.codec import encode
from noetl.domain.errors import TemplateError
from noetl.domain.sizes.gate import number_fits
from noetl.domain.sizes.table import INTEGER_DIGITS
from noetl.templating.limits import MAX_VALUE_DEPTH, MAX_VALUE_WEIGHT, over_limit
from noetl.templating.undefined import Undefined
from noetl.templating.views import BLANK, SCALARS, DerivedView, Stored, View, content

_ENTRY = 8
"""Weight of an entry of a list or mapping."""
_LONG_TEXT = 1024
"""Texts from this length on are noticed when they repeat."""


def unwrap(value: Any) -> Any:
    """Return the JSON of a template value.

    Raises TemplateError for anything JSON cannot hold, and for undefined values.
    """
    if type(value) in SCALARS:
        return _scalar(value)
    if isinstance(value, View) and not isinstance(value, DerivedView):
        return value.plain()
    return weighed(value)[0]


def weighed(value: Any) -> tuple[Any, int]:
    """Return the JSON of a value that a template made, and its unfolded weight.

    The weight is about its bytes as JSON.
    """
    walk = _Walk(exact=False)
    found = walk.plain(value, 0)
    return _Walk(exact=True).plain(value, 0) if walk.repeats else found


def to_text(value: Any) -> str:
    """Convert a value for a text: text as it is, scalars as in Jinja, the rest as JSON."""
    if isinstance(value, str):
        return str(value)
    if value is BLANK:
        return ""
    value = content(value)
    if type(value) in SCALARS:
        return str(value)
    return encode(unwrap(value)).decode()


def _scalar(value: Any) -> Any:
    if type(value) is float and not math.isfinite(value):
        raise TemplateError(
            f"the result is {value!r}, which JSON cannot hold", hint="test for it, or use a text"
        )
    if type(value) is int and not number_fits(value):
        raise over_limit(f"the result is a whole number of more than {INTEGER_DIGITS.value} digits")
    return value


class _Walk:
    """One pass over a value.

    A quick pass only notices whether anything repeats; an exact one weighs stored values too.
    """

    def __init__(self, *, exact: bool) -> None:
        self.repeats = False
        self._exact = exact
        self._made: dict[int, tuple[Any, int]] = {}
        self._stored: dict[int, int] = {}

    def plain(self, value: Any, depth: int) -> tuple[Any, int]:
        """JSON and weight. ``depth`` is the number of containers around it."""
        if type(value) in SCALARS:
            return _scalar(value), self._scalar_weight(value)
        if isinstance(value, View) and not isinstance(value, DerivedView):
            found = value.plain()
            return found, self._stored_weight(value.raw if isinstance(value, Stored) else value, found)
        if isinstance(value, (Mapping, list, tuple, range, DerivedView)):
            return self._container(value, depth)
        return _other(value), _ENTRY

    def _scalar_weight(self, value: Any) -> int:
        if type(value) is str and len(value) >= _LONG_TEXT:
            return self._stored_weight(value, value)
        return _ENTRY + (len(value) if type(value) is str else 0)

    def _stored_weight(self, source: Any, found: Any) -> int:
        key = id(source)
        if key in self._stored:
            self.repeats = True
            return self._stored[key]
        weight = _ENTRY
        if self._exact:
            weight += len(found) if isinstance(found, str) else len(encode(found))
        self._stored[key] = weight
        return weight

    def _container(self, value: Any, depth: int) -> tuple[Any, int]:
        known = self._made.get(id(value))
        if known is not None:
            self.repeats = True
            return known
        if depth > MAX_VALUE_DEPTH:
            raise over_limit(f"the result is nested more than {MAX_VALUE_DEPTH} levels deep")
        entries = value.made() if isinstance(value, DerivedView) else value
        weight = _ENTRY
        if isinstance(entries, Mapping):
            mapping: dict[str, Any] = {}
            for key, entry in entries.items():
                mapping[_key(key)], more = self.plain(entry, depth + 1)
                weight += more + len(key)
            found: Any = mapping
        else:
            found = []
            for entry in entries:
                plain, more = self.plain(entry, depth + 1)
                found.append(plain)
                weight += more
        if weight > MAX_VALUE_WEIGHT:
            raise over_limit(f"the result would be larger than {MAX_VALUE_WEIGHT} bytes")
        self._made[id(value)] = found, weight
        return found, weight


def _other(value: Any) -> Any:
    if isinstance(value, Undefined):
        raise value.error()
    for base in (str, int, float):
        if isinstance(value, base):
            return _scalar(base(value))
    if callable(value):
        raise TemplateError("the result is a function", hint="call it: add ()")
    raise TemplateError(f"the result is of type {type(value).__name__}, which JSON cannot hold")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(key)
    raise TemplateError(
        f"the result is a mapping with the key {key!r}; JSON keys are text", hint=f"write '{key}'"
    )
