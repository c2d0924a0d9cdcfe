"""Credentials over the API: kept sealed, shown without their data unless a worker or an administrator asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.api import reading
from noetl.api.bodies import CredentialAccessPage, CredentialDeletedAnswer, CredentialPage
from noetl.api.deps import ApiDeps
from noetl.api.endpoints.keychain import as_ours
from noetl.api.exchange import Answer, Request
from noetl.api.problems import ForbiddenError
from noetl.domain.errors import TaskError
from noetl.services.manage_credentials import (
    CredentialWish,
    access_view,
    find_credential,
    keep_credential,
    list_credentials,
    note_access,
    read_credential,
    remove_credential,
    reseal,
    view,
)

_PAGE, _MOST = 100, 500
SECRET_SCOPES = frozenset({"admin", "worker"})


def put(deps: ApiDeps, request: Request) -> Answer:
    """201 for a new one, 200 when one of this name was replaced."""
    wish = reading.body(request, deps, CredentialWish)
    key = reading.idempotency_key(request)
    made, fresh = keep_credential(wish, request.principal.name, deps.credentials, key)
    return Answer(201 if fresh else 200, made, headers=_PRIVATE)


def list_all(deps: ApiDeps, request: Request) -> Answer:
    limit = reading.limit(request, _PAGE, _MOST)
    found = list_credentials(
        deps.credentials, limit=limit, after=reading.text_cursor(request), type=request.query.get("type", "")
    )
    more = reading.cursor_text(found[-1].name) if len(found) == limit else None
    return Answer(200, CredentialPage(list(found), more))


def get(deps: ApiDeps, request: Request) -> Answer:
    """With ``include_data`` the secret itself, from the cache where a copy is."""
    name = request.params["name"]
    wanted = _data_wanted(request)
    stored = find_credential(name, deps.credentials)
    if not wanted.data:
        return Answer(200, view(stored))
    if not request.principal.scopes & SECRET_SCOPES:
        raise ForbiddenError(
            "a credential's data needs the scope worker or admin",
            hint="ask without include_data",
            details={"scope": "worker"},
        )
    try:
        found = read_credential(
            stored.name,
            deps.credentials,
            execution_id=wanted.execution_id,
            parent_execution_id=wanted.parent_execution_id,
        )
    except TaskError as refused:
        raise as_ours(refused) from refused
    note_access(deps.credentials, stored.name, "read", request.principal.name, wanted.execution_id)
    shown = view(stored, dict(found.data))
    return Answer(200, shown, headers=_PRIVATE)


def reseal_all(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, reseal(request.principal.name, deps.credentials))


def list_accesses(deps: ApiDeps, request: Request) -> Answer:
    """Who did what; never what is in a credential."""
    limit = reading.limit(request, _PAGE, _MOST)
    cursor = reading.text_cursor(request)
    if cursor and not (cursor.isascii() and cursor.isdigit() and int(cursor[:20]) < 2**63):
        raise reading.bad_cursor(request.query["after"])
    found = deps.credentials.store.accesses(
        limit=limit,
        before=int(cursor or 0),
        name=request.query.get("name", ""),
        execution_id=reading.maybe_execution_id(request, "execution_id"),
    )
    more = reading.cursor_text(str(found[-1].id)) if len(found) == limit else None
    return Answer(200, CredentialAccessPage([access_view(one) for one in found], more))


def delete(deps: ApiDeps, request: Request) -> Answer:
    gone = remove_credential(request.params["name"], request.principal.name, deps.credentials)
    return Answer(200, CredentialDeletedAnswer(gone.name, str(gone.id), True))


_PRIVATE = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class _Wanted:
    data: bool
    execution_id: int | None
    parent_execution_id: int | None


def _data_wanted(request: Request) -> _Wanted:
    return _Wanted(
        reading.flag(request, "include_data"),
        reading.maybe_execution_id(request, "execution_id"),
        reading.maybe_execution_id(request, "parent_execution_id"),
    )
