"""The beginning of a text that is too long to show."""

from __future__ import annotations


def excerpt(text: str, most: int) -> str:
    """Return ``text``, or its beginning and an ellipsis: at most ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
