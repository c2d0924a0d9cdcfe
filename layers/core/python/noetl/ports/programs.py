"""Compiled programs for those who cannot (or should not) compile: encoded ``Program`` by content hash."""

from __future__ import annotations

from typing import Protocol


class ProgramStore(Protocol):
    """Raises InfrastructureError when the store cannot be reached."""

    def get(self, program: str) -> bytes | None:
        """The encoded Program of this hash and of this library's version of the Program format; None when there is none."""

    def put(self, program: str, data: bytes) -> None:
        """Durable when this returns; putting the same again is a success."""
