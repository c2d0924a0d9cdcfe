"""Durations as people write them: ``30s``, ``1h30m``, ``7d``, or a number of seconds.

Playbooks, commands and the parameters of kinds read every time through this module.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

UNITS: dict[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
"""Unit → seconds. A duration names its units from the largest to the smallest, each at most once."""
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_PARTS = "".join(rf"(?:({_NUMBER})\s*{unit}\s*)?" for unit in ("w", "d", "h", "m(?!s)", "s", "ms"))
_ORDER = ("w", "d", "h", "m", "s", "ms")
_DURATION = re.compile(rf"\s*(?=[0-9]){_PARTS}\Z")
_PLAIN = re.compile(rf"\s*{_NUMBER}\s*\Z")
PATTERN = (
    r"^\s*[0-9]{1,9}(\.[0-9]{1,6})?\s*((ms|s|m|h|d|w)\s*([0-9]{1,9}(\.[0-9]{1,6})?\s*(ms|s|m|h|d|w)\s*)*)?$"
)
"""For JSON Schema; the order of the units is checked by ``parse_duration`` alone."""
HINT = "write 30s, 10m, 1h30m or 7d (units: ms, s, m, h, d, w), or a number of seconds"


def parse_duration(text: str) -> float | None:
    """Return the seconds of ``90s``, ``1h30m``, ``1.5h`` or ``90``; None for any other text."""
    if _PLAIN.match(text):
        return float(text)
    found = _DURATION.match(text)
    if found is None:
        return None
    total = sum(
        float(part) * UNITS[unit]
        for part, unit in zip(found.groups(), _ORDER, strict=True)
        if part is not None
    )
    return round(total, 6)


def seconds_of(value: Any) -> float | None:
    """Return the seconds of a number or of a duration's text; None for what is neither."""
    if isinstance(value, str):
        found = parse_duration(value)
        return _exponent(value) if found is None else found
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if isfinite(found) else None


def _exponent(text: str) -> float | None:
    """Templates may print a number as ``1e-05``."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if isfinite(found) else None


def plain_seconds(seconds: float) -> int | float:
    """Return whole seconds as an int, as people write them."""
    return int(seconds) if seconds.is_integer() else seconds
