"""Compiled programs in memory."""

from __future__ import annotations


class MemoryProgramStore:
    def __init__(self) -> None:
        self._programs: dict[str, bytes] = {}

    def get(self, program: str) -> bytes | None:
        return self._programs.get(program)

    def put(self, program: str, data: bytes) -> None:
        self._programs.setdefault(program, bytes(data))
