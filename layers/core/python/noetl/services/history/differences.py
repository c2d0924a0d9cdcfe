"""Differences between two JSON-like values, place by place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>"})()
"""One of two values that is not there."""


def differences(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path of each difference, with both values (MISSING where there is none)."""
    if left is right:
        return
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}, key=str):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(below, left.get(key, MISSING), right.get(key, MISSING))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(f"{path}[{index}]", one, other)
    elif type(left) is not type(right) or left != right:
        yield path, left, right
