"""Envelope encryption with KMS.

KMS makes and unwraps data keys, and this process encrypts with AES-GCM.

Sealed: version (1 byte) · length of the wrapped data key (2 bytes, big-endian) · wrapped data key · nonce · ciphertext with tag.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from noetl.adapters.aead import not_sealed, seal, unseal
from noetl.adapters.aws.clients import FAILURES, answering, error_code, unreachable
from noetl.caching.lru_cache import LruCache

VERSION = 1
KEEP_SECONDS = 300.0
USES = 1_000
"""How long and how often one data key seals: what one leaked key could open."""
KEPT = 256
_FOREIGN = frozenset({"InvalidCiphertextException", "IncorrectKeyException", "InvalidKeyUsageException"})

Context = tuple[tuple[str, str], ...]


class _Keys:
    """A bounded cache of data keys. Thread-safe."""

    def __init__(self, clock: Callable[[], float], uses: int) -> None:
        self._clock = clock
        self._uses = uses
        self._kept: LruCache[Hashable, tuple[float, int, tuple[bytes, bytes]]] = LruCache(KEPT)
        self._lock = threading.Lock()

    def get(self, name: Hashable) -> tuple[bytes, bytes] | None:
        with self._lock:
            until, left, keys = self._kept.pop(name) or (0.0, 0, (b"", b""))
            if self._clock() >= until or not left:
                return None
            self._kept.put(name, (until, left - 1, keys))
            return keys

    def put(self, name: Hashable, keys: tuple[bytes, bytes]) -> None:
        with self._lock:
            self._kept.put(name, (self._clock() + KEEP_SECONDS, self._uses, keys))


class KmsCipher:
    """A cipher whose data keys KMS wraps. ``key_id``: id, ARN or alias of a symmetric key.

    All of ``context`` is authenticated with the sealed text. KMS's encryption context (it shows in CloudTrail, and the policy of a role can
    require it) is the part that ``shared`` names, else all of it. Texts with the same shared part share data keys, so that most calls need
    no request to KMS.
    """

    def __init__(
        self,
        key_id: str,
        client: Any,
        *,
        shared: frozenset[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key_id = key_id
        self._shared = shared
        self._client = client
        self.calls = 0
        """Calls to KMS that this process has made."""
        self._sealing = _Keys(clock, USES - 1)
        self._opening = _Keys(clock, USES)

    def encrypt(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        key, wrapped = self._data_key(self._known_to_kms(context))
        return seal(key, _header(wrapped), plain, context)

    def decrypt(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        size = int.from_bytes(sealed[1:3], "big")
        header = sealed[: 3 + size]
        if sealed[:1] != bytes([VERSION]) or not size or len(header) < 3 + size:
            raise not_sealed()
        key = self._opened(header[3:], self._known_to_kms(context))
        return unseal(key, header, sealed, context)

    def _known_to_kms(self, context: Mapping[str, str]) -> Context:
        shared = self._shared
        return tuple(sorted(pair for pair in context.items() if shared is None or pair[0] in shared))

    def _data_key(self, context: Context) -> tuple[bytes, bytes]:
        found = self._sealing.get(context)
        if found is None:
            self.calls += 1
            with answering("kms"):
                answer = self._client.generate_data_key(
                    KeyId=self._key_id, KeySpec="AES_256", EncryptionContext=dict(context)
                )
            found = (answer["Plaintext"], answer["CiphertextBlob"])
            self._sealing.put(context, found)
            self._opening.put((found[1], context), found)
        return found

    def _opened(self, wrapped: bytes, context: Context) -> bytes:
        found = self._opening.get((wrapped, context))
        if found is None:
            self.calls += 1
            try:
                answer = self._client.decrypt(
                    KeyId=self._key_id, CiphertextBlob=wrapped, EncryptionContext=dict(context)
                )
            except FAILURES as error:
                if error_code(error) in _FOREIGN:
                    raise not_sealed() from error
                raise unreachable(error, "kms") from error
            found = (answer["Plaintext"], wrapped)
            self._opening.put((wrapped, context), found)
        return found[0]


def _header(wrapped: bytes) -> bytes:
    return bytes([VERSION]) + len(wrapped).to_bytes(2, "big") + wrapped
