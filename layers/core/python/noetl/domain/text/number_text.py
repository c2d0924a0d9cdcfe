"""Numbers as messages show them, of any size."""

from __future__ import annotations

import math


def number_text(value: float, form: str = "g") -> str:
    """Return a number in a format of floats; a whole number beyond a double by its size."""
    try:
        return format(value, form)
    except OverflowError:
        return f"about {'-' if value < 0 else ''}1e+{math.floor(math.log10(abs(value)))}"
