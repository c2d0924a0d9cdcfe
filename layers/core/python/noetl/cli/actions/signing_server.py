"""The web UI of a deployment, served on the operator's machine with signed requests.

A browser has no AWS credentials. This server has those of the client context, listens on loopback, and admits the pages of its own
sessions alone, by the rules of ``noetl serve``.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

from urllib3.exceptions import HTTPError

from noetl.api.browser.sessions import SessionAnswer, SessionEnded, SessionRequest
from noetl.api.http.access import SCOPES, check_scope
from noetl.api.http.asgi import make_application
from noetl.api.http.browser_sessions import CSRF, BrowserSessions, Session
from noetl.api.http.exchange import Answer, Principal, Request
from noetl.api.http.problems import UnauthenticatedError, problem
from noetl.api.http.routing import Router
from noetl.api.http.ui_files import UiFiles
from noetl.api.table import ROUTES
from noetl.cli.client.http_client import Send, transport
from noetl.cli.client.profiles import Context
from noetl.cli.client.signing import Sign, signer
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.domain.text.timestamps import Timestamp
from noetl.runtime.server.http_server import listen
from noetl.runtime.server.request_threads import RequestThreads
from noetl.runtime.server.ui_build import ui_folder

HOST = "127.0.0.1"
SESSION = "/api/session"
THREADS = 8
ANSWERING_SECONDS = 5.0
_OPERATOR = Principal("operator", "local", "operator", SCOPES - {"worker"})
_PRIVATE = {"Cache-Control": "no-store"}
_PASSED_ON = ("accept", "content-type", "idempotency-key", "if-match", "if-none-match", "last-event-id")
_PASSED_BACK = (
    "Allow",
    "Cache-Control",
    "Content-Disposition",
    "ETag",
    "Location",
    "Retry-After",
    "X-Request-Id",
)
_ROUTER = Router(ROUTES)
_PLAIN = re.compile(r"(?:[\w\-.~!$&'()*+,;=:@/]|%[0-9a-fA-F]{2})+", re.ASCII)
"""A path that HTTP clients send as it is."""


class _Operator:
    """The one account: whose credentials sign."""

    def of_account(self, account: str) -> Principal | None:
        return _OPERATOR


class SigningServer:
    """Answers the pages of the UI.

    ``send`` is replaced in tests; ``folder``: where sessions are kept.
    """

    def __init__(
        self, context: Context, folder: Path, *, sign: Sign | None = None, send: Send | None = None
    ) -> None:
        """Raises what ``signer`` raises."""
        self._context = context
        self._sign = sign or signer(context)
        self._send = send or transport(context.url)
        self._files = UiFiles(ui_folder())
        self._sessions = BrowserSessions(folder / "sessions.json", _Operator(), time.time)

    def code(self, scopes: frozenset[str]) -> str:
        """Make a code for one session with these scopes; none: all that the credentials have."""
        return self._sessions.code(_OPERATOR, scopes or _OPERATOR.scopes)

    def handle(self, request: Request) -> Answer:
        """Answer a request. Never raises."""
        try:
            return self._files.answer(request) or self._answer(request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return problem(error, request_id=request.request_id, instance=request.path)

    def _answer(self, request: Request) -> Answer:
        _check_path(request.path)
        if not request.path.startswith("/api/") and request.path != "/health":
            raise _no_route(request.path)
        if (request.method, request.path) == ("POST", SESSION):
            return self._begin(request)
        found = self._sessions.find(request.headers)
        if found is None:
            raise UnauthenticatedError(
                "the request has no session", hint=f"noetl ui --context {self._context.name} begins one"
            )
        session, principal = found
        if request.path == SESSION:
            return self._end(session, request) if request.method == "DELETE" else self._who(session, request)
        # A session may have fewer scopes than the credentials; the API checks those of the credentials.
        route = _ROUTER.find("GET" if request.method == "HEAD" else request.method, request.path)
        if route is None:
            raise _no_route(request.path)
        check_scope(principal, route[0].scope)
        return self._pass_on(request)

    def _begin(self, request: Request) -> Answer:
        try:
            session_request = codec.decoder(SessionRequest).decode(request.body)
        except ValueError as error:
            raise InvalidInputError(f"the body is no code: {error}", code="bad_request") from error
        made = self._sessions.open(session_request.code, request.headers)
        body = self._seen(made.session, made.csrf)
        return Answer(200, body, headers={**_PRIVATE, "Set-Cookie": made.header})

    def _who(self, session: Session, request: Request) -> Answer:
        return Answer(200, self._seen(session, request.headers.get(CSRF, "")), headers=_PRIVATE)

    def _seen(self, session: Session, csrf: str) -> SessionAnswer:
        """Return the session as the API sees its credentials, with at most the session's scopes."""
        status, _, data = self._ask("GET", SESSION, {"Accept": "application/json"}, None)
        if status != 200:
            raise InfrastructureError(
                f"{self._context.name} ({self._context.url}) refuses the credentials ({status})",
                code="server_refused",
                hint="may they call the API (execute-api:Invoke)? aws sts get-caller-identity",
                retryable=False,
            )
        about = codec.decoder(SessionAnswer).decode(data)
        scopes = sorted(set(about.scopes) & set(session.scopes))
        return SessionAnswer(csrf, scopes, about.principal, Timestamp(session.expires))

    def _end(self, session: Session, request: Request) -> Answer:
        self._sessions.end(session.id)
        cookie = self._sessions.forget_cookie(request.headers)
        return Answer(200, SessionEnded(session.id, True), headers={**_PRIVATE, "Set-Cookie": cookie})

    def _pass_on(self, request: Request) -> Answer:
        headers = {name.title(): request.headers[name] for name in _PASSED_ON if request.headers.get(name)}
        words = urlencode(request.query, quote_via=quote, errors="surrogatepass")
        path = f"{request.path}?{words}" if words else request.path
        status, shown, data = self._ask(request.method, path, headers, request.body or None)
        return Answer(
            status,
            headers={name: shown[name] for name in _PASSED_BACK if name in shown},
            content_type=shown.get("Content-Type", "application/json"),
            content=(data,),
        )

    def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Ask the deployment, signed. Raises InfrastructureError when no API answers."""
        url = f"{self._context.url}{path}"
        try:
            reply = self._send(method, url, self._sign(method, url, headers, body), body)
            return reply.status, reply.headers, reply.data
        except HTTPError as error:
            raise InfrastructureError(
                f"{self._context.name} ({self._context.url}) does not answer", code="server_unreachable"
            ) from error


def _no_route(path: str) -> NotFoundError:
    return NotFoundError(f"there is nothing at {path[:200]}", code="route_not_found")


def _check_path(path: str) -> None:
    """Refuse a path that may arrive as another one than the path whose scope is checked."""
    segments = unquote(path).replace("\\", "/").split("/")
    if not _PLAIN.fullmatch(path) or "." in segments or ".." in segments:
        raise InvalidInputError(
            f"the path {path[:200]!r} can mean another one",
            code="bad_request",
            hint="leave out segments . and .., and percent-encode what is not plain",
        )


@contextmanager
def serving(context: Context, port: int, scopes: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Serve the UI while the context is open; yield its address and a code for one session.

    Raises InfrastructureError for a port that is taken, a UI that is not built, and credentials that are missing.
    """
    if not (ui_folder() / "index.html").is_file():
        raise InfrastructureError(
            "the web UI is not built", code="ui_not_built", hint="make ui, in the checkout", retryable=False
        )
    with tempfile.TemporaryDirectory(prefix="noetl-ui-") as folder:
        server = SigningServer(context, Path(folder))
        threads = RequestThreads(THREADS)
        http = listen(make_application(server.handle, threads), HOST, port, threads)
        running = threading.Thread(target=http.run, name="noetl-ui", daemon=True)
        running.start()
        try:
            yield f"http://{HOST}:{http.port}", server.code(scopes)
        finally:
            http.close(ANSWERING_SECONDS)
            running.join(timeout=ANSWERING_SECONDS + 5.0)
