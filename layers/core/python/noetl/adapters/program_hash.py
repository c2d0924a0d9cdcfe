"""Names of programs, checked before any store believes them."""

from __future__ import annotations

import re

from noetl.domain.errors import InvalidInputError

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_hash(program: str) -> str:
    """Check that a text is a SHA-256 in lower-case hex.

    Raises InvalidInputError(code="program_hash") otherwise.
    """
    if not _HASH.fullmatch(program):
        raise InvalidInputError(f"{program[:80]!r} is not the hash of a program", code="program_hash")
    return program
