"""The key that tokens of commands are made with on one machine: a file in the home folder, made when it is first needed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from noetl.domain.errors import InfrastructureError
from noetl.domain.tokens import KeyRing

FILE = "commands.key"


def local_keys(home: Path) -> KeyRing:
    """Raises InfrastructureError when the file can neither be read nor made."""
    path = home / FILE
    try:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return KeyRing.of(path.read_text("ascii").split())
        with os.fdopen(handle, "w") as file:
            file.write(secret := secrets.token_hex(32))
        return KeyRing.of([secret])
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"the key of commands {path} cannot be used: {error}",
            code="key_unreadable",
            hint="remove it, and a new one is made; workers that run commands at that moment run them again",
            retryable=False,
        ) from error
