"""The credential service: store, list, read, remove, and exchange for tokens.

What is kept is sealed by the cipher with the credential's name as associated data, so a row that was moved to another name does not open.
Reading uses the cache first (``auth_cache``): one copy per execution that asked, or one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.credentials.rules import OAUTH, check_credential, known_type
from noetl.domain.errors import ConflictError, InvalidInputError, NotFoundError
from noetl.domain.kinds import Credential
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import CREDENTIAL_BYTES
from noetl.domain.text.timestamps import Timestamp
from noetl.ports.cipher import Cipher
from noetl.ports.credential_store import (
    AccessAction,
    CachedCredential,
    CacheType,
    CredentialAccess,
    CredentialStore,
    StoredCredential,
)
from noetl.services.support.new_row_ids import with_new_id

CACHE_SECONDS = 3600.0
TOKEN_MARGIN = 60.0
"""A token is not used any more this long before it expires."""
SUGGESTED_FROM = 1000
ACCESS_SECONDS = 400 * 86_400.0
"""How long it is known who read what: a year, and time to look at it."""


class Token(msgspec.Struct, frozen=True):
    """A token of an authorization server.

    The access token, and for how many seconds it is valid.
    """

    value: str
    seconds: float


Exchange = Callable[[str, Mapping[str, Any]], Token]
"""(credential's name, its data) → a token. Raises TaskError(kind="auth") when the server refuses it, kind "connection" when none answers."""


@dataclass(frozen=True, slots=True)
class CredentialDeps:
    """Dependencies of the credential service.

    ``new_id``: a time-ordered number. ``cache_seconds``: how long a copy in the cache is good. ``rotation``: inside, the cipher seals
    with a new key and opens with the old ones as well.
    """

    store: CredentialStore
    cipher: Cipher
    exchange: Exchange
    new_id: Callable[[], int]
    cache_seconds: float = CACHE_SECONDS
    rotation: Callable[[], AbstractContextManager[None]] = nullcontext


class CredentialRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A credential to keep. ``data`` by type; ``description`` and ``tags`` are public."""

    name: str
    type: str
    data: dict[str, Any]
    description: str = ""
    tags: list[str] = []


class CredentialView(msgspec.Struct, frozen=True):
    """A credential as it is shown: never with its data unless that was asked for."""

    id: str
    name: str
    type: str
    description: str
    tags: list[str]
    version: int
    created_at: Timestamp
    updated_at: Timestamp
    created_by: str
    data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class CredentialAccessView(msgspec.Struct, frozen=True):
    """A recorded access to a credential.

    ``principal``: `worker` for tasks of a server's own threads.
    """

    id: str
    name: str
    action: AccessAction
    principal: str
    execution_id: str | None
    step: str
    at: Timestamp


def access_view(access: CredentialAccess) -> CredentialAccessView:
    execution = None if access.execution_id is None else str(access.execution_id)
    return CredentialAccessView(
        str(access.id),
        access.name,
        access.action,
        access.principal,
        execution,
        access.step,
        Timestamp(access.at),
    )


def keep_credential(
    request: CredentialRequest, principal: str, deps: CredentialDeps, key: str = ""
) -> tuple[CredentialView, bool]:
    """Create or replace a credential; return True for a new one.

    ``key``: of this request, which may be repeated: a repeat stores nothing again.

    Raises InvalidInputError, InfrastructureError, and ConflictError when the key was used for another wish.
    """
    check_credential(request.name, request.type, request.data)
    plain = codec.encode(request.data)
    if len(plain) > CREDENTIAL_BYTES.value:
        what = f"the credential {request.name!r}"
        remedy = "keep what its users need, and nothing else"
        raise exceeded(CREDENTIAL_BYTES, len(plain), what, code="invalid_credential", remedy=remedy)
    meta: dict[str, Any] = {"description": request.description, "tags": list(request.tags)}
    if key:
        kept_before = _kept_by(key, request, deps)
        if kept_before is not None:
            return view(kept_before), kept_before.version == 1
        meta["key"] = key
    sealed = deps.cipher.encrypt(plain, _identity(request.name))
    kept, fresh = with_new_id(
        deps.new_id,
        lambda drawn: deps.store.put(
            StoredCredential(drawn, request.name, request.type, sealed, meta, principal)
        ),
    )
    note_access(deps, request.name, "kept" if fresh else "replaced", principal)
    return view(kept), fresh


def _kept_by(key: str, request: CredentialRequest, deps: CredentialDeps) -> StoredCredential | None:
    """Return what the same request has kept already, unless it was replaced since.

    Raises ConflictError.
    """
    stored = deps.store.get(request.name)
    if stored is None or stored.meta.get("key") != key:
        return None
    shown = view(stored)
    same = (shown.type, shown.description, shown.tags) == (request.type, request.description, request.tags)
    if not same or open_credential(stored, deps) != request.data:
        raise ConflictError(
            f"another content of the credential {request.name!r} was kept under this Idempotency-Key",
            code="idempotency_key_reused",
            hint="another request needs another key",
        )
    return stored


def note_access(
    deps: CredentialDeps,
    name: str,
    action: AccessAction,
    principal: str,
    execution_id: int | None = None,
    step: str = "",
) -> None:
    """Record an access: who did what with a credential.

    A read is recorded before the credential is returned. Raises InfrastructureError.
    """
    with_new_id(
        deps.new_id,
        lambda drawn: deps.store.record(CredentialAccess(drawn, name, action, principal, execution_id, step)),
    )


def forget_old(store: CredentialStore) -> int:
    """Delete expired cached copies and old access records; return how many rows."""
    return store.forget_expired() + store.forget_accesses(ACCESS_SECONDS)


def find_credential(name: str, deps: CredentialDeps) -> StoredCredential:
    """Find a credential by name, else by id.

    Raises NotFoundError(code="credential_not_found") with what was probably meant.
    """
    found = _stored(name, deps)
    if found is not None:
        return found
    from noetl.dsl.diagnostics import did_you_mean

    known = [one.name for one in deps.store.entries(limit=SUGGESTED_FROM)]
    raise NotFoundError(
        f"there is no credential {name[:80]!r}",
        code="credential_not_found",
        hint=did_you_mean(
            name, known, "keep it first: `noetl credential add NAME --type TYPE --data-file FILE`"
        ),
    )


def _stored(name: str, deps: CredentialDeps) -> StoredCredential | None:
    found = deps.store.get(name)
    if found is None and name.isascii() and name.isdigit() and int(name[:20]) < 2**63:
        return deps.store.get_by_id(int(name))
    return found


def open_credential(stored: StoredCredential, deps: CredentialDeps) -> dict[str, Any]:
    """Return a credential's data as it was stored, for a caller that maintains it.

    Of a type that is exchanged, too, this is the secret itself.
    """
    try:
        found: dict[str, Any] = codec.decode(deps.cipher.decrypt(stored.sealed, _identity(stored.name)))
    except InvalidInputError as error:
        raise InvalidInputError(
            f"the credential {stored.name!r} cannot be opened: its key is gone, or its row was changed",
            code="credential_unreadable",
            hint=f"keep it again: noetl credential add {stored.name} --type {stored.type} --data-file FILE",
        ) from error
    return found


def list_credentials(
    deps: CredentialDeps, *, limit: int, after: str = "", type: str = ""
) -> Sequence[CredentialView]:
    """List credentials by name, without data."""
    return [view(one) for one in deps.store.entries(limit=limit, after=after, type=type)]


def remove_credential(name: str, principal: str, deps: CredentialDeps) -> StoredCredential:
    """Remove a credential with every cached copy. Raises NotFoundError."""
    found = find_credential(name, deps)
    deps.store.delete(found.name)
    note_access(deps, found.name, "removed", principal)
    return found


def view(stored: StoredCredential, data: dict[str, Any] | None = None) -> CredentialView:
    return CredentialView(
        str(stored.id),
        stored.name,
        stored.type,
        str(stored.meta.get("description", "")),
        list(stored.meta.get("tags", [])),
        stored.version,
        Timestamp(stored.created_at),
        Timestamp(stored.updated_at),
        stored.principal,
        msgspec.UNSET if data is None else data,
    )


def read_credential(
    name: str,
    deps: CredentialDeps,
    *,
    execution_id: int | None = None,
    parent_execution_id: int | None = None,
) -> Credential:
    """Read a credential with its data, from the cache when a copy is there.

    Of a type that is exchanged it returns the token, never the secret behind it. Raises NotFoundError, TaskError(kind="auth"),
    InfrastructureError.
    """
    return read_lasting(name, deps, execution_id=execution_id, parent_execution_id=parent_execution_id)[0]


def read_lasting(
    name: str,
    deps: CredentialDeps,
    *,
    execution_id: int | None = None,
    parent_execution_id: int | None = None,
) -> tuple[Credential, float]:
    """Read as ``read_credential``, with the seconds for which the result may be reused."""
    found = read_kept(name, deps, execution_id=execution_id, parent_execution_id=parent_execution_id)
    if found is None:
        find_credential(name, deps)
        raise NotFoundError(f"the credential {name[:80]!r} was kept just now", code="credential_not_found")
    return found


def read_kept(
    name: str,
    deps: CredentialDeps,
    *,
    execution_id: int | None = None,
    parent_execution_id: int | None = None,
) -> tuple[Credential, float] | None:
    """Read as ``read_lasting``; return None when there is no such credential.

    Raises TaskError(kind="auth"), InfrastructureError.
    """
    key = f"{name}:{'global' if execution_id is None else execution_id}"
    copy = _copy(key, deps)
    if copy is not None:
        return copy
    stored = _stored(name, deps)
    if stored is None:
        return None
    data = open_credential(stored, deps)
    kind, seconds = stored.type, deps.cache_seconds
    cache_type: CacheType = "secret"
    if known_type(kind) == OAUTH and "token_url" in data:
        token = deps.exchange(stored.name, data)
        kind, cache_type, data = "bearer", "token", {"token": token.value}
        seconds = min(max(token.seconds - TOKEN_MARGIN, 0.0), deps.cache_seconds)
    if seconds > 0:
        deps.store.cache(
            CachedCredential(
                key,
                stored.name,
                kind,
                cache_type,
                "global" if execution_id is None else "execution",
                deps.cipher.encrypt(codec.encode(data), _cached_identity(key)),
                execution_id,
                parent_execution_id,
                seconds,
                stored.version,
            )
        )
    return Credential(stored.name, kind, data), seconds


def _copy(key: str, deps: CredentialDeps) -> tuple[Credential, float] | None:
    """Read the cached copy. None, too, when rotations have dropped the key of a copy."""
    hit = deps.store.cached(key, deps.cache_seconds)
    if hit is None:
        return None
    try:
        data = codec.decode(deps.cipher.decrypt(hit.sealed, _cached_identity(key)))
    except InvalidInputError:
        return None
    return Credential(hit.name, hit.type, data), hit.expires_in


class ResealResult(msgspec.Struct, frozen=True):
    """Result of resealing.

    ``resealed``: how many. ``unreadable``: names of those that no key of this machine opens; they stayed as they were.
    """

    resealed: int
    unreadable: list[str] = []


def reseal(principal: str, deps: CredentialDeps) -> ResealResult:
    """Seal every credential again, with a new key where this machine manages the keys.

    Nothing is lost when it ends in the middle: run it again. A credential that is replaced meanwhile is sealed with the new key by the
    replacement.
    """
    count, after = 0, ""
    unreadable: list[str] = []
    with deps.rotation():
        while page := deps.store.entries(limit=100, after=after):
            for one in page:
                try:
                    plain = deps.cipher.decrypt(one.sealed, _identity(one.name))
                except InvalidInputError:
                    unreadable.append(one.name)
                    continue
                sealed = deps.cipher.encrypt(plain, _identity(one.name))
                if deps.store.reseal(one.name, one.version, sealed):
                    count += 1
                    note_access(deps, one.name, "resealed", principal)
            after = page[-1].name
    return ResealResult(count, unreadable)


def _identity(name: str) -> Mapping[str, str]:
    return {"purpose": "credential", "namespace": "default", "name": name}


def _cached_identity(key: str) -> Mapping[str, str]:
    return {"purpose": "auth_cache", "key": key}
