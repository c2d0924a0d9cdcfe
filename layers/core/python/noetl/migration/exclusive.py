"""Proof that of several guards at most one is true.

Comparisons of the same value contradict each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

_AND = re.compile(r"\s{1,99}and\s{1,99}")
_COMPARISON = re.compile(r"(?P<left>[\w.\[\]'\"|() ]+?)\s{0,9}(?P<sign>==|!=|>=|<=|>|<)\s{0,9}(?P<right>.+)")
_WORDS = {"true": True, "false": False, "none": None, "null": None}
_OPPOSITE = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "true": "false",
    "false": "true",
}
_UNPLAIN = re.compile(r"\b(in|is|not|random|now)\b|[=!<>]")
"""Operands that chain comparisons, or whose value differs from one reading to the next."""

Fact = tuple[str, str, Any]
"""What is compared, how, and with which constant or expression; ``true`` and ``false``: what counts as such."""


def exclusive(guards: Sequence[str]) -> bool:
    """Return whether no two of these expressions can be true at once.

    False where that is not plain from their text.
    """
    known = [_facts(guard) for guard in guards]
    return all(any(_contradict(a, b) for a in one for b in other) for one, other in combinations(known, 2))


def _facts(guard: str) -> list[Fact]:
    """Return what has to hold for a guard to be true: the parts of a conjunction."""
    if re.search(r"\bor\b|\bif\b|~", guard):
        return []
    parts = [part.strip() for part in _AND.split(guard)]
    if not all(_is_whole(part) for part in parts):
        return []
    return [fact for part in parts if (fact := _fact(part)) is not None]


def _is_whole(part: str) -> bool:
    """Return whether texts and parentheses that begin in a part end in it."""
    return part.count("(") == part.count(")") and part.count("'") % 2 == part.count('"') % 2 == 0


def _fact(part: str) -> Fact | None:
    while part.startswith("(") and part.endswith(")") and part.count("(") == 1:
        part = part[1:-1].strip()
    if part.startswith("not "):
        inner = _fact(part[4:].strip())
        return None if inner is None else (inner[0], _OPPOSITE[inner[1]], inner[2])
    found = _COMPARISON.fullmatch(part)
    if found is None:
        return (part, "true", True) if re.fullmatch(r"[\w.]+", part) else None
    left, right = " ".join(found["left"].split()), " ".join(found["right"].split())
    value = _constant(right)
    if _UNPLAIN.search(left) or (isinstance(value, tuple) and _UNPLAIN.search(right)):
        return None
    return left, found["sign"], value


def _constant(text: str) -> Any:
    """Return the value that a text denotes; an expression is itself, in a tuple."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if (
        len(text) > 1
        and text[0] == text[-1]
        and text[0] in "'\""
        and text[0] not in text[1:-1]
        and "\\" not in text
    ):
        return text[1:-1]
    try:
        value = json.loads(text)
    except ValueError:
        return (text,)
    return value if isinstance(value, (int, float)) else (text,)


def _contradict(one: Fact, other: Fact) -> bool:
    (left, sign, right), (left_too, sign_too, right_too) = one, other
    if left != left_too:
        return False
    if "true" in (sign, sign_too) or "false" in (sign, sign_too):
        return _contradict_truth(one, other) or _contradict_truth(other, one)
    if right == right_too and type(right) is type(right_too):
        return (sign, sign_too) in _NEVER or (sign_too, sign) in _NEVER
    if isinstance(right, tuple) or isinstance(right_too, tuple):
        return False
    if sign == sign_too == "==":
        return bool(right != right_too)
    numbers = all(type(value) in (int, float) for value in (right, right_too))
    return numbers and (_apart(sign, right, sign_too, right_too) or _apart(sign_too, right_too, sign, right))


def _contradict_truth(one: Fact, other: Fact) -> bool:
    """Return whether the second denies that a value counts as true, or as false."""
    (_, sign, _), (_, sign_too, right) = one, other
    if sign not in ("true", "false"):
        return False
    if sign_too == "==":
        return not isinstance(right, tuple) and bool(right) is (sign == "false")
    return sign_too == _OPPOSITE[sign]


_NEVER = frozenset({("==", "!="), ("<", ">="), ("<", ">"), ("<", "=="), (">", "<="), (">", "==")})
"""Comparisons with the same value that are never true together."""


def _apart(sign: str, low: float, sign_too: str, high: float) -> bool:
    """Return whether the first keeps below ``low`` and the second at or above ``high``."""
    return low < high and sign in ("<", "<=", "==") and sign_too in (">", ">=", "==")
