"""The values of plain scalars, and why some of them are refused."""

from __future__ import annotations

import math
from typing import Any

MAX_DIGITS = 4_000
_CORE = "tag:yaml.org,2002:"


class BadScalar(Exception):  # noqa: N818 - carried into a diagnostic at once
    """Why a scalar cannot be used: ``code``, ``message``, ``hint``."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


def typed_value(tag: str, text: str) -> Any:
    """The value of ``text`` under a core schema tag. Raises BadScalar."""
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
    if len(text) > MAX_DIGITS:
        raise BadScalar("yaml-number", f"a number of {len(text)} digits", "quote it to keep it as text")
    for prefix, base in (("0x", 16), ("0o", 8)):
        if text.startswith(prefix):
            return int(text[2:], base)
    return int(text)


def _number(text: str) -> float:
    folded = text.lower().replace(".inf", "inf").replace(".nan", "nan")
    value = float(folded)
    if not math.isfinite(value):
        raise BadScalar(
            "yaml-number", f"{text} is not a number that JSON can hold", "quote it to keep it as text"
        )
    return value


def key_text(tag: str, text: str) -> str:
    """A key as text. Raises BadScalar for null and booleans, which look like text but are not."""
    kind = tag.removeprefix(_CORE)
    if kind == "merge" or text == "<<":
        raise BadScalar("yaml-merge-key", "YAML 1.2 has no merge keys (<<)", "write the shared keys out")
    if kind in ("null", "bool"):
        raise BadScalar("yaml-key", f"the key {text or 'null'} is not text", f'quote it: "{text or "null"}"')
    return text
