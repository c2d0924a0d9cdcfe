"""Filters: Jinja's repeatable and safe ones, and JSON, hashing and SQL helpers.

Each takes the meter and the value first. Values may be views; results are scalars, plain lists and mappings, or views.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from jinja2.filters import FILTERS as JINJA

from noetl.domain.codec import decode, encode
from noetl.domain.errors import InvalidInputError, TemplateError
from noetl.domain.sizes.gate import check_tree, number_fits
from noetl.domain.sizes.table import INTEGER_DIGITS
from noetl.templating.access import attribute, check_int, count_words, describe, replace
from noetl.templating.limits import Meter, over_limit
from noetl.templating.operators import operand, printf
from noetl.templating.plain import to_text, unwrap
from noetl.templating.sequences import SEQUENCE_FILTERS
from noetl.templating.sql_values import SqlText, quote_name
from noetl.templating.undefined import Undefined
from noetl.templating.views import BLANK, raw, resolve, wrap

Filter = Callable[..., Any]


def default(meter: Meter, value: Any, fallback: Any = "", boolean: Any = False) -> Any:
    """Return the fallback for an undefined value (with ``true`` also for an empty one)."""
    if isinstance(value, Undefined) or value is BLANK or (boolean and not value):
        return fallback
    return value


def _text_filter(function: Callable[[str], str]) -> Filter:
    def apply(meter: Meter, value: Any) -> str:
        text = to_text(value)
        meter.allocate(len(text))
        return function(text)

    return apply


def _read_filter(function: Callable[..., Any]) -> Filter:
    """Make a filter over a text that makes no larger one.

    Reading the text takes time all the same, so it is counted.
    """

    def apply(meter: Meter, value: Any, *args: Any, **kwargs: Any) -> Any:
        text = to_text(value)
        meter.tick(1 + (len(text) >> 12))
        return function(text, *args, **kwargs)

    return apply


def _title(meter: Meter, value: Any) -> str:
    text = to_text(value)
    meter.allocate(len(text))
    meter.tick(len(text))  # each word is made by Python code
    return str(JINJA["title"](text))


def _urlencode(meter: Meter, value: Any) -> str:
    plain = unwrap(raw(value))
    size = len(plain) if isinstance(plain, str) else len(encode(plain))
    meter.allocate(3 * size)
    meter.tick(size)  # each byte is looked at by Python code
    return str(JINJA["urlencode"](plain))


def _number(meter: Meter, value: Any, convert: Callable[[Any], Any], fallback: Any) -> Any:
    try:
        return convert(resolve(value))
    except (TypeError, ValueError, OverflowError):
        return fallback


def _int(meter: Meter, value: Any, fallback: Any = 0, base: Any = 10) -> Any:
    def convert(given: Any) -> int:
        if isinstance(given, str):
            meter.allocate(len(given))
            if len(given) * max(base, 2).bit_length() > meter.limits.max_int_bits * 2:
                raise ValueError(given)
            try:
                return int(given, base)
            except ValueError:
                return int(float(given))
        return int(given)

    found = _number(meter, value, convert, fallback)
    if isinstance(found, int) and not number_fits(found):
        raise over_limit(f"the result is a whole number of more than {INTEGER_DIGITS.value} digits")
    return found


def _float(meter: Meter, value: Any, fallback: Any = 0.0) -> Any:
    value = resolve(value)
    if isinstance(value, str):
        meter.tick(len(value) >> 8)
    return _number(meter, value, float, fallback)


def _round(meter: Meter, value: Any, precision: Any = 0, method: Any = "common") -> Any:
    number, digits = operand(value), check_int(precision)
    if not isinstance(number, (int, float)):
        raise TemplateError(f"round needs a number, not {describe(value)}")
    if not -30 <= digits <= 30:
        raise TemplateError(f"round takes a precision from -30 to 30, not {digits}")
    if method not in ("common", "ceil", "floor"):
        raise TemplateError(f"round knows common, ceil and floor, not {method!r}")
    return JINJA["round"](number, digits, method)


def _tojson(meter: Meter, value: Any, indent: Any = None) -> str:
    plain = unwrap(raw(value))
    if indent is None:
        text = encode(plain).decode()
    else:
        text = json.dumps(plain, indent=min(max(check_int(indent), 0), 16), ensure_ascii=False)
    meter.allocate(len(text))
    return text


def _fromjson(meter: Meter, value: Any) -> Any:
    text = to_text(value)
    meter.allocate(len(text))
    try:
        found = decode(text)
        check_tree(found, "result")
        return wrap(found)
    except InvalidInputError as error:
        raise over_limit(error.message) from None
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"this is not JSON: {text[:60]!r} ({error})") from None


def _b64decode(meter: Meter, value: Any) -> str:
    text = to_text(value)
    meter.allocate(len(text))
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise TemplateError(f"this is not base64 of a text: {error}") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _indent(meter: Meter, value: Any, width: Any = 4, first: Any = False, blank: Any = False) -> str:
    text = to_text(value)
    size = len(width) if isinstance(width, str) else max(0, check_int(width))
    lines = text.split("\n")
    meter.allocate(len(text) + size * len(lines))
    prefix = width if isinstance(width, str) else " " * size
    padded = [prefix + line if line or blank else line for line in lines]
    return "\n".join(padded if first else [lines[0], *padded[1:]])


def _center(meter: Meter, value: Any, width: Any = 80) -> str:
    text = to_text(value)
    meter.allocate(max(len(text), check_int(width)))
    return text.center(width)


def _trim(text: str, chars: Any = None) -> str:
    return text.strip(chars)


def _truncate(text: str, length: Any = 255, killwords: Any = False, end: Any = "...", leeway: Any = 5) -> str:
    mark, length = to_text(end), check_int(length)
    if length < len(mark):
        raise TemplateError(f"truncate needs a length of at least {len(mark)}")
    if len(text) <= length + check_int(leeway):
        return text
    cut = text[: length - len(mark)]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + mark


def _filesizeformat(meter: Meter, value: Any, binary: Any = False) -> str:
    return str(JINJA["filesizeformat"](_float(meter, value), bool(binary)))


def _isoformat(meter: Meter, value: Any) -> str:
    seconds = operand(value)
    if not isinstance(seconds, (int, float)):
        raise TemplateError(f"isoformat needs seconds since 1970, not {describe(value)}")
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        raise TemplateError(f"{seconds!r} is not a time") from None


def _epoch(meter: Meter, value: Any) -> float:
    text = to_text(value)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise TemplateError(f"{text[:60]!r} is not a time", hint="write it as 2026-01-31T12:00:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _abs(meter: Meter, value: Any) -> Any:
    number = operand(value)
    if not isinstance(number, (int, float)):
        raise TemplateError(f"abs needs a number, not {describe(value)}")
    return abs(number)


FILTERS: dict[str, Filter] = {
    **SEQUENCE_FILTERS,
    "abs": _abs,
    "attr": lambda meter, value, name: attribute(meter, value, to_text(name)),
    "b64decode": _b64decode,
    "b64encode": _text_filter(lambda text: base64.b64encode(_bytes(text)).decode()),
    "capitalize": _text_filter(str.capitalize),
    "center": _center,
    "default": default,
    "epoch": _epoch,
    "escape": _text_filter(html.escape),
    "filesizeformat": _filesizeformat,
    "float": _float,
    "format": lambda meter, value, *args, **kwargs: printf(meter, to_text(value), *args, **kwargs),
    "fromjson": _fromjson,
    "identifier": lambda meter, value: quote_name(value),
    "indent": _indent,
    "int": _int,
    "isoformat": _isoformat,
    "lower": _text_filter(str.lower),
    "md5": _text_filter(lambda text: hashlib.md5(_bytes(text), usedforsecurity=False).hexdigest()),
    "raw_sql": lambda meter, value: SqlText(to_text(value)),
    "replace": lambda meter, value, old, new, count=None: replace(meter, to_text(value), old, new, count),
    "round": _round,
    "safe": lambda meter, value: value,
    "sha256": _text_filter(lambda text: hashlib.sha256(_bytes(text)).hexdigest()),
    "string": _text_filter(str),
    "title": _title,
    "tojson": _tojson,
    "trim": _read_filter(_trim),
    "truncate": _read_filter(_truncate),
    "upper": _text_filter(str.upper),
    "urlencode": _urlencode,
    "wordcount": _read_filter(count_words),
}
FILTERS["d"] = FILTERS["default"]
FILTERS["e"] = FILTERS["escape"]
