"""How workers of this process find credentials: what was registered first, then what the machine itself knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from noetl.domain.kinds import Credential
from noetl.ports.credential_store import CredentialStore
from noetl.ports.credentials import CredentialNames, Credentials
from noetl.services.manage_credentials import SUGGESTED_FROM, CredentialDeps, read_kept


@dataclass(frozen=True, slots=True)
class RegisteredFirst:
    """``otherwise``: asked for names that nobody registered."""

    deps: CredentialDeps
    otherwise: Credentials

    def get(self, name: str, execution_id: int) -> Credential:
        """Raises TaskError(kind="auth"), InfrastructureError."""
        found = read_kept(name, self.deps, execution_id=execution_id)
        return self.otherwise.get(name, execution_id) if found is None else found[0]


@dataclass(frozen=True, slots=True)
class KnownCredentials:
    """Names of what was registered, and of what is known otherwise."""

    store: CredentialStore
    otherwise: CredentialNames

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        found = self.store.types(names)
        rest = set(names) - found.keys()
        return {**self.otherwise.types(rest), **found} if rest else found

    def known(self) -> Sequence[str]:
        registered = [one.name for one in self.store.entries(limit=SUGGESTED_FROM)]
        return [*registered, *self.otherwise.known()]
