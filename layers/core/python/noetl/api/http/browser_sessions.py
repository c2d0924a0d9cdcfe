"""Sessions of browsers: a one-minute code is traded once for a cookie and a page's value.

The value proves which page uses the cookie.

Cookies are shared by all ports of a host, so a cookie alone proves nothing: every request shows its page's value as well, comes from a page
of this very origin, and names this very host. Digests alone are kept.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from noetl.adapters.embedded.locked import locked
from noetl.api.http.exchange import Principal
from noetl.api.http.local_tokens import write_private
from noetl.api.http.problems import ForbiddenError, UnauthenticatedError
from noetl.api.http.same_origin import LOOPBACK, host_name
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, NotFoundError

CODE_SECONDS = 60.0
IDLE_SECONDS = 12 * 3600.0
LIFE_SECONDS = 7 * 24 * 3600.0
SEEN_SECONDS = 300.0
"""How old the kept moment of a session's last request may be."""
MOST_CODES = 100
"""Codes that wait to be traded; a further one makes the oldest useless, of the account that has most."""
MOST_SESSIONS = 1000
"""Sessions that are kept; a further one ends the one that was idle longest, of the account that has most."""
CSRF = "x-csrf-token"
COOKIE = "noetl_session"
_BITS = 32


class Session(msgspec.Struct, frozen=True):
    """A session of a browser.

    ``id`` is public; ``cookie`` and ``csrf`` are digests. ``account``: who made it. ``began``, ``seen``: epoch seconds.
    ``token``: of the principal; a token that is made later under the same name is another one.
    """

    id: str
    cookie: str
    csrf: str
    account: str
    scopes: tuple[str, ...]
    began: float
    seen: float
    token: str = ""

    @property
    def expires(self) -> float:
        """Return when it ends if it is not used."""
        return min(self.began + LIFE_SECONDS, self.seen + IDLE_SECONDS)


@dataclass(frozen=True, slots=True)
class Opened:
    """A new session, with what is shown of it this once. ``header``: that sets the cookie."""

    session: Session
    csrf: str
    header: str


@dataclass(frozen=True, slots=True)
class _Code:
    account: str
    scopes: frozenset[str]
    until: float
    token: str
    user: int | None
    """Who asked for it, of this machine's users; None: that is not known."""


class Accounts(Protocol):
    def of_account(self, account: str) -> Principal | None:
        """Find whom a session acts for; None: that token is gone."""


class BrowserSessions:
    """The sessions of one server.

    ``path``: of the file. ``public_url``: where a proxy with TLS serves this; ``clock``: epoch seconds.
    """

    def __init__(
        self, path: Path, accounts: Accounts, clock: Callable[[], float], public_url: str = ""
    ) -> None:
        self._path, self._accounts, self._clock = path, accounts, clock
        self._public = urlsplit(public_url)
        self._lock = threading.Lock()
        self._codes: dict[str, _Code] = {}
        self._known: dict[str, Session] | None = None
        self._read_from: tuple[int, int, int] | None = None
        """The file that ``_known`` was read from; another server of this home folder may have replaced it."""

    def code(self, principal: Principal, scopes: frozenset[str], user: int | None = None) -> str:
        """Make a code for a session with those of the principal's scopes.

        ``user``: of this machine, who asks. The address with the code is an argument of the browser's process, which every user can read.
        """
        code, now = secrets.token_urlsafe(_BITS), self._clock()
        with self._lock:
            self._codes = {key: one for key, one in self._codes.items() if one.until > now}
            while len(self._codes) >= MOST_CODES:
                crowd = _largest(one.account for one in self._codes.values())
                del self._codes[next(key for key, one in self._codes.items() if one.account == crowd)]
            self._codes[_digest(code)] = _Code(
                principal.account, scopes & principal.scopes, now + CODE_SECONDS, principal.token, user
            )
        return code

    def open(
        self, code: str, headers: Mapping[str, str], user: Callable[[], int | None] = lambda: None
    ) -> Opened:
        """Trade a code.

        ``user``: looks up who trades it. Behind a proxy (``public_url``) that is the proxy's user, which says nothing.
        Raises ForbiddenError for one that is unknown, used or over, one of another user, and for a page of another origin.
        """
        host = self._check_place(headers)
        now = self._clock()
        with self._lock:
            found = self._codes.pop(_digest(code), None)
            if found is None or found.until <= now:
                raise ForbiddenError(
                    "the code is unknown, was used, or is older than a minute",
                    code="session_code_invalid",
                    hint="`noetl ui` makes another one",
                )
        if not self._public.netloc and found.user is not None and (user() not in (None, found.user)):
            raise ForbiddenError(
                "another user of this machine asked for the code",
                code="session_code_invalid",
                hint="run `noetl ui` as the user whose browser opens its address",
            )
        cookie, csrf = secrets.token_urlsafe(_BITS), secrets.token_urlsafe(_BITS)
        session = Session(
            secrets.token_hex(8),
            _digest(cookie),
            _digest(csrf),
            found.account,
            tuple(sorted(found.scopes)),
            now,
            now,
            found.token,
        )
        with self._changing(now) as known:
            while len(known) >= MOST_SESSIONS:
                crowd = _largest(one.account for one in known.values())
                own = (one for one in known.values() if one.account == crowd)
                del known[min(own, key=lambda one: one.seen).cookie]
            known[session.cookie] = session
        return Opened(session, csrf, self._set_cookie(host, cookie, int(LIFE_SECONDS)))

    def find(self, headers: Mapping[str, str]) -> tuple[Session, Principal] | None:
        """Find the session of a request's cookie.

        None: it has no cookie of this server, or one that has expired.
        Raises UnauthenticatedError for a cookie without its page's value, and ForbiddenError for a page of another origin.
        """
        cookie = _cookies(headers.get("cookie", "")).get(self._cookie_name(headers.get("host", "")))
        if cookie is None:
            return None
        self._check_place(headers)
        now = self._clock()
        with self._lock:
            session = self._living(now).get(_digest(cookie))
        if session is None:
            return None
        if not secrets.compare_digest(_digest(headers.get(CSRF, "")), session.csrf):
            raise UnauthenticatedError(
                "the request has a session's cookie, and not the value that belongs to it",
                code="csrf_invalid",
                hint="send X-CSRF-Token as POST /api/session answered it; `noetl ui` begins another session",
            )
        principal = self._principal(session)
        if principal is None:
            with self._changing(now) as known:
                known.pop(session.cookie, None)
            return None
        if now - session.seen > SEEN_SECONDS:
            with self._changing(now) as known:
                if session.cookie not in known:
                    return None  # it was ended meanwhile
                session = known[session.cookie] = msgspec.structs.replace(session, seen=now)
        scopes = principal.scopes & set(session.scopes)
        return session, replace(principal, scopes=frozenset(scopes))

    def current(self, headers: Mapping[str, str]) -> Session:
        """Return the session of a request. Raises UnauthenticatedError."""
        found = self.find(headers)
        if found is None:
            raise UnauthenticatedError("the request has no session", hint="`noetl ui` begins one")
        return found[0]

    def entries(self) -> list[Session]:
        """Return the sessions that are not over, the newest first."""
        with self._lock:
            found = sorted(self._living(self._clock()).values(), key=lambda one: -one.began)
        return [one for one in found if self._principal(one) is not None]

    def end(self, session_id: str) -> None:
        """End a session. Raises NotFoundError."""
        with self._changing(self._clock()) as known:
            ended = [one.cookie for one in known.values() if one.id == session_id]
            if not ended:
                raise NotFoundError(
                    f"there is no session {session_id[:40]!r}",
                    code="session_not_found",
                    hint="GET /api/sessions lists them",
                )
            del known[ended[0]]

    def forget_cookie(self, headers: Mapping[str, str]) -> str:
        """Return the header that removes the cookie."""
        return self._set_cookie(headers.get("host", ""), "", 0)

    def _principal(self, session: Session) -> Principal | None:
        """Find whom a session acts for; None: its token is gone, or is another one of that name."""
        found = self._accounts.of_account(session.account)
        return found if found is not None and found.token == session.token else None

    def _check_place(self, headers: Mapping[str, str]) -> str:
        """Return our host.

        Raises ForbiddenError for another one, for plain HTTP beyond this machine, and for a page of another origin.
        """
        host = headers.get("host", "").lower()
        secure = self._is_public(host)
        if not secure and host_name(host) not in LOOPBACK:
            raise ForbiddenError(
                f"sessions are for this machine, or behind TLS; this is {host[:100]!r}",
                code="session_host",
                hint="open http://127.0.0.1, or set NOETL_PUBLIC_URL to the https address of the proxy",
            )
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        own = f"{'https' if secure else 'http'}://{host}"
        if (origin is not None and origin.lower() != own) or (site or "same-origin").lower() != "same-origin":
            raise _foreign()
        if site is None and origin is None:
            raise _foreign()
        return host

    def _is_public(self, host: str) -> bool:
        return self._public.scheme == "https" and host == self._public.netloc.lower()

    def _cookie_name(self, host: str) -> str:
        """Name the session's cookie.

        Cookies of a host are shared by its ports, so a second server has another name for its own.
        """
        host = host.lower()
        if self._is_public(host):
            return f"__Host-{COOKIE}"
        return f"{COOKIE}_{host.rpartition(':')[2] if host[-1:].isdigit() and ':' in host else '80'}"

    def _set_cookie(self, host: str, value: str, seconds: int) -> str:
        secure = "; Secure" if self._is_public(host.lower()) else ""
        name = self._cookie_name(host)
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"

    @contextmanager
    def _changing(self, now: float) -> Iterator[dict[str, Session]]:
        """Yield the sessions that are not over, to be changed; then write them.

        They are read under the lock of the file: another server of this home folder changes them as well.
        """
        with self._lock, locked(self._path):
            known = self._living(now)
            yield known
            write_private(self._path, msgspec.json.encode(list(known.values())))
            self._read_from = self._file()

    def _living(self, now: float) -> dict[str, Session]:
        """Return the sessions that are not over; the caller has the lock of this process."""
        file = self._file()
        if self._known is None or file != self._read_from:
            self._known = {one.cookie: one for one in self._read()}
            self._read_from = file
        for over in [one.cookie for one in self._known.values() if one.expires <= now]:
            del self._known[over]
        return self._known

    def _read(self) -> list[Session]:
        try:
            return codec.decoder(list[Session]).decode(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise InfrastructureError(
                f"the file {self._path.name} of the home folder cannot be read: {error}",
                code="sessions_unreadable",
                hint="remove it: every session of a browser ends with it",
                retryable=False,
            ) from error

    def _file(self) -> tuple[int, int, int] | None:
        """Return what differs between two files of this name: each write makes another one."""
        try:
            about = self._path.stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns, about.st_size


def _largest(accounts: Iterable[str]) -> str:
    """Return the account that is there most often.

    It makes room, so that no account crowds others out.
    """
    return Counter(accounts).most_common(1)[0][0]


def _foreign() -> ForbiddenError:
    return ForbiddenError(
        "a session is for pages of this very server",
        code="session_origin",
        hint="programs send `Authorization: Bearer TOKEN` instead of a cookie",
    )


def _cookies(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(";"):
        name, mark, value = part.strip().partition("=")
        if mark:
            found.setdefault(name, value)
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
