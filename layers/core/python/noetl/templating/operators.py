"""Arithmetic and comparison with the size of every result checked before it is made."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from noetl.domain.errors import TemplateError
from noetl.domain.text.excerpt import excerpt
from noetl.templating.access import check_format, describe
from noetl.templating.error_view import ErrorView
from noetl.templating.limits import Meter, over_limit
from noetl.templating.plain import to_text, weighed
from noetl.templating.undefined import Undefined
from noetl.templating.views import DerivedView, ListView, View, raw, resolve

BinaryOperator = Callable[[Meter, Any, Any], Any]

_NUMBERS = frozenset((int, float, bool))


def operand(value: Any) -> Any:
    """Prepare a value for arithmetic: lists of views become lists."""
    if isinstance(value, Undefined):
        raise value.error()
    value = resolve(value)
    return list(value) if isinstance(value, ListView) else value


def _numeric(symbol: str, function: Callable[[Any, Any], Any]) -> BinaryOperator:
    def apply(meter: Meter, left: Any, right: Any) -> Any:
        left, right = operand(left), operand(right)
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return function(left, right)
        raise mismatch(symbol, left, right)

    return apply


def mismatch(symbol: str, left: Any, right: Any) -> TemplateError:
    """Make the error of an operator that does not fit its values."""
    hint = "write ~ to join texts, | int or | float to make a number" if symbol == "+" else None
    return TemplateError(
        f"{describe(left)} {symbol} {describe(right)} is not possible: {_show(left)} {symbol} {_show(right)}",
        hint=hint,
    )


def _show(value: Any) -> str:
    if isinstance(value, _CONTAINERS):
        return describe(value)
    return excerpt(repr(value), 40)


def add(meter: Meter, left: Any, right: Any) -> Any:
    """Numbers, two texts or two lists."""
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return left + right
    left, right = operand(left), operand(right)
    if isinstance(left, str) and isinstance(right, str):
        meter.allocate(len(left) + len(right))
        return left + right
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        meter.allocate(8 * (len(left) + len(right)))
        return [*left, *right]
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left + right
    raise mismatch("+", left, right)


def multiply(meter: Meter, left: Any, right: Any) -> Any:
    """Two numbers, or a text or list repeated."""
    left, right = operand(left), operand(right)
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(meter, left.bit_length() + right.bit_length())
        return left * right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left * right
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, (str, list, tuple)) and isinstance(right, int):
        meter.allocate(len(left) * max(0, right) * (1 if isinstance(left, str) else 8))
        return left * right
    raise mismatch("*", left, right)


def power(meter: Meter, left: Any, right: Any) -> Any:
    """Raise a number to a power."""
    left, right = operand(left), operand(right)
    if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        raise mismatch("**", left, right)
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        _check_bits(meter, left.bit_length() * right if abs(left) > 1 else 1)
    try:
        result = left**right
    except OverflowError:
        raise over_limit(f"{_show(left)} ** {_show(right)} is too large a number") from None
    if isinstance(result, complex):
        raise TemplateError(f"{_show(left)} ** {_show(right)} is not a real number")
    return result


def _check_bits(meter: Meter, bits: int) -> None:
    if bits > meter.limits.max_int_bits:
        raise over_limit(
            "the calculation makes too large a number",
            f"at most {meter.limits.max_int_bits} bits are allowed",
        )


def modulo(meter: Meter, left: Any, right: Any) -> Any:
    """Remainder of numbers, or printf-style formatting of a text."""
    left = operand(left)
    if isinstance(left, str):
        values = operand(right)
        return printf(meter, left, *(values if isinstance(values, tuple) else (values,)))
    return _remainder(meter, left, right)


_remainder = _numeric("%", operator.mod)


def printf(meter: Meter, template: str, *values: Any, **named: Any) -> str:
    """Format ``template % values``; the result's size is known before it is made."""
    if named and values:
        raise TemplateError("format takes positions or names, not both")
    if not named and len(values) == 1 and isinstance(raw(values[0]), dict):
        named, values = raw(values[0]), ()
    size, names = _measure_directives(meter, template)
    positions = tuple(_printable(meter, value) for value in values)
    keywords = {name: _printable(meter, value) for name, value in named.items()}
    size += sum(_printed_size(value) for value in positions)
    size += sum(_printed_size(keywords[name]) for name in names if name in keywords)
    meter.allocate(size)
    return template % (keywords or positions)


def _printable(meter: Meter, value: Any) -> Any:
    if isinstance(value, Undefined):
        raise value.error()
    value = raw(value)
    if not isinstance(value, (dict, list, tuple)):
        return value
    text = to_text(value)
    meter.allocate(len(text))
    return text


def _printed_size(value: Any) -> int:
    return (
        len(value) if isinstance(value, str) else 32 + (value.bit_length() if isinstance(value, int) else 400)
    )


def _measure_directives(meter: Meter, template: str) -> tuple[int, list[str]]:
    """Measure the text without its values but with all widths; list its directives' names."""
    size, names = len(template), []
    for part in template.split("%")[1:]:
        if part.startswith("("):
            name, _, part = part[1:].partition(")")
            names.append(name)
        spec = part[: len(part) - len(part.lstrip("#0- +123456789.*"))]
        if "*" in spec:
            raise TemplateError("a width given as * is not supported in format", hint="write the number")
        size += check_format(meter, spec)
        meter.tick()
    return size, names


def concat(meter: Meter, parts: list[Any]) -> str:
    """Join the texts of ``a ~ b ~ c``."""
    return "".join(texts_of(meter, parts))


def texts_of(meter: Meter, parts: Iterable[Any]) -> list[str]:
    """Return the text of each part; stop as soon as they are too much together."""
    texts: list[str] = []
    size = 0
    for part in parts:
        text = to_text(part)
        meter.allocate(len(text))
        size += len(text)
        if size > meter.limits.max_size:
            raise over_limit(f"the template would make a text longer than {meter.limits.max_size} characters")
        texts.append(text)
    return texts


_CONTAINERS = (View, list, tuple, dict)


def comparable(meter: Meter, value: Any) -> Any:
    """Return a value that can be compared in bounded time.

    Containers that a template made are weighed and made plain.
    """
    if isinstance(value, (list, tuple, dict, DerivedView)):
        plain, weight = weighed(value)
        if weight > meter.limits.max_size:
            raise over_limit("a value made by the template is too large to compare")
        meter.tick(1 + (weight >> 9))
        return plain
    return value


def _contains(meter: Meter, left: Any, right: Any) -> bool:
    if isinstance(left, Undefined):
        raise left.error()
    if isinstance(right, Undefined):
        raise right.error()
    subject = resolve(right)
    if isinstance(subject, (str, list, tuple, range, dict, View)):
        meter.tick(1 + (len(subject) >> 6))
    else:
        raise TemplateError(f"'in' needs a list, mapping or text on its right, not {describe(right)}")
    if isinstance(right, ErrorView):
        return raw(left) in right
    left, subject = raw(comparable(meter, left)), comparable(meter, subject)
    if isinstance(subject, str) and not isinstance(left, str):
        raise TemplateError(f"a text cannot contain {describe(left)}: {_show(left)} in {_show(subject)}")
    return left in subject


def _comparison(symbol: str, function: Callable[[Any, Any], Any]) -> BinaryOperator:
    def apply(meter: Meter, left: Any, right: Any) -> Any:
        if isinstance(left, _CONTAINERS) and isinstance(right, _CONTAINERS):
            meter.tick(64)
            left, right = comparable(meter, left), comparable(meter, right)
        try:
            return function(left, right)
        except TypeError:
            raise mismatch(symbol, left, right) from None

    return apply


COMPARE: dict[str, BinaryOperator] = {
    "eq": _comparison("==", operator.eq),
    "ne": _comparison("!=", operator.ne),
    "lt": _comparison("<", operator.lt),
    "lteq": _comparison("<=", operator.le),
    "gt": _comparison(">", operator.gt),
    "gteq": _comparison(">=", operator.ge),
    "in": _contains,
    "notin": lambda meter, left, right: not _contains(meter, left, right),
}
BINARY: dict[str, BinaryOperator] = {
    "Add": add,
    "Sub": _numeric("-", operator.sub),
    "Mul": multiply,
    "Div": _numeric("/", operator.truediv),
    "FloorDiv": _numeric("//", operator.floordiv),
    "Mod": modulo,
    "Pow": power,
}
