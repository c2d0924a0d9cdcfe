"""The key that signs the tokens of commands on one machine: a file in the home folder."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from noetl.adapters.embedded.files import write_once
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import InfrastructureError
from noetl.domain.shortages import shortage

FILE = "commands.key"
DIGITS = 64
_KEY = re.compile(rf"[0-9a-f]{{{DIGITS}}}", re.ASCII)


def local_keys(home: Path) -> KeyRing:
    """Read the key of a home folder, or make it at the first use.

    Raises InfrastructureError when the file can neither be read nor made.
    """
    path = home / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_once(path, secrets.token_hex(DIGITS // 2).encode())
        found = path.read_text("ascii").split()
        if not found or any(not _KEY.fullmatch(secret) for secret in found):
            raise ValueError(
                f"a key has {DIGITS} hexadecimal digits, and it holds something else, or half of one"
            )
        return KeyRing.of(found)
    except (OSError, ValueError) as error:
        lacking = shortage(error)
        hint = "remove it, and a new one is made; workers that run commands at that moment run them again"
        raise InfrastructureError(
            f"the key of commands {path} cannot be used: {lacking.reason if lacking else error}",
            code="key_unreadable",
            hint=lacking.remedy if lacking else hint,
            retryable=False,
        ) from error
