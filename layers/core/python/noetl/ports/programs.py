"""Port of the program store: encoded programs by hash, for processes that do not compile."""

from __future__ import annotations

from typing import Protocol


class ProgramStore(Protocol):
    """Raises InfrastructureError when the store cannot be reached."""

    def get(self, program: str) -> bytes | None:
        """Return the encoded Program of this hash and of this version of the format; None: none."""

    def put(self, program: str, data: bytes) -> None:
        """Durable when this returns; putting the same again is a success."""


class TokenStore(Protocol):
    """A store that keeps a token beside each program.

    Raises InfrastructureError when it cannot be reached.
    """

    def read(self, program: str) -> tuple[bytes, str] | None:
        """Return the encoded Program and its token (empty: none); None: there is no such program."""

    def write(self, program: str, data: bytes, token: str, *, replace: bool) -> bool:
        """Whether this call wrote it: without ``replace`` one that exists stays."""
