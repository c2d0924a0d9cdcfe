"""Ports of credentials: names and types for the engine, data for workers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from noetl.domain.kinds import Credential


class CredentialNames(Protocol):
    """Which credentials there are; never what is in them."""

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        """Name → type of those that there are (empty where that is not known).

        Raises InfrastructureError, TaskError(kind="auth").
        """

    def known(self) -> Sequence[str]:
        """Names, for telling what was probably meant; not all of them have to be there."""


class Credentials(Protocol):
    """Named secrets, as a worker gets them."""

    def get(self, name: str, execution_id: int) -> Credential:
        """Return a credential.

        Raises TaskError(kind="auth", code="credential_not_found") naming what exists and how to add one.
        """
