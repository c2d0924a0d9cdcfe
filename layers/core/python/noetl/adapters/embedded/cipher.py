"""Encryption with a key in a file of this user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from noetl.adapters.embedded.files import write_once
from noetl.adapters.sealing import KEY_BYTES, not_sealed, seal, unseal
from noetl.domain.errors import InfrastructureError

_HEADER = b"\x81"
"""Version of the sealed form; not one of KMS's."""


class FileCipher:
    """``path``: 32 random bytes, made when first needed, readable by this user only. Losing it loses what was sealed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = b""

    def encrypt(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        return seal(self._read(make=True), _HEADER, plain, context)

    def decrypt(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        if sealed[:1] != _HEADER:
            raise not_sealed()
        return unseal(self._read(make=False), _HEADER, sealed, context)

    def _read(self, *, make: bool) -> bytes:
        """Raises InfrastructureError(code="key_file") when the file cannot be used."""
        if self._key:
            return self._key
        try:
            if make:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_once(self._path, os.urandom(KEY_BYTES))
            key = self._path.read_bytes()
            mode = self._path.stat().st_mode & 0o777
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        if len(key) != KEY_BYTES:
            raise self._unusable(f"it has {len(key)} bytes instead of {KEY_BYTES}")
        if mode & 0o077:
            raise self._unusable(f"its mode is {mode:o}: others can read it", f"chmod 600 {self._path}")
        self._key = key
        return key

    def _unusable(self, reason: str, hint: str | None = None) -> InfrastructureError:
        return InfrastructureError(
            f"the key file {self._path} cannot be used: {reason}", code="key_file", hint=hint, retryable=False
        )
