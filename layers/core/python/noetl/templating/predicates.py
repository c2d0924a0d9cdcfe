"""Tests: what may stand after ``is``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.domain.errors import TemplateError
from noetl.templating.access import describe
from noetl.templating.limits import Meter
from noetl.templating.operators import COMPARE, comparable, modulo
from noetl.templating.plain import to_text
from noetl.templating.undefined import Undefined
from noetl.templating.views import BLANK, MapView, View, resolve

Test = Callable[..., bool]


def _missing(value: Any) -> bool:
    return value is BLANK or isinstance(value, Undefined)


def _of_type(*kinds: type[Any]) -> Test:
    return lambda meter, value: isinstance(resolve(value), kinds)


def _divisible(meter: Meter, value: Any, divisor: Any) -> bool:
    if isinstance(resolve(value), str):
        raise TemplateError(f"a number is needed here, not {describe(value)}")
    return bool(modulo(meter, value, divisor) == 0)


def _integer(meter: Meter, value: Any) -> bool:
    value = resolve(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _same(meter: Meter, value: Any, other: Any) -> bool:
    value, other = comparable(meter, resolve(value)), comparable(meter, resolve(other))
    return value is other or (type(value) is type(other) and bool(value == other))


def _of_text(function: Callable[[str], bool]) -> Test:
    def holds(meter: Meter, value: Any) -> bool:
        text = to_text(value)
        meter.tick(1 + (len(text) >> 10))
        return function(text)

    return holds


TESTS: dict[str, Test] = {
    "boolean": _of_type(bool),
    "defined": lambda meter, value: not _missing(value),
    "divisibleby": _divisible,
    "even": lambda meter, value: _divisible(meter, value, 2),
    "false": lambda meter, value: resolve(value) is False,
    "float": _of_type(float),
    "integer": _integer,
    "iterable": _of_type(str, list, tuple, range, Mapping, View),
    "lower": _of_text(str.islower),
    "mapping": _of_type(Mapping, MapView),
    "none": lambda meter, value: resolve(value) is None,
    "null": lambda meter, value: resolve(value) is None,
    "number": _of_type(int, float),
    "odd": lambda meter, value: not _divisible(meter, value, 2),
    "sameas": _same,
    "sequence": _of_type(str, list, tuple, range, View),
    "string": _of_type(str),
    "true": lambda meter, value: resolve(value) is True,
    "undefined": lambda meter, value: _missing(value),
    "upper": _of_text(str.isupper),
}
_COMPARISONS = {
    "eq": ("==", "equalto"),
    "ne": ("!=",),
    "lt": ("<", "lessthan"),
    "lteq": ("<=", "le"),
    "gt": (">", "greaterthan"),
    "gteq": (">=", "ge"),
    "in": (),
}
for _name, _aliases in _COMPARISONS.items():
    for _alias in (_name, *_aliases):
        TESTS[_alias] = COMPARE[_name]
