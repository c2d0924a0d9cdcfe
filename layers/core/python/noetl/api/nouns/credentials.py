"""Routes of credentials: stored sealed; only a worker or an administrator gets the data."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, parse
from noetl.api.http.bodies import CredentialAccessPage, CredentialDeletedAnswer, CredentialPage
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import ForbiddenError
from noetl.api.http.route import AFTER, FLAG, Parameter, Route, limit
from noetl.api.nouns.keychain import as_ours
from noetl.domain.errors import TaskError
from noetl.services.credentials.credentials import (
    CredentialRequest,
    CredentialView,
    ResealResult,
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
    body = parse.body(request, deps, CredentialRequest)
    key = parse.idempotency_key(request)
    made, fresh = keep_credential(body, request.principal.name, deps.credentials, key)
    return Answer(201 if fresh else 200, made, headers=_PRIVATE)


def list_all(deps: ApiDeps, request: Request) -> Answer:
    limit = parse.limit(request, _PAGE, _MOST)
    found = list_credentials(
        deps.credentials, limit=limit, after=parse.text_cursor(request), type=request.query.get("type", "")
    )
    more = parse.cursor_text(found[-1].name) if len(found) == limit else None
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
    limit = parse.limit(request, _PAGE, _MOST)
    cursor = parse.text_cursor(request)
    if cursor and not (cursor.isascii() and cursor.isdigit() and int(cursor[:20]) < 2**63):
        raise parse.bad_cursor(request.query["after"])
    found = deps.credentials.store.accesses(
        limit=limit,
        before=int(cursor or 0),
        name=request.query.get("name", ""),
        execution_id=parse.maybe_execution_id(request, "execution_id"),
    )
    more = parse.cursor_text(str(found[-1].id)) if len(found) == limit else None
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
        parse.flag(request, "include_data"),
        parse.maybe_execution_id(request, "execution_id"),
        parse.maybe_execution_id(request, "parent_execution_id"),
    )


_ID = {"type": "string", "pattern": "^[0-9]+$"}
_ONE = "/api/credentials/{name+}"

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/credentials",
        "putCredential",
        "Keep a credential, or replace the one of this name. It is sealed before it is stored, and never shown in lists.",
        "admin",
        put,
        {201: CredentialView, 200: CredentialView},
        "credentials",
        body=CredentialRequest,
        keyed=True,
    ),
    Route(
        "POST",
        "/api/credentials/reseal",
        "resealCredentials",
        "Seal every credential again: with a new key of this machine, or with the deployment's key as it is now.",
        "admin",
        reseal_all,
        {200: ResealResult},
        "credentials",
    ),
    Route(
        "GET",
        "/api/access/credentials",
        "listCredentialAccesses",
        "Who kept, replaced, removed, sealed again or read which credential, newest first.",
        "admin",
        list_accesses,
        {200: bodies.CredentialAccessPage},
        "credentials",
        query=(
            AFTER,
            limit(100, 500),
            Parameter("name", "Only of this credential."),
            Parameter("execution_id", "Only of this execution.", _ID),
        ),
    ),
    Route(
        "GET",
        "/api/credentials",
        "listCredentials",
        "Credentials by name, without their data.",
        "read",
        list_all,
        {200: bodies.CredentialPage},
        "credentials",
        query=(AFTER, limit(100, 500), Parameter("type", "Only credentials of this type.")),
    ),
    Route(
        "GET",
        _ONE,
        "getCredential",
        "A credential by name or id. The scopes worker and admin alone can read its data, and only on request.",
        "read",
        get,
        {200: CredentialView},
        "credentials",
        query=(
            Parameter("include_data", "true: with the secret itself.", FLAG),
            Parameter("execution_id", "The execution it is for: the cached copy goes with it.", _ID),
            Parameter("parent_execution_id", "Its parent, for the record.", _ID),
        ),
    ),
    Route(
        "DELETE",
        _ONE,
        "deleteCredential",
        "Remove a credential with every cached copy of it.",
        "admin",
        delete,
        {200: bodies.CredentialDeletedAnswer},
        "credentials",
    ),
)
