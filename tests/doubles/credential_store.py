"""Credentials in memory: the same promises as Postgres, for tests and the simulator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from noetl.ports.credential_store import CachedCredential, CredentialAccess, StoredCredential
from noetl.ports.new_ids import IdTakenError


class MemoryCredentialStore:
    """``clock``: epoch seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, StoredCredential] = {}
        self._cached: dict[str, tuple[float, CachedCredential]] = {}
        self._accesses: list[CredentialAccess] = []

    def put(self, credential: StoredCredential) -> tuple[StoredCredential, bool]:
        with self._lock:
            now, old = self._clock(), self._known.get(credential.name)
            if old is None and any(one.id == credential.id for one in self._known.values()):
                raise IdTakenError(credential.id)
            kept = replace(
                credential,
                id=old.id if old else credential.id,
                version=old.version + 1 if old else 1,
                created_at=old.created_at if old else now,
                updated_at=now,
            )
            self._known[credential.name] = kept
            self._forget(lambda row: row.name == credential.name)
            return kept, old is None

    def get(self, name: str) -> StoredCredential | None:
        with self._lock:
            return self._known.get(name)

    def get_by_id(self, credential_id: int) -> StoredCredential | None:
        with self._lock:
            return next((one for one in self._known.values() if one.id == credential_id), None)

    def entries(self, *, limit: int, after: str = "", type: str = "") -> Sequence[StoredCredential]:
        with self._lock:
            names = sorted(name for name in self._known if name > after)
            found = [self._known[name] for name in names]
            return [one for one in found if not type or one.type == type][:limit]

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        with self._lock:
            return {name: self._known[name].type for name in names if name in self._known}

    def reseal(self, name: str, version: int, sealed: bytes) -> bool:
        with self._lock:
            known = self._known.get(name)
            if known is None or known.version != version:
                return False
            self._known[name] = replace(known, sealed=sealed)
            return True

    def delete(self, name: str) -> bool:
        with self._lock:
            self._forget(lambda row: row.name == name)
            return self._known.pop(name, None) is not None

    def cached(self, key: str, renew_seconds: float | None = None) -> CachedCredential | None:
        with self._lock:
            now = self._clock()
            until, row = self._cached.get(key, (0.0, None))
            if row is None or until <= now or not self._is_current(row):
                return None
            if renew_seconds is not None and row.cache_type == "secret":
                until = now + renew_seconds
            row = replace(row, access_count=row.access_count + 1, expires_in=until - now)
            self._cached[key] = (until, row)
            return row

    def cache(self, row: CachedCredential) -> None:
        with self._lock:
            if not self._is_current(row):
                return
            _, old = self._cached.get(row.key, (0.0, None))
            count = old.access_count + 1 if old else 0
            self._cached[row.key] = (self._clock() + row.expires_in, replace(row, access_count=count))

    def forget_execution(self, execution_id: int) -> int:
        with self._lock:
            return self._forget(lambda row: row.execution_id == execution_id)

    def forget_expired(self, limit: int = 1000) -> int:
        with self._lock:
            now = self._clock()
            old = [key for key, (until, _) in self._cached.items() if until <= now][:limit]
            for key in old:
                del self._cached[key]
            return len(old)

    def record(self, access: CredentialAccess) -> None:
        with self._lock:
            if any(one.id == access.id for one in self._accesses):
                raise IdTakenError(access.id)
            self._accesses.append(replace(access, at=self._clock()))

    def accesses(
        self, *, limit: int, before: int = 0, name: str = "", execution_id: int | None = None
    ) -> Sequence[CredentialAccess]:
        with self._lock:
            found = [
                one
                for one in self._accesses
                if (not before or one.id < before)
                and (not name or one.name == name)
                and execution_id in (None, one.execution_id)
            ]
        return sorted(found, key=lambda one: -one.id)[:limit]

    def forget_accesses(self, older_seconds: float, limit: int = 1000) -> int:
        with self._lock:
            until = self._clock() - older_seconds
            gone = [one for one in self._accesses if one.at < until][:limit]
            self._accesses = [one for one in self._accesses if one not in gone]
            return len(gone)

    def _is_current(self, row: CachedCredential) -> bool:
        known = self._known.get(row.name)
        return known is not None and known.version == row.version

    def _forget(self, which: Callable[[CachedCredential], bool]) -> int:
        gone = [key for key, (_, row) in self._cached.items() if which(row)]
        for key in gone:
            del self._cached[key]
        return len(gone)
