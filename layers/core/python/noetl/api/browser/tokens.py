"""Bearer tokens of a server over its API: list, make, remove."""

from __future__ import annotations

import math
import re

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.bodies import DeletedAnswer
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.local_tokens import LocalTokens, account_of
from noetl.api.http.problems import ForbiddenError
from noetl.api.http.route import Route
from noetl.domain.errors import ConflictError, InvalidInputError, NotFoundError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import TOKEN_SECONDS
from noetl.domain.text.timestamps import Timestamp, maybe_timestamp

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_PRIVATE = {"Cache-Control": "no-store"}


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to make. ``expires_in``: seconds from now on; at most a year and a day."""

    name: str
    scopes: list[str]
    expires_in: float = 90 * 86_400


class TokenView(msgspec.Struct, frozen=True):
    """A token without its secret.

    ``made_by``: the principal that made it over the API; empty: `noetl token add`, or the first start. ``expires_at`` null: never.
    ``expired``: it is refused. ``current``: the one that asks, or that the session stands for.
    """

    name: str
    scopes: list[str]
    made_at: Timestamp | None
    made_by: str
    expires_at: Timestamp | None
    expired: bool
    current: bool


class TokenPage(msgspec.Struct, frozen=True):
    """The tokens of a server.

    ``kept``: false where others admit callers, or everybody is admitted.
    """

    kept: bool
    tokens: list[TokenView]


class TokenMade(msgspec.Struct, frozen=True):
    """``token``: its text, which is shown this once."""

    name: str
    scopes: list[str]
    expires_at: Timestamp
    token: str


def list_all(deps: ApiDeps, request: Request) -> Answer:
    if deps.tokens is None:
        return Answer(200, TokenPage(False, []))
    now = deps.clock()
    found = [
        TokenView(
            one.name,
            list(one.scopes),
            maybe_timestamp(one.made_at),
            one.made_by,
            maybe_timestamp(one.expires_at),
            one.expires_at is not None and now >= one.expires_at,
            account_of(one.name) == request.principal.account,
        )
        for one in deps.tokens.entries()
    ]
    return Answer(200, TokenPage(True, found), headers=_PRIVATE)


def make(deps: ApiDeps, request: Request) -> Answer:
    """Make a token with at most the caller's scopes, which ends by itself.

    Raises InvalidInputError, and ForbiddenError for a scope that the caller has not.
    """
    body = parse.body(request, deps, TokenRequest)
    tokens = _tokens(deps)
    if not _NAME.fullmatch(body.name):
        raise InvalidInputError(
            f"{body.name[:40]!r} cannot be the name of a token",
            code="invalid_token_name",
            hint="1 to 64 letters, digits, and _ . @ - behind the first",
        )
    if not body.expires_in > 0:
        raise InvalidInputError("a token is valid for some seconds at least", code="invalid_token")
    if body.expires_in > TOKEN_SECONDS.value:
        found = math.ceil(min(body.expires_in, 2**53))
        raise exceeded(TOKEN_SECONDS, found, "the validity of the token", code="invalid_token")
    if missing := sorted(set(body.scopes) - request.principal.scopes):
        raise ForbiddenError(
            f"the caller has not the scope {missing[0][:40]!r}",
            hint="a token has at most the scopes of its maker; `noetl token add` on the server's machine makes any",
            details={"scope": missing[:5]},
        )
    deps.permit_token(body.name, body.scopes)
    made_by = request.principal.name
    token = tokens.add(body.name, body.scopes, seconds=body.expires_in, made_by=made_by)
    end = Timestamp(deps.clock() + body.expires_in)
    return Answer(201, TokenMade(body.name, sorted(set(body.scopes)), end, token), headers=_PRIVATE)


def remove(deps: ApiDeps, request: Request) -> Answer:
    """Remove a token with its sessions, but not the caller's own.

    Raises NotFoundError and ConflictError.
    """
    name = request.params["name"]
    tokens = _tokens(deps)
    if account_of(name) == request.principal.account:
        raise ConflictError(
            "a request cannot remove the token that it is made with",
            code="token_in_use",
            hint="remove it with another token, or with `noetl token remove` on the server's machine",
        )
    tokens.remove(name)
    return Answer(200, DeletedAnswer(name))


def _tokens(deps: ApiDeps) -> LocalTokens:
    if deps.tokens is None:
        raise NotFoundError(
            "this server keeps no tokens",
            code="token_not_found",
            hint="a deployment admits callers by IAM or by its identity provider; `noetl serve --no-auth` admits everybody",
        )
    return deps.tokens


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/tokens",
        "listTokens",
        "Bearer tokens of this server, by name; never their text.",
        "admin",
        list_all,
        {200: TokenPage},
        "tokens",
    ),
    Route(
        "POST",
        "/api/tokens",
        "createToken",
        "Make a token with at most the caller's scopes, and answer its text this once.",
        "admin",
        make,
        {201: TokenMade},
        "tokens",
        body=TokenRequest,
        refuses=(404,),
        logged=True,
    ),
    Route(
        "DELETE",
        "/api/tokens/{name}",
        "deleteToken",
        "Remove a token; it and its sessions are refused from now on. The caller's own is kept (409).",
        "admin",
        remove,
        {200: DeletedAnswer},
        "tokens",
        refuses=(409,),
        logged=True,
    ),
)
