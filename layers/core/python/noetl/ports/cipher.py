"""Port of the cipher that encrypts small secrets at rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Cipher(Protocol):
    """Authenticated encryption.

    ``context``: public facts that must be the same for decryption (an execution id, a name).

    Raises InfrastructureError when the key service cannot be reached.
    """

    def encrypt(self, plain: bytes, context: Mapping[str, str]) -> bytes: ...

    def decrypt(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        """Decrypt sealed bytes.

        Raises InvalidInputError(code="sealed_invalid") for bytes that were changed, or sealed with another key or context.
        """
