"""The values of plain scalars, and why some of them are refused."""

from __future__ import annotations

import math
from typing import Any

from noetl.domain.sizes.gate import number_fits
from noetl.domain.sizes.table import INTEGER_DIGITS

MAX_DIGITS = INTEGER_DIGITS.value
_CORE = "tag:yaml.org,2002:"
_BASES = {"0x": 16, "0o": 8}


class BadScalar(Exception):  # noqa: N818 - carried into a diagnostic at once
    """The reason why a scalar cannot be used: ``code``, ``message``, ``hint``.

    ``too_long``: it is a whole number of too many digits.
    """

    def __init__(self, code: str, message: str, hint: str, *, too_long: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.too_long = code, message, hint, too_long


def typed_value(tag: str, text: str) -> Any:
    """Return the value of ``text`` under a core schema tag. Raises BadScalar."""
    match tag.removeprefix(_CORE):
        case "str" | "!":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return _integer(text)
        case "float":
            return _number(text)
    raise BadScalar(
        "yaml-tag",
        f"the tag {tag} is not known here",
        "remove the tag; values are text, numbers, true, false, null",
    )


def _integer(text: str) -> int:
    base = _BASES.get(text[:2], 10)
    digits = len(text.lstrip("+-")) if base == 10 else len(text) - 2
    # Digits of base 16 and 8 are fewer than those of base 10 or more: the value decides.
    value = int(text[2:] if base != 10 else text, base) if digits <= MAX_DIGITS else None
    if value is None or not number_fits(value):
        raise BadScalar(
            "yaml-number",
            f"a whole number of more than {MAX_DIGITS} digits",
            "quote it to keep it as text",
            too_long=True,
        )
    return value


def _number(text: str) -> float:
    folded = text.lower().replace(".inf", "inf").replace(".nan", "nan")
    value = float(folded)
    if not math.isfinite(value):
        raise BadScalar(
            "yaml-number", f"{text} is not a number that JSON can hold", "quote it to keep it as text"
        )
    return value


def key_text(tag: str, text: str, *, plain: bool) -> str:
    """Return a key as text. ``plain``: it is written without quotes.

    Raises BadScalar for null and booleans, which look like text but are not.
    """
    kind = tag.removeprefix(_CORE)
    if kind == "merge" or (plain and text == "<<"):
        raise BadScalar("yaml-merge-key", "YAML 1.2 has no merge keys (<<)", "write the shared keys out")
    if kind in ("null", "bool"):
        raise BadScalar("yaml-key", f"the key {text or 'null'} is not text", f'quote it: "{text or "null"}"')
    return text
