"""Guards as expressions: taken out of ``{{ … }}``, and put together again."""

from __future__ import annotations

import json
import re

_WHOLE = re.compile(r"\s*\{\{-?\s*(?P<inner>(?:(?!\}\}|\{\{).)*?)\s*-?\}\}\s*\Z", re.DOTALL)
_COMPARED = re.compile(
    r"\s*\{\{\s*(?P<left>(?:(?!\}\}|\{\{).)*?)\s*\}\}\s*(?P<sign>==|!=|>=|<=|>|<)\s*(?P<right>[^{}]+?)\s*\Z",
    re.DOTALL,
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")


def inner(guard: object) -> str | None:
    """Return the expression of a guard that is one, else None."""
    if isinstance(guard, bool):
        return "true" if guard else "false"
    found = _WHOLE.match(guard) if isinstance(guard, str) else None
    return " ".join(found["inner"].split()) if found else None


def both(*parts: str) -> str:
    """Return a guard that is true when all of these expressions are."""
    shown = [part if _is_simple(part) else f"({part})" for part in parts if part and part != "true"]
    return f"{{{{ {' and '.join(shown) or 'true'} }}}}"


def none_of(*parts: str) -> str:
    """Return a guard that is true when none of these expressions is."""
    return f"{{{{ not ({' or '.join(part if _is_simple(part) else f'({part})' for part in parts)}) }}}}"


def _is_simple(expression: str) -> bool:
    return re.search(r"\b(or|if|else)\b", expression) is None


def compared(guard: object) -> str | None:
    """Return the guard that ``"{{ a }} == b"`` means.

    It compares texts, or numbers when it asks for an order.
    """
    found = _COMPARED.match(guard) if isinstance(guard, str) else None
    if found is None:
        return None
    left, sign, right = found["left"], found["sign"], found["right"].strip("'\"")
    if sign in ("==", "!="):
        text = "string | lower" if right in ("true", "false") else "string"
        return f"{{{{ ({left}) | {text} {sign} {_quoted(right)} }}}}"
    return f"{{{{ ({left}) | float {sign} {right} }}}}" if _NUMBER.match(right) else None


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text and "\\" not in text else json.dumps(text)
