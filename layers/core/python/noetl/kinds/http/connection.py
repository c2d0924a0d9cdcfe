"""Guarded connections: opened only to allowed addresses, and kept open between calls.

urllib3 speaks HTTP; this module decides the address, and who uses a connection after whom. ``_new_conn`` is the one
place where a socket is opened: every address of the name is checked there, and the socket is connected to a checked
address. TLS verifies the certificate against the host's name. Proxies of the environment are not used.

A kept connection serves requests of the same origin, the same permissions and the same credentials alone. One that a
server may take for its user (NTLM, Negotiate) serves one request.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.ssl_ import ALPN_PROTOCOLS, create_urllib3_context

from noetl.domain.errors import TaskError
from noetl.kinds.support.idle_connections import Idle
from noetl.kinds.support.net_guard import NAMES, Allowed

IDLE_SECONDS = 4.0
"""Idle connections are not used after this: common servers hang up after five seconds, and a request that
meets the hang-up looks lost."""
CONNECTIONS_KEPT = 128
POOLS = 256

_OF_CONNECTIONS = re.compile(r"\b(ntlm|negotiate)\b", re.IGNORECASE)
"""Schemes that tell who speaks once for a connection, not for each request."""


class Exchange:
    """One call on this thread: what it may reach, until when, and the socket it blocks on.

    ``cut`` may be called from another thread; it ends any operation that the call waits for.
    """

    def __init__(self, allowed: Allowed, deadline: float, connect_timeout: float) -> None:
        self.allowed = allowed
        self.deadline = deadline
        self.connect_timeout = connect_timeout
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._duplicate: socket.socket | None = None
        self._is_cut = False
        self.only_new = False
        """No kept connection is taken."""
        self.is_reused = False
        """The request goes over a kept connection."""
        self.is_answered = False
        """A byte of the answer has come."""

    @property
    def was_stale(self) -> bool:
        """Report whether a failed request may have met the end of a kept connection.

        Such a failure says nothing of the server.
        """
        return self.is_reused and not self.is_answered and not self._is_cut

    def __enter__(self) -> Self:
        _current.exchange = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.exchange = None
        self.let_go()

    def hold(self, sock: socket.socket) -> None:
        """Wait for this socket from now on."""
        self._replace(sock, None)

    def hold_opening(self, sock: socket.socket) -> None:
        """Hold the socket while TLS is being set up.

        The handshake takes the descriptor away from ``sock``.
        """
        self._replace(None, sock.dup())

    def let_go(self) -> None:
        """Stop waiting for the socket.

        The connection may be another call's from now on, and ``cut`` must not end that one.
        """
        self._replace(None, None)

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            self._shut()

    def _replace(self, sock: socket.socket | None, duplicate: socket.socket | None) -> None:
        with self._lock:
            if self._duplicate is not None:
                self._duplicate.close()
            self._socket, self._duplicate = sock, duplicate
            if self._is_cut:
                self._shut()

    def _shut(self) -> None:
        for sock in (self._socket, self._duplicate):
            if sock is not None:
                with contextlib.suppress(OSError):
                    # The plain method: a TLS socket's own would also drop its session under the reading thread.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def open(self, host: str, port: int, options: Any) -> socket.socket:
        """Open a socket connected to an allowed address of ``host``. Raises TaskError."""
        until = min(time.monotonic() + self.connect_timeout, self.deadline)
        addresses = NAMES.resolve(host, port, until - time.monotonic())
        for address in addresses:
            self.allowed.check(host, address)
        failure: OSError | None = None
        for index, address in enumerate(addresses):
            share = (until - time.monotonic()) / (len(addresses) - index)
            if share <= 0:
                break
            try:
                return _connect(str(address), port, share, options)
            except OSError as error:
                failure = error
        # It may have moved.
        NAMES.forget(host)
        if failure is None or isinstance(failure, TimeoutError):
            raise TaskError(
                f"{host}:{port} did not answer within {self.connect_timeout:.3g} s",
                kind="timeout",
                code="connect_timeout",
                retryable=True,
            )
        raise TaskError(
            f"{host}:{port} cannot be reached: {failure.strerror or failure}",
            kind="connection",
            code="connect_failed",
            retryable=True,
            hint="is the service running, and are the host and the port of its address right?",
        ) from failure


def _connect(address: str, port: int, timeout: float, options: Any) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        for option in options or ():
            sock.setsockopt(*option)
        sock.settimeout(timeout)
        sock.connect((address, port))
    except BaseException:
        sock.close()
        raise
    return sock


class _Current(threading.local):
    exchange: Exchange | None = None


_current = _Current()


def _exchange() -> Exchange:
    if _current.exchange is None:
        raise RuntimeError("a connection was used outside of an Exchange")
    return _current.exchange


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a kept connection: the calls that may use it.

    ``owner``: a digest of the credentials that a request carries; empty for none.
    """

    allowed: Allowed
    scheme: str
    host: str
    port: int
    owner: bytes


class _Response(http.client.HTTPResponse):
    def _read_status(self) -> tuple[str, int, str]:
        _exchange().is_answered = bool(self.fp.peek(1))
        return super()._read_status()  # type: ignore[misc,no-any-return]


class GuardedConnection(HTTPConnection):
    """Plain HTTP to a checked address."""

    response_class = _Response
    may_be_kept = True

    def _new_conn(self) -> socket.socket:
        sock = _exchange().open(self._dns_host, self.port, self.socket_options)
        _exchange().hold_opening(sock)
        return sock

    def connect(self) -> None:
        super().connect()
        _exchange().hold(self.sock)

    def request(self, *args: Any, **named: Any) -> None:
        exchange = _exchange()
        exchange.is_answered = False
        if self.sock is not None:
            exchange.hold(self.sock)
        for name, value in named["headers"].items():
            if name.lower() in ("authorization", "proxy-authorization") and _OF_CONNECTIONS.match(value):
                self.may_be_kept = False
        super().request(*args, **named)

    # The types of urllib3 and of http.client say different things of what both call an answer.
    def getresponse(self) -> Any:
        response = super().getresponse()
        for name in ("www-authenticate", "proxy-authenticate"):
            if any(_OF_CONNECTIONS.search(value) for value in response.headers.getlist(name)):
                self.may_be_kept = False
        return response


class GuardedTlsConnection(GuardedConnection, HTTPSConnection):
    """HTTPS to a checked address; certificate and server name are those of the host asked for."""

    sessions: TlsSession
    _is_new = True

    def connect(self) -> None:
        # urllib3's own way reads the authorities anew for each connection, and knows no sessions.
        sock = self._new_conn()
        try:
            host = self.host.strip("[]").rstrip(".")
            self.sock = _tls().wrap_socket(sock, server_hostname=host, session=self.sessions.last)
        except BaseException:
            sock.close()
            raise
        self.is_verified, self._is_new = True, True
        _exchange().hold(self.sock)

    def getresponse(self) -> Any:
        sock = self.sock
        response = super().getresponse()
        # TLS 1.3 tells how to resume only after the handshake: with the first bytes of an answer.
        if self._is_new and isinstance(sock, ssl.SSLSocket):
            self.sessions.last, self._is_new = sock.session or self.sessions.last, False
        return response


@dataclass(slots=True)
class TlsSession:
    """The TLS session that the next connection of the same key resumes.

    A resumed session needs no other handshake of certificates.
    """

    last: ssl.SSLSession | None = None


@lru_cache(1)
def _tls() -> ssl.SSLContext:
    """Load the trusted authorities, once for a process."""
    context = create_urllib3_context()
    context.load_default_certs()
    context.set_alpn_protocols(ALPN_PROTOCOLS)
    return context


IDLE: Idle[Key, GuardedConnection] = Idle(CONNECTIONS_KEPT, IDLE_SECONDS, lambda kept: kept.close())
"""The kept connections of a process."""


class _Pool(HTTPConnectionPool):
    """What urllib3 asks for a connection; those that are idle wait in ``IDLE``."""

    ConnectionCls = GuardedConnection

    def __init__(self, key: Key) -> None:
        super().__init__(key.host, key.port, maxsize=1, retries=False)
        self.key = key

    def _get_conn(self, timeout: float | None = None) -> GuardedConnection:
        exchange = _exchange()
        while not exchange.only_new and (kept := IDLE.take(self.key)) is not None:
            if kept.is_connected:
                exchange.is_reused = True
                return kept
            kept.close()
        exchange.is_reused = False
        return self._new_conn()

    def _new_conn(self) -> GuardedConnection:
        made = super()._new_conn()
        assert isinstance(made, GuardedConnection)
        return made

    def _put_conn(self, conn: Any) -> None:
        """Keep the connection of an answer that was read to its end.

        urllib3 passes None for a connection of no use.
        """
        if conn is None:
            return
        if conn.may_be_kept and conn.sock is not None:
            _exchange().let_go()
            IDLE.keep(self.key, conn)
        else:
            conn.close()


class _TlsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = GuardedTlsConnection

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self.sessions = TlsSession()

    def _new_conn(self) -> Any:
        made = super()._new_conn()
        assert isinstance(made, GuardedTlsConnection)
        made.sessions = self.sessions
        return made


@lru_cache(POOLS)
def pool_of(key: Key) -> HTTPConnectionPool:
    """Return the pool of one key's connections. Safe to share between threads."""
    return _TlsPool(key) if key.scheme == "https" else _Pool(key)


def forget() -> None:
    """Close and forget connections, sessions of TLS, answers of DNS, trusted authorities."""
    IDLE.close_idle()
    pool_of.cache_clear()
    _tls.cache_clear()
    NAMES.clear()
