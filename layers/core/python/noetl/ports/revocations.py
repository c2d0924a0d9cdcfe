"""Port of revocation marks, which reach workers that cannot query the engine's database."""

from __future__ import annotations

from typing import Protocol


class Revocations(Protocol):
    """Marks of revoked work.

    A mark only saves work: what a revoked worker reports is superseded anyway, so a failure here is never an error of its own.

    Raises InfrastructureError when the store cannot be reached.
    """

    def revoke(self, execution_id: int, run: int | None = None) -> None:
        """Mark the work of this execution (or of this step run of it) as revoked."""

    def is_revoked(self, execution_id: int, run: int) -> bool: ...
