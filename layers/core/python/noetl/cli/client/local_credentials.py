"""Credentials in the stores of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noetl.cli.client import runtime_access
from noetl.services.credentials import credentials as manage_credentials
from noetl.services.credentials.credentials import (
    CredentialAccessView,
    CredentialRequest,
    CredentialView,
    ResealResult,
)

if TYPE_CHECKING:
    from noetl.api.http.bodies import CredentialDeletedAnswer


class CredentialsHere:
    _reading: runtime_access.Reading

    def keep_credential(self, request: CredentialRequest) -> CredentialView:
        return manage_credentials.keep_credential(request, f"local:{os.getuid()}", self._reading.credentials)[
            0
        ]

    def credentials(self, type_: str, limit: int) -> Sequence[CredentialView]:
        return manage_credentials.list_credentials(self._reading.credentials, limit=limit, type=type_)

    def credential(self, name: str, *, reveal: bool) -> CredentialView:
        deps = self._reading.credentials
        stored = manage_credentials.find_credential(name, deps)
        data = manage_credentials.open_credential(stored, deps) if reveal else None
        if reveal:
            manage_credentials.note_access(deps, stored.name, "read", f"local:{os.getuid()}")
        return manage_credentials.view(stored, data)

    def remove_credential(self, name: str) -> CredentialDeletedAnswer:
        from noetl.api.http.bodies import CredentialDeletedAnswer

        gone = manage_credentials.remove_credential(name, f"local:{os.getuid()}", self._reading.credentials)
        return CredentialDeletedAnswer(gone.name, str(gone.id), True)

    def reseal_credentials(self) -> ResealResult:
        return manage_credentials.reseal(f"local:{os.getuid()}", self._reading.credentials)

    def credential_accesses(
        self, name: str, execution_id: int | None, limit: int
    ) -> Sequence[CredentialAccessView]:
        store = self._reading.credentials.store
        found = store.accesses(limit=limit, name=name, execution_id=execution_id)
        return [manage_credentials.access_view(one) for one in found]
