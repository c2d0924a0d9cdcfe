"""Encryption with keys in a file of this user."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from noetl.adapters.aead import KEY_BYTES, not_sealed, seal, unseal
from noetl.adapters.embedded.files import sync_folder, write_once
from noetl.adapters.embedded.locked import locked
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.shortages import shortage

_HEADER = b"\x81"
"""Version of the sealed form; not one of KMS's."""
KEPT = 2
"""Keys that a rotation leaves: the new one, and the one before, with which another process may be sealing something at this moment."""
MOST = 64


class FileCipher:
    """A cipher with keys in the file ``path``.

    The file has keys of 32 random bytes one after the other; the first one seals. It is made on first use, readable by this user only, and
    read again when it has changed. Losing it loses what was sealed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys: tuple[bytes, ...] = ()
        self._seen: tuple[int, int, int] | None = None

    def encrypt(self, plain: bytes, context: Mapping[str, str]) -> bytes:
        return seal(self._read(make=True)[0], _HEADER, plain, context)

    def decrypt(self, sealed: bytes, context: Mapping[str, str]) -> bytes:
        if sealed[:1] != _HEADER:
            raise not_sealed()
        for key in self._read(make=False):
            try:
                return unseal(key, _HEADER, sealed, context)
            except InvalidInputError:
                continue
        raise not_sealed()

    @contextmanager
    def rotation(self) -> Iterator[None]:
        """Rotate the keys: a new one seals inside the block, whose end forgets the oldest.

        All keys of the file open until then. Seal everything again inside the block. One rotation at a time, across processes; a process
        that
        dies in the middle leaves keys too many, never too few.
        """
        self._read(make=True)
        with locked(self._path):
            keys = (os.urandom(KEY_BYTES), *self._read(make=False))
            if len(keys) > MOST:
                raise self._unusable(f"it has {len(keys) - 1} keys")
            self._write(keys)
            yield
            self._write(keys[:KEPT])

    def _write(self, keys: tuple[bytes, ...]) -> None:
        """Replace the file by a new one with these keys, atomically."""
        part = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}.part")
        try:
            write_once(part, b"".join(keys))
            part.replace(self._path)
            sync_folder(self._path.parent)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise self._failed(error) from error

    def _read(self, *, make: bool) -> tuple[bytes, ...]:
        """Read the keys.

        Raises InfrastructureError(code="key_file") when the file cannot be used.
        """
        try:
            if make and not self._path.exists():
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_once(self._path, os.urandom(KEY_BYTES))
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen == self._seen:
                return self._keys
            text = self._path.read_bytes()
        except OSError as error:
            raise self._failed(error) from error
        if not text or len(text) % KEY_BYTES or len(text) > MOST * KEY_BYTES:
            raise self._unusable(f"it has {len(text)} bytes instead of {KEY_BYTES} for each key")
        mode = status.st_mode & 0o777
        if mode & 0o077:
            raise self._unusable(f"its mode is {mode:o}: others can read it", f"chmod 600 {self._path}")
        keys = tuple(text[start : start + KEY_BYTES] for start in range(0, len(text), KEY_BYTES))
        self._keys, self._seen = keys, seen
        return keys

    def _failed(self, error: OSError) -> InfrastructureError:
        """Describe a failed write, such as a full disk; no key was kept or lost."""
        lacking = shortage(error)
        if lacking is None:
            return self._unusable(error.strerror or str(error))
        return InfrastructureError(
            f"the key file {self._path} cannot be used: {lacking.reason}",
            code="key_file",
            hint=lacking.remedy,
        )

    def _unusable(self, reason: str, hint: str | None = None) -> InfrastructureError:
        return InfrastructureError(
            f"the key file {self._path} cannot be used: {reason}", code="key_file", hint=hint, retryable=False
        )
