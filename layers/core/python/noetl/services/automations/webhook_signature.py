"""Webhook signatures: an HMAC-SHA256 over the raw body, by a secret of both sides."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from noetl.domain.automations.triggers import Source, WebhookSource
from noetl.domain.errors import ConflictError, InvalidInputError, NotFoundError, TaskError
from noetl.services.credentials.credentials import CredentialDeps, read_credential

LEAST_SECRET = 16
"""Characters; shorter ones can be guessed by a client that has seen one request."""


def check_signer(source: Source, deps: CredentialDeps) -> None:
    """Check that a webhook's credential exists and can sign.

    Raises InvalidInputError(code="invalid_trigger").
    """
    if isinstance(source, WebhookSource) and source.credential:
        _secret(source.credential, deps)


def verify(source: WebhookSource, body: bytes, sent: str, deps: CredentialDeps) -> bool:
    """Verify the signature of a webhook's body.

    ``sent``: the header's value: hexadecimal, with ``sha256=`` before it or not, or Base64.

    Raises ConflictError(code="hook_unverifiable") when the secret cannot be read, InfrastructureError.
    """
    try:
        secret = _secret(source.credential, deps)
    except InvalidInputError as missing:
        raise ConflictError(
            "requests to this webhook cannot be verified",
            code="hook_unverifiable",
            hint="ask the owner of the trigger: its credential is gone, or has no `secret` any more",
        ) from missing
    return hmac.compare_digest(_read(sent), hmac.new(secret, body, hashlib.sha256).digest())


def _read(sent: str) -> bytes:
    """Decode a signature; empty for what is no signature."""
    text = sent.strip().removeprefix("sha256=")
    try:
        return bytes.fromhex(text) if len(text) == 64 else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""


def _secret(name: str, deps: CredentialDeps) -> bytes:
    """Read the signing secret.

    Errors never repeat the name: it may be the secret itself, by mistake.
    """
    try:
        found = read_credential(name, deps).data.get("secret")
    except (NotFoundError, TaskError) as error:
        raise InvalidInputError(
            "source.credential names no credential that can be read",
            code="invalid_trigger",
            hint="keep the secret first: noetl credential add NAME --type generic --set secret=…",
        ) from error
    if not isinstance(found, str) or len(found) < LEAST_SECRET:
        raise InvalidInputError(
            f"the credential of source.credential has no `secret` of at least {LEAST_SECRET} characters",
            code="invalid_trigger",
            hint="noetl credential add NAME --type generic --set secret=… (the same that the sender has)",
        )
    return found.encode()
