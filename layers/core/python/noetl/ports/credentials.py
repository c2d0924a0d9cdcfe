from __future__ import annotations

from typing import Protocol

from noetl.domain.kinds import Credential


class Credentials(Protocol):
    """Named secrets, as a worker gets them."""

    def get(self, name: str, execution_id: int) -> Credential:
        """Raises TaskError(kind="auth", code="credential_not_found") naming what exists and how to add one."""
