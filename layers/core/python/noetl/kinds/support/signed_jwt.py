"""JSON Web Tokens signed with a private key (RS256), for the APIs of Google and Snowflake."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError


def sign(
    claims: Mapping[str, Any], pem: str, *, passphrase: str | None = None, key_id: str | None = None
) -> str:
    """Sign the claims: ``header.claims.signature``.

    Raises TaskError(kind="auth", code="credential_shape") for what is no RSA key in PEM.
    """
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    header = {"alg": "RS256", "typ": "JWT", **({"kid": key_id} if key_id else {})}
    signed = b".".join(_base64(codec.encode(part)) for part in (header, dict(claims)))
    signature = private_key(pem, passphrase).sign(signed, padding.PKCS1v15(), hashes.SHA256())
    return (signed + b"." + _base64(signature)).decode()


@lru_cache(maxsize=32)
def private_key(pem: str, passphrase: str | None) -> Any:
    """Read an RSA key.

    Reading one takes a millisecond, so those in use are kept.
    """
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, RSAPrivateKey):
        raise TaskError(
            "the credential's private key cannot be read",
            kind="auth",
            code="credential_shape",
            hint="it has to be an RSA key in PEM, with its lines as they were (and its passphrase, if it has one)",
        )
    return found


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
