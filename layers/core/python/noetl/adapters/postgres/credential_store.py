"""Credentials in Postgres."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions.unreadable_rows import moment, report
from noetl.adapters.postgres.literals import number, text, texts
from noetl.domain import codec
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.credential_store import (
    AccessAction,
    CachedCredential,
    CacheType,
    CredentialAccess,
    ScopeType,
    StoredCredential,
)
from noetl.ports.executions.execution_store import VersionConflictError
from noetl.ports.new_ids import IdTakenError


class PostgresCredentialStore:
    """``database``: a connection string, or a Database shared with other adapters."""

    def __init__(self, database: str | Database, *, pooled: bool = False) -> None:
        self._database = Database(database, pooled=pooled) if isinstance(database, str) else database

    def close(self) -> None:
        self._database.close()

    def put(self, credential: StoredCredential) -> tuple[StoredCredential, bool]:
        values: dict[str, bytes | None] = {
            "name": text(credential.name),
            "id": number(credential.id),
            "type": text(credential.type),
            "sealed": base64.b64encode(credential.sealed),
            "meta": codec.encode(credential.meta),
            "principal": text(credential.principal),
        }
        try:
            row = self._database.run("put_credential", values)[0]
        except VersionConflictError as conflict:
            raise IdTakenError(credential.id) from conflict
        return _credential(row[:-1]), row[-1] == b"t"

    def get(self, name: str) -> StoredCredential | None:
        rows = self._database.run("credential", {"name": text(name)})
        return _credential(rows[0]) if rows else None

    def get_by_id(self, credential_id: int) -> StoredCredential | None:
        rows = self._database.run("credential_by_id", {"id": number(credential_id)})
        return _credential(rows[0]) if rows else None

    def entries(self, *, limit: int, after: str = "", type: str = "") -> Sequence[StoredCredential]:
        values = {"after": text(after), "type": text(type), "limit": number(limit)}
        return [_credential(row) for row in self._database.run("list_credentials", values)]

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        rows = self._database.run("credential_types", {"names": texts(list(names))})
        return {(name or b"").decode(): (kind or b"").decode() for name, kind in rows}

    def reseal(self, name: str, version: int, sealed: bytes) -> bool:
        values: dict[str, bytes | None] = {
            "name": text(name),
            "version": number(version),
            "sealed": base64.b64encode(sealed),
        }
        return bool(self._database.run("reseal_credential", values))

    def delete(self, name: str) -> bool:
        return bool(self._database.run("delete_credential", {"name": text(name)}))

    def cached(self, key: str, renew_seconds: float | None = None) -> CachedCredential | None:
        renew = None if renew_seconds is None else number(renew_seconds)
        rows = self._database.run("cached_credential", {"key": text(key), "renew": renew})
        return _cached(rows[0]) if rows else None

    def cache(self, row: CachedCredential) -> None:
        values: dict[str, bytes | None] = {
            "key": text(row.key),
            "name": text(row.name),
            "version": number(row.version),
            "type": text(row.type),
            "cache_type": text(row.cache_type),
            "scope": text(row.scope),
            "execution_id": None if row.execution_id is None else number(row.execution_id),
            "parent": None if row.parent_execution_id is None else number(row.parent_execution_id),
            "sealed": base64.b64encode(row.sealed),
            "seconds": number(row.expires_in),
        }
        self._database.run("cache_credential", values)

    def forget_execution(self, execution_id: int) -> int:
        rows = self._database.run("forget_cached_execution", {"execution_id": number(execution_id)})
        return int(rows[0][0] or 0)

    def forget_expired(self, limit: int = 1000) -> int:
        return int(self._database.run("forget_expired_credentials", {"limit": number(limit)})[0][0] or 0)

    def record(self, access: CredentialAccess) -> None:
        values = {
            "id": number(access.id),
            "name": text(access.name),
            "action": text(access.action),
            "principal": text(access.principal),
            "execution_id": None if access.execution_id is None else number(access.execution_id),
            "step": text(access.step) if access.step else None,
        }
        try:
            self._database.run("record_credential_access", values)
        except VersionConflictError as conflict:
            raise IdTakenError(access.id) from conflict

    def accesses(
        self, *, limit: int, before: int = 0, name: str = "", execution_id: int | None = None
    ) -> Sequence[CredentialAccess]:
        values = {
            "limit": number(limit),
            "before": number(before),
            "name": text(name),
            "execution_id": None if execution_id is None else number(execution_id),
        }
        return [_access(row) for row in self._database.run("credential_accesses", values)]

    def forget_accesses(self, older_seconds: float, limit: int = 1000) -> int:
        values = {"seconds": number(older_seconds), "limit": number(limit)}
        return int(self._database.run("forget_credential_accesses", values)[0][0] or 0)


def _credential(row: Row) -> StoredCredential:
    identity, name, kind, sealed, meta, principal, version, created, updated = (
        column or b"" for column in row
    )
    return StoredCredential(
        int(identity),
        name.decode(),
        kind.decode(),
        base64.b64decode(sealed),
        _described(meta, name.decode()),
        principal.decode(),
        int(version),
        moment(created, f"the beginning of credential {name.decode()}") or 0.0,
        moment(updated, f"the last change of credential {name.decode()}") or 0.0,
    )


def _described(meta: bytes, name: str) -> dict[str, Any]:
    """Decode what is public of a credential; of what cannot be read, the description says so."""
    found = attempt(lambda: _mapping(meta), f"the description of credential {name}")
    if isinstance(found, Unreadable):
        report(found)
        return {"description": str(found)}
    return found


def _mapping(meta: bytes) -> dict[str, Any]:
    """Raises ValueError for another shape."""
    found = codec.decode(meta)
    if not isinstance(found, dict) or not isinstance(found.get("description", ""), str):
        raise ValueError("it is not a mapping with a text as description")
    tags = found.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("its tags are not a list of texts")
    return found


def _cached(row: Row) -> CachedCredential:
    key, name, kind, cache_type, scope, sealed, execution_id, parent, left, count = row
    return CachedCredential(
        (key or b"").decode(),
        (name or b"").decode(),
        (kind or b"").decode(),
        cast(CacheType, (cache_type or b"").decode()),
        cast(ScopeType, (scope or b"").decode()),
        base64.b64decode(sealed or b""),
        None if execution_id is None else int(execution_id),
        None if parent is None else int(parent),
        float(left or 0),
        access_count=int(count or 0),
    )


def _access(row: Row) -> CredentialAccess:
    identity, name, action, principal, execution_id, step, at = row
    return CredentialAccess(
        int(identity or 0),
        (name or b"").decode(),
        cast(AccessAction, (action or b"").decode()),
        (principal or b"").decode(),
        None if execution_id is None else int(execution_id),
        (step or b"").decode(),
        moment(at, f"the moment of access {int(identity or 0)} to a credential") or 0.0,
    )
