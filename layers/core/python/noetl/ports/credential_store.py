"""Port of the credential store, which keeps sealed data.

Adapters never see the plain text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

CacheType = Literal["secret", "token"]
ScopeType = Literal["execution", "global"]
AccessAction = Literal["kept", "replaced", "removed", "resealed", "read"]


class StoredCredential(msgspec.Struct, frozen=True):
    """A credential as it is stored.

    ``id``: stays when the data is replaced; ``version`` counts replacements. Moments are epoch seconds.
    """

    id: int
    name: str
    type: str
    sealed: bytes
    meta: dict[str, Any] = {}
    principal: str = ""
    version: int = 1
    created_at: float = 0.0
    updated_at: float = 0.0


class CachedCredential(msgspec.Struct, frozen=True):
    """A row of ``auth_cache``.

    ``expires_in``: seconds left, by the store's clock. ``version``: of the credential that was copied.
    """

    key: str
    name: str
    type: str
    cache_type: CacheType
    scope: ScopeType
    sealed: bytes
    execution_id: int | None = None
    parent_execution_id: int | None = None
    expires_in: float = 3600.0
    version: int = 1
    access_count: int = 0


class CredentialAccess(msgspec.Struct, frozen=True):
    """A record of an access to a credential.

    ``id``: time-ordered; ``at``: epoch seconds, by the store's clock.
    """

    id: int
    name: str
    action: AccessAction
    principal: str
    execution_id: int | None = None
    step: str = ""
    at: float = 0.0


class CredentialStore(Protocol):
    """One round trip per call. Raises InfrastructureError when the store cannot be reached."""

    def put(self, credential: StoredCredential) -> tuple[StoredCredential, bool]:
        """Keep a credential, or replace the one of this name; return it, and whether it is new.

        A replaced one keeps its id and its age, and its cached copies are removed. ``id`` is for a new one; ``version`` and moments are
        the store's. Raises IdTakenError.
        """

    def get(self, name: str) -> StoredCredential | None: ...

    def get_by_id(self, credential_id: int) -> StoredCredential | None: ...

    def entries(self, *, limit: int, after: str = "", type: str = "") -> Sequence[StoredCredential]:
        """By name, after ``after``; of one type unless it is empty."""

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        """Name → type of those that there are."""

    def reseal(self, name: str, version: int, sealed: bytes) -> bool:
        """The same data under another key, if this version is still the credential's.

        Nothing else changes. Whether it was.
        """

    def delete(self, name: str) -> bool:
        """Remove it with its cached copies. Whether it was there."""

    # --- the cache: auth_cache ---

    def cached(self, key: str, renew_seconds: float | None = None) -> CachedCredential | None:
        """Return a cached row that has not expired, and count the read.

        Its credential was neither replaced nor removed since. ``renew_seconds`` moves the expiry of a secret; a token keeps its own.
        """

    def cache(self, row: CachedCredential) -> None:
        """Keep a row, or refresh the one of its key: data, expiry, accessed_at.

        access_count grows by one. Nothing is kept of a version that is not the credential's any more.
        """

    def forget_execution(self, execution_id: int) -> int:
        """Rows of one execution go. How many."""

    def forget_expired(self, limit: int = 1000) -> int:
        """Rows whose time is over go. How many."""

    # --- the record: credential_access ---

    def record(self, access: CredentialAccess) -> None:
        """Durable when it returns. Raises IdTakenError."""

    def accesses(
        self, *, limit: int, before: int = 0, name: str = "", execution_id: int | None = None
    ) -> Sequence[CredentialAccess]:
        """Return accesses of one credential or execution, newest first.

        They are older than the one with the id ``before``.
        """

    def forget_accesses(self, older_seconds: float, limit: int = 1000) -> int:
        """What was recorded longer ago goes. How many."""
