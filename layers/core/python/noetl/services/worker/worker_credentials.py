"""A worker's lookup of credentials: registered ones first, then the machine's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.ports.credential_store import CredentialStore
from noetl.ports.credentials import CredentialNames, Credentials
from noetl.services.credentials.credentials import SUGGESTED_FROM, CredentialDeps, note_access, read_kept

WORKER = "worker"
"""Who reads for a task in this process."""
KNOWN = 4096
SHOWN = 20
"""Registered names in the message about one that is not there."""


class RegisteredFirst(msgspec.Struct, frozen=True):
    """Credentials from the registered ones, else from ``otherwise``.

    ``otherwise``: asked for names that are not registered. What an execution reads is recorded once by each process.
    """

    deps: CredentialDeps
    otherwise: Credentials
    _recorded: LruCache[tuple[int, str], None] = msgspec.field(default_factory=lambda: LruCache(KNOWN))

    def get(self, name: str, execution_id: int) -> Credential:
        """Read a credential. Raises TaskError(kind="auth"), InfrastructureError."""
        found = read_kept(name, self.deps, execution_id=execution_id)
        if found is None:
            return self._of_the_machine(name, execution_id)
        if self._recorded.put((execution_id, found[0].name), None):
            note_access(self.deps, found[0].name, "read", WORKER, execution_id)
        return found[0]

    def _of_the_machine(self, name: str, execution_id: int) -> Credential:
        try:
            return self.otherwise.get(name, execution_id)
        except TaskError as error:
            if error.code == "credential_not_found":
                registered = [one.name for one in self.deps.store.entries(limit=SHOWN + 1)]
                more = " …" if len(registered) > SHOWN else ""
                if registered:
                    error.message += f"; registered: {', '.join(registered[:SHOWN])}{more}"
            raise


class KnownCredentials(msgspec.Struct, frozen=True):
    """Names of registered credentials, and of those that the machine knows."""

    store: CredentialStore
    otherwise: CredentialNames

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        found = self.store.types(names)
        rest = set(names) - found.keys()
        return {**self.otherwise.types(rest), **found} if rest else found

    def known(self) -> Sequence[str]:
        registered = [one.name for one in self.store.entries(limit=SUGGESTED_FROM)]
        return [*registered, *self.otherwise.known()]
