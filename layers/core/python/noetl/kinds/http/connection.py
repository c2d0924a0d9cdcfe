"""Connections that go where the guard allowed and nowhere else, kept open between calls.

urllib3 speaks HTTP and TLS; this module decides the address. ``_new_conn`` is the one place where a socket is
opened: the name is resolved there, every address is checked, and the socket is connected to a checked address.
TLS still verifies the certificate against the host's name. Proxies of the environment are not used.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from noetl.domain.errors import TaskError
from noetl.kinds.net_guard import Allowed, resolve

IDLE_SECONDS = 4.0
"""Idle connections are not used after this: common servers hang up after five seconds, and a request that
meets the hang-up looks lost."""
HOSTS_KEPT = 64
CONNECTIONS_PER_HOST = 16


class Exchange:
    """One call on this thread: what it may reach, until when, and the socket it blocks on.

    ``cut`` may be called from another thread; it ends whatever the call waits for.
    """

    def __init__(self, allowed: Allowed, deadline: float, connect_timeout: float) -> None:
        self.allowed = allowed
        self.deadline = deadline
        self.connect_timeout = connect_timeout
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._duplicate: socket.socket | None = None
        self._is_cut = False

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
        self._replace(None, None)

    def hold(self, sock: socket.socket) -> None:
        """The call now waits for this socket."""
        self._replace(sock, None)

    def hold_opening(self, sock: socket.socket) -> None:
        """The same while TLS is being set up: the handshake takes the descriptor away from ``sock``."""
        self._replace(None, sock.dup())

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
        """A socket connected to an allowed address of ``host``. Raises TaskError."""
        until = min(time.monotonic() + self.connect_timeout, self.deadline)
        addresses = resolve(host, port, until - time.monotonic())
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


class GuardedConnection(HTTPConnection):
    """Plain HTTP to a checked address."""

    _used = 0.0

    @property
    def is_connected(self) -> bool:
        return super().is_connected and time.monotonic() - self._used < IDLE_SECONDS

    def _new_conn(self) -> socket.socket:
        sock = _exchange().open(self._dns_host, self.port, self.socket_options)
        _exchange().hold_opening(sock)
        return sock

    def connect(self) -> None:
        super().connect()
        _exchange().hold(self.sock)

    def request(self, *args: Any, **named: Any) -> None:
        self._used = time.monotonic()
        if self.sock is not None:
            _exchange().hold(self.sock)
        super().request(*args, **named)


class GuardedTlsConnection(GuardedConnection, HTTPSConnection):
    """HTTPS to a checked address; certificate and server name are those of the host asked for."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = GuardedConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = GuardedTlsConnection


@lru_cache(8)
def pools(allowed: Allowed) -> PoolManager:
    """The kept connections of a process, by what they may reach. Safe to share between threads."""
    manager = PoolManager(num_pools=HOSTS_KEPT, maxsize=CONNECTIONS_PER_HOST, block=False, retries=False)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return manager
