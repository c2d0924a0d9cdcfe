"""Compiled programs in memory."""

from __future__ import annotations

from noetl.adapters.program_hash import check_hash


class MemoryProgramStore:
    def __init__(self) -> None:
        self._programs: dict[str, tuple[bytes, str]] = {}

    def get(self, program: str) -> bytes | None:
        found = self.read(program)
        return None if found is None else found[0]

    def put(self, program: str, data: bytes) -> None:
        self.write(program, data, "", replace=False)

    def read(self, program: str) -> tuple[bytes, str] | None:
        return self._programs.get(check_hash(program))

    def write(self, program: str, data: bytes, token: str, *, replace: bool) -> bool:
        if not replace and check_hash(program) in self._programs:
            return False
        self._programs[check_hash(program)] = bytes(data), token
        return True
