"""The keys of capability tokens, as the secret has them now."""

from __future__ import annotations

import time
from collections.abc import Callable

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.secrets import secret_texts
from noetl.domain.capability_tokens import KeyRing

EVERY_SECONDS = 2.0
"""Least time between two readings: forged messages must not cost a request each, and a token of a new key is unknown for no longer."""
KEPT_SECONDS = 300.0
"""How long a key is signed with before the secret is looked at again: much less than it stays the previous one of a rotation."""


class CloudKeys:
    """The key ring of a deployment, read from its secret.

    ``keys(fresh)`` returns it. ``fresh``: read it again, because a token has a key that the ring does not contain.
    """

    def __init__(self, secret: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._secret = secret
        self._clock = clock
        self._ring: KeyRing | None = None
        self._read_at = 0.0

    def __call__(self, fresh: bool = False) -> KeyRing:
        age = self._clock() - self._read_at
        if self._ring is None or age > KEPT_SECONDS or (fresh and age > EVERY_SECONDS):
            self._ring = KeyRing.of(secret_texts(make_client("secretsmanager"), self._secret))
            self._read_at = self._clock()
        return self._ring
