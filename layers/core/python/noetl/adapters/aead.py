"""Encryption with AES-256-GCM: a fresh nonce per text, and all public parts authenticated."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from noetl.domain.errors import InvalidInputError

KEY_BYTES = 32
NONCE_BYTES = 12


def seal(key: bytes, header: bytes, plain: bytes, context: Mapping[str, str]) -> bytes:
    """Encrypt ``plain`` and return header, nonce, ciphertext and tag in one text.

    The header is public. A change of the header or of ``context`` is detected by ``unseal``.
    """
    # The library is loaded by the first secret: most processes seal none.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return header + nonce + AESGCM(key).encrypt(nonce, plain, _public(header, context))


def unseal(key: bytes, header: bytes, sealed: bytes, context: Mapping[str, str]) -> bytes:
    """Decrypt a text of ``seal`` that begins with ``header``.

    Raises InvalidInputError(code="sealed_invalid").
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    start = len(header)
    nonce, text = sealed[start : start + NONCE_BYTES], sealed[start + NONCE_BYTES :]
    if len(nonce) < NONCE_BYTES:
        raise not_sealed()
    try:
        return AESGCM(key).decrypt(nonce, text, _public(header, context))
    except InvalidTag:
        raise not_sealed() from None


def not_sealed() -> InvalidInputError:
    return InvalidInputError(
        "this was changed after it was sealed, or sealed with another key or for another purpose",
        code="sealed_invalid",
    )


def _public(header: bytes, context: Mapping[str, str]) -> bytes:
    return header + json.dumps(dict(context), sort_keys=True, separators=(",", ":")).encode()
