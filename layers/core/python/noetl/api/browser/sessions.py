"""Sessions of browsers over the API: a code for a token, a session for a code."""

from __future__ import annotations

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.access import LOCAL, SCOPES
from noetl.api.http.browser_sessions import CODE_SECONDS, CSRF, BrowserSessions, Session
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import ForbiddenError, UnauthenticatedError
from noetl.api.http.route import Route
from noetl.domain.errors import InvalidInputError, NotFoundError
from noetl.domain.text.timestamps import Timestamp


class CodeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``scopes``: those of the session; none: all of the token but ``worker``."""

    scopes: list[str]


class CodeAnswer(msgspec.Struct, frozen=True):
    """A code that signs a browser in once.

    ``code``: trade it at ``POST /api/session`` before ``expires_at``; empty where no session is needed.
    """

    code: str
    scopes: list[str]
    expires_at: Timestamp | None


class SessionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: str


class SessionAnswer(msgspec.Struct, frozen=True):
    """The session of a browser.

    ``csrf``: send it as ``X-CSRF-Token`` with every request of the session; empty where there is no session.
    """

    csrf: str
    scopes: list[str]
    principal: str
    expires_at: Timestamp | None


class SessionView(msgspec.Struct, frozen=True):
    """``current``: the one that asks. ``seen_at``: its last request, within five minutes."""

    id: str
    account: str
    scopes: list[str]
    began_at: Timestamp
    seen_at: Timestamp
    expires_at: Timestamp
    current: bool


class SessionPage(msgspec.Struct, frozen=True):
    sessions: list[SessionView]


class SessionEnded(msgspec.Struct, frozen=True):
    id: str
    ended: bool


_PRIVATE = {"Cache-Control": "no-store"}


def make_code(deps: ApiDeps, request: Request) -> Answer:
    body = parse.body(request, deps, CodeRequest)
    wanted = frozenset(body.scopes) or SCOPES - {"worker"}
    if unknown := sorted(wanted - SCOPES):
        raise InvalidInputError(
            f"there is no scope {unknown[0][:40]!r}",
            code="unknown_scope",
            hint=f"scopes are {', '.join(sorted(SCOPES))}",
        )
    scopes = sorted(wanted & request.principal.scopes)
    if request.principal == LOCAL:
        return Answer(200, CodeAnswer("", scopes, None), headers=_PRIVATE)
    if not scopes:
        raise ForbiddenError("the caller has none of these scopes", details={"scope": sorted(wanted)[:5]})
    if _session(deps, request) is not None:
        raise ForbiddenError(
            "a session makes no code for another one",
            code="token_needed",
            hint="`noetl ui` asks with a token",
        )
    sessions = _sessions(deps)
    code = sessions.code(request.principal, frozenset(scopes), request.user())
    return Answer(200, CodeAnswer(code, scopes, Timestamp(deps.clock() + CODE_SECONDS)), headers=_PRIVATE)


def begin(deps: ApiDeps, request: Request) -> Answer:
    session_request = parse.body(request, deps, SessionRequest)
    made = _sessions(deps).open(session_request.code, request.headers, request.user)
    session = made.session
    body = SessionAnswer(made.csrf, list(session.scopes), session.account, Timestamp(session.expires))
    return Answer(200, body, headers={**_PRIVATE, "Set-Cookie": made.header})


def get(deps: ApiDeps, request: Request) -> Answer:
    """Return the caller's principal, with a session or without."""
    principal = request.principal
    if not principal.name:
        raise UnauthenticatedError("the request has no session", hint="`noetl ui` begins one")
    session = _session(deps, request)
    if session is None:
        body = SessionAnswer("", sorted(principal.scopes), principal.name, None)
    else:
        csrf = request.headers.get(CSRF, "")
        body = SessionAnswer(csrf, sorted(principal.scopes), principal.name, Timestamp(session.expires))
    return Answer(200, body, headers=_PRIVATE)


def end(deps: ApiDeps, request: Request) -> Answer:
    if deps.sessions is None:
        raise UnauthenticatedError("the request has no session")
    session = deps.sessions.current(request.headers)
    deps.sessions.end(session.id)
    cookie = deps.sessions.forget_cookie(request.headers)
    return Answer(200, SessionEnded(session.id, True), headers={**_PRIVATE, "Set-Cookie": cookie})


def list_all(deps: ApiDeps, request: Request) -> Answer:
    if deps.sessions is None:
        return Answer(200, SessionPage([]))
    own = _session(deps, request)
    found = [
        SessionView(
            one.id,
            one.account,
            list(one.scopes),
            Timestamp(one.began),
            Timestamp(one.seen),
            Timestamp(one.expires),
            own is not None and own.id == one.id,
        )
        for one in deps.sessions.entries()
    ]
    return Answer(200, SessionPage(found))


def revoke(deps: ApiDeps, request: Request) -> Answer:
    session_id = request.params["session_id"]
    _sessions(deps).end(session_id)
    return Answer(200, SessionEnded(session_id, True))


def _session(deps: ApiDeps, request: Request) -> Session | None:
    """Find the session that a request is made in; a request with a token is made in none."""
    # An empty header counts as none, as where the caller is found.
    if deps.sessions is None or request.headers.get("authorization"):
        return None
    found = deps.sessions.find(request.headers)
    return None if found is None else found[0]


def _sessions(deps: ApiDeps) -> BrowserSessions:
    if deps.sessions is None:
        raise NotFoundError(
            "this deployment keeps no sessions",
            code="session_not_found",
            hint="sign in as the deployment's authentication says; a server without tokens needs no session",
        )
    return deps.sessions


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/session/codes",
        "createSessionCode",
        "Make a code that begins one session of a browser within 60 seconds, with at most the caller's scopes.",
        "read",
        make_code,
        {200: CodeAnswer},
        "sessions",
        body=CodeRequest,
        logged=True,
    ),
    Route(
        "POST",
        "/api/session",
        "beginSession",
        "Trade a code, once, for a cookie and the value that the page sends with it.",
        None,
        begin,
        {200: SessionAnswer},
        "sessions",
        body=SessionRequest,
        refuses=(400, 403, 422),
    ),
    Route(
        "GET",
        "/api/session",
        "getSession",
        "Who asks, with which scopes, and until when.",
        None,
        get,
        {200: SessionAnswer},
        "sessions",
        refuses=(401, 403),
    ),
    Route(
        "DELETE",
        "/api/session",
        "endSession",
        "End the session of the cookie.",
        None,
        end,
        {200: SessionEnded},
        "sessions",
        refuses=(401, 403, 404),
    ),
    Route(
        "GET",
        "/api/sessions",
        "listSessions",
        "Sessions that are not over, the newest first; never their cookies.",
        "admin",
        list_all,
        {200: SessionPage},
        "sessions",
    ),
    Route(
        "DELETE",
        "/api/sessions/{session_id}",
        "revokeSession",
        "End a session; its next request is refused.",
        "admin",
        revoke,
        {200: SessionEnded},
        "sessions",
        logged=True,
    ),
)
