"""How workers of this process find credentials: what was registered first, then what the machine itself knows."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.domain.errors import NotFoundError
from noetl.domain.kinds import Credential
from noetl.ports.credentials import Credentials
from noetl.services.manage_credentials import CredentialDeps, read_credential


@dataclass(frozen=True, slots=True)
class RegisteredFirst:
    """``otherwise``: asked for names that nobody registered."""

    deps: CredentialDeps
    otherwise: Credentials

    def get(self, name: str, execution_id: int) -> Credential:
        """Raises TaskError(kind="auth"), InfrastructureError."""
        try:
            return read_credential(name, self.deps, execution_id=execution_id)
        except NotFoundError:
            return self.otherwise.get(name, execution_id)
