"""Signed links that return one object for a while, without further credentials.

They do what presigned URLs do, where results are files.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable

from noetl.domain.errors import NotFoundError

PATH = "/api/downloads/"


class SignedLinks:
    """``key`` may be of this process alone: links are for now, not for keeping."""

    def __init__(self, base: str, key: bytes, clock: Callable[[], float]) -> None:
        self._base = base
        self._key = key
        self._clock = clock

    def link(self, uri: str, seconds: int, store: str = "") -> str:
        """Return a URL for the object at ``uri`` in the tier ``store``."""
        claim = json.dumps([uri, int(self._clock()) + seconds, store]).encode()
        return f"{self._base}{PATH}{_text(claim)}.{_text(self._mac(claim))}"

    def uri(self, token: str) -> tuple[str, str]:
        """Return the (URI, tier) of a link.

        Raises NotFoundError when it was not made by this object, or its time is over.
        """
        claim, _, mac = token.partition(".")
        try:
            signed = _bytes(claim)
            if hmac.compare_digest(self._mac(signed), _bytes(mac)):
                uri, until, store = json.loads(signed)
                if self._clock() < until:
                    return str(uri), str(store)
        except (ValueError, binascii.Error):
            pass
        raise NotFoundError(
            "this link is not valid, or no more", code="link_invalid", hint="ask for the result again"
        )

    def _mac(self, claim: bytes) -> bytes:
        return hmac.digest(self._key, claim, hashlib.sha256)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
