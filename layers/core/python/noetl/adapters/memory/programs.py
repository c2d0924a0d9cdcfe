"""Compiled programs in memory."""

from __future__ import annotations

from noetl.adapters.program_hash import check_hash


class MemoryProgramStore:
    def __init__(self) -> None:
        self._programs: dict[str, bytes] = {}

    def get(self, program: str) -> bytes | None:
        return self._programs.get(check_hash(program))

    def put(self, program: str, data: bytes) -> None:
        self._programs.setdefault(check_hash(program), bytes(data))
