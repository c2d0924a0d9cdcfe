"""Guards as expressions: taken out of ``{{ … }}``, and put together again."""

from __future__ import annotations

import json
import re

_SIGNS = ("==", "!=", ">=", "<=", ">", "<")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")


def inner(guard: object) -> str | None:
    """Return the expression of a guard that is one, else None."""
    if isinstance(guard, bool):
        return "true" if guard else "false"
    found = _first(guard) if isinstance(guard, str) else None
    if found is None or found[1]:
        return None
    return " ".join(found[0].removeprefix("-").removesuffix("-").split())


def both(*parts: str) -> str:
    """Return a guard that is true when all of these expressions are."""
    shown = [part if _is_simple(part) else f"({part})" for part in parts if part and part != "true"]
    return f"{{{{ {' and '.join(shown) or 'true'} }}}}"


def none_of(*parts: str) -> str:
    """Return a guard that is true when none of these expressions is."""
    return f"{{{{ not ({' or '.join(part if _is_simple(part) else f'({part})' for part in parts)}) }}}}"


def _first(guard: str) -> tuple[str, str] | None:
    """Return what is in the template that a guard begins with, and the text behind it.

    No pattern: repetitions beside each other try every division of a long run of spaces.
    """
    text = guard.strip()
    end = text.find("}}", 2) if text.startswith("{{") else -1
    if end < 0 or "{{" in text[2:end]:
        return None
    return text[2:end], text[end + 2 :]


def _is_simple(expression: str) -> bool:
    return re.search(r"\b(or|if|else)\b", expression) is None


def compared(guard: object) -> str | None:
    """Return the guard that ``"{{ a }} == b"`` means.

    It compares texts, or numbers when it asks for an order.
    """
    found = _first(guard) if isinstance(guard, str) else None
    if found is None:
        return None
    left, rest = found[0].strip(), found[1].lstrip()
    sign = next((one for one in _SIGNS if rest.startswith(one)), "")
    right = rest[len(sign) :].strip()
    if not sign or not right or "{" in right or "}" in right:
        return None
    right = right.strip("'\"")
    if sign in ("==", "!="):
        text = "string | lower" if right in ("true", "false") else "string"
        return f"{{{{ ({left}) | {text} {sign} {_quoted(right)} }}}}"
    return f"{{{{ ({left}) | float {sign} {right} }}}}" if _NUMBER.match(right) else None


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text and "\\" not in text else json.dumps(text)
