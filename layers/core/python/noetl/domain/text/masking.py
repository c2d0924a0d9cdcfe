"""The mask that replaces secrets in text, and messages without the tokens in them."""

from __future__ import annotations

import re

MASK = "***"
_PROOF = re.compile(r"([0-9a-f]{8})[0-9a-f]{56,}", re.ASCII)
"""Any HMAC or key: of a command, a control event, a callback. Its beginning distinguishes two of them."""
_BEARER = re.compile(r"(bearer\s+|\bnoetl_(?=[\w-]{43}))[\w.~+/=-]+", re.ASCII | re.IGNORECASE)
_NAMED = re.compile(
    r'(\\{0,4}"(?:token|callbacks|authorization)\\{0,4}"\s*:\s*\\{0,4}")([^"\\]{0,8})[^"\\]*', re.IGNORECASE
)


def loggable(text: str, most: int) -> str:
    """Return the first ``most`` characters of a message's text for a log.

    Tokens and keys are left out.
    """
    text = _PROOF.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    return _NAMED.sub(rf"\1\2{MASK}", text)[:most]
