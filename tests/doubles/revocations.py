"""Marks of unwanted work in memory."""

from __future__ import annotations


class MemoryRevocations:
    def __init__(self) -> None:
        self._marks: set[tuple[int, int | None]] = set()

    def revoke(self, execution_id: int, run: int | None = None) -> None:
        self._marks.add((execution_id, run))

    def is_revoked(self, execution_id: int, run: int) -> bool:
        return (execution_id, None) in self._marks or (execution_id, run) in self._marks
