"""Texts and values that break systems which trust them, drawn from a seed: a caller may send everything that JSON can say."""

from __future__ import annotations

import random
from typing import Any

ZEROS = "0" * 3999
TEXTS = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff\ud800",
    "half \ud83d",
    "\u202eevil\u2066",
    "\ufeffbom",
    "\r\n\t",
    "caf\u00e9",
    "cafe\u0301",
    "caf\u00e9 ",
    "\U0001f469\u200d\U0001f4bb",
    "'; DROP TABLE noetl.event; --",
    'quote " back \\ slash',
    "{{ workload }}",
    "{% raw %}",
    "noetl://execution/1/result/x",
    "null",
    "-0",
    "__class__",
    "start",
    "execution_id",
)
LENGTHS = (127, 128, 129, 255, 256, 257, 511, 512, 1023, 1024, 1025, 2700, 6000)
"""Lengths around which columns, indexes and queues have limits."""
NUMBERS = (0, -1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**23, int("9" + ZEROS), 1e300, 5e-324, -0.0)
"""Integers up to 4,000 digits; floats at the ends of their range."""


def text(rng: random.Random) -> str:
    """Draw a text that a caller may send."""
    chance = rng.random()
    if chance < 0.6:
        return rng.choice(TEXTS)
    if chance < 0.75:
        letter = rng.choice(("x", "\u00e9", "\U0001f600"))
        return letter * rng.choice(LENGTHS)
    return rng.choice(TEXTS) + rng.choice(TEXTS) + chr(rng.choice((0, 1, 0x7F, 0xD800, 0xFFFF, 0x10FFFF)))


def name(rng: random.Random) -> str:
    """Draw a text that is not empty: for keys, locks and people."""
    return text(rng) or "n"


def lookalike(rng: random.Random) -> dict[str, Any]:
    """Draw a mapping that resembles a reference, an error or a patch, and is none."""
    return rng.choice(
        (
            {"kind": "result_ref", "ref": text(rng), "size": "1"},
            {"kind": "result_ref"},
            {"$ref": "#/x"},
            {"locator": text(rng), "size": -1},
            {"ref": "noetl://execution/1/x", "sha256": "0" * 64},
            {"type": "start", "execution_id": 1, "event_id": "start"},
            {"error": {"message": text(rng)}, "status": "error"},
        )
    )


def value(rng: random.Random, depth: int = 2) -> Any:
    """Draw any JSON value."""
    chance = rng.random()
    if depth and chance < 0.2:
        return {name(rng): value(rng, depth - 1) for _ in range(rng.randint(0, 3))}
    if depth and chance < 0.35:
        return [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if chance < 0.45:
        return lookalike(rng)
    if chance < 0.6:
        return rng.choice(NUMBERS)
    if chance < 0.65:
        return rng.choice((None, True, False))
    return text(rng)


def mapping(rng: random.Random) -> dict[str, Any]:
    """Draw a mapping with keys that look alike, or are very long."""
    return {name(rng): value(rng) for _ in range(rng.randint(0, 4))}
