"""The HTTP server of ``noetl serve``: waitress behind strict heads, deadlines and caps of connections.

What is refused (``request_head``, ``client_limits``) is decided by pure functions; its refusals are problems, as those of routes.
"""

from __future__ import annotations

import errno
import logging
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from waitress import wasyncore
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.receiver import ChunkedReceiver
from waitress.server import BaseWSGIServer, create_server
from waitress.task import ErrorTask, ThreadedTaskDispatcher

from noetl.api.deps import MAX_BODY
from noetl.api.http.client_limits import ClientLimits, Reader, peer_of
from noetl.api.http.dispatch import REQUEST_ID
from noetl.api.http.problems import refusal
from noetl.api.http.request_head import HeadFault, early_fault, head_fault
from noetl.api.http.wsgi import HEALTH
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import HEADER_BYTES
from noetl.runtime.server.request_threads import LentThreads

if TYPE_CHECKING:
    from noetl.api.http.wsgi import Application

BACKLOG = 1024
CHUNK_LINE = 1024
"""Bytes of the line before a chunk."""
TRAILER = 8192
"""Bytes of headers after the last chunk, which no route reads."""
LOOKED_AT_SECONDS = 30
"""Most seconds between two looks for connections that are silent."""
CROWDED_SECONDS = 0.05
"""How long the server pauses when it has no descriptor for another connection, and none to close."""
HEADERS = HEADER_BYTES.value
TAKEN = 4 * MAX_BODY
"""Bytes of a body that are read at all: whoever sends somewhat too much is told so, instead of being cut off while it sends."""
_CODES = {
    400: "bad_request",
    408: "request_timeout",
    413: "body_too_large",
    429: "too_many_connections",
    431: "headers_too_large",
    501: "not_implemented",
    503: "too_many_connections",
    505: "http_version_not_supported",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of a request, in the shape of waitress's own."""

    code: int
    reason: str
    body: str


class Refusal(ErrorTask):
    """An answer to what was no request."""

    def execute(self) -> None:
        error: Any = self.request.error  # type: ignore[attr-defined]  # the stubs know the error alone
        request_id = secrets.token_hex(8)
        found = refusal(error.code, _CODES.get(error.code, "internal_error"), _detail(error), request_id)
        if error.code == 431:
            told = exceeded(
                HEADER_BYTES, None, "the request line and its headers", remedy="send fewer headers"
            )
            found = refusal(431, _CODES[431], told.message, request_id, hint=told.hint, details=told.details)
        body = found.body().encode()
        self.status = f"{error.code} {error.reason}"
        headers = {
            "Content-Type": found.content_type,
            "Content-Length": str(len(body)),
            REQUEST_ID: request_id,
        }
        self.response_headers = [*self.response_headers, *headers.items()]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


def _detail(error: Any) -> str:
    """What waitress says, which has no traceback in it; of errors on our side nothing."""
    return str(error.body) if error.code != 500 else "something went wrong on our side; the log knows more"


class Parser(HTTPRequestParser):
    """A request that is being received, whose head has one reading only."""

    error: Any

    def __init__(self, adj: Any) -> None:
        super().__init__(adj)
        self.began = time.monotonic()
        self.body_began: float | None = None

    def received(self, data: bytes) -> int:
        in_head = self.body_rcv is None and not self.completed
        if in_head and (fault := early_fault(self.header_plus, data)):
            self._refuse(fault)
            return len(data)
        consumed: int = super().received(data)
        if in_head and self.headers_finished:
            self.body_began = time.monotonic()
        if self.empty:
            # Blank lines in any number would be a request that never begins.
            self.empty = False
            self._refuse(HeadFault(400, "Bad Request", "there is no request line before the empty one"))
        if isinstance(self.body_rcv, ChunkedReceiver) and not self.error:
            self._check_chunks(self.body_rcv)
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        if fault := head_fault(header_plus):
            self._refuse(fault)
        else:
            super().parse_header(header_plus)

    def restart(self) -> None:
        """Count time from now on: until now an earlier request of the connection was being answered."""
        self.began = time.monotonic()
        self.body_began = self.body_began and self.began

    def late(self, limits: ClientLimits, now: float) -> str | None:
        """Tell how the client is too slow."""
        if self.body_began is None:
            return limits.late_head(now - self.began)
        return limits.late_body(now - self.body_began, self.body_bytes_received)

    def _check_chunks(self, found: ChunkedReceiver) -> None:
        too_long = len(found.control_line) > CHUNK_LINE or len(found.trailer) > TRAILER
        if too_long or found.chunk_remainder > TAKEN:
            self._refuse(HeadFault(400, "Bad Request", "a chunk, its line or the trailer is too long"))

    def _refuse(self, fault: HeadFault) -> None:
        self.error = Fault(fault.status, fault.reason, fault.detail)
        self.completed = True


class Channel(HTTPChannel):
    """A connection."""

    error_task_class = Refusal
    parser_class = Parser
    request: Any
    requests_lock: Any  # the stubs do not know it
    _sent = 0
    """Bytes of all its answers."""
    _reading: tuple[float, int] | None = None
    """When an answer was first seen unread, and what had been sent by then."""
    _unread: tuple[float, int] | None = None
    """When the client was last seen to have read something, and what had been sent by then."""

    @property
    def idle(self) -> bool:
        """Whether no request of it is being worked on, and no answer is on its way."""
        return not self.requests and not self.total_outbufs_len

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close) or 0
        self._sent += sent
        return sent

    def service(self) -> None:
        super().service()
        with self.requests_lock:
            if self.request is not None:
                self.request.restart()

    def expire(self, limits: ClientLimits, now: float) -> None:
        """Close the connection if its client is too slow; called by the thread of ``run``."""
        if self._leaves_unread(limits.silence, now):
            self.handle_close()
            return
        with self.requests_lock:
            receiving = self.request is not None and not self.requests and not self.close_when_flushed
            detail = self.request.late(limits, now) if receiving else None
            if not detail:
                return
            request, self.request = self.request, None
        request.error = Fault(408, "Request Timeout", detail)
        request.connection_close = True
        with suppress(ClientDisconnected):
            Refusal(self, request).service()
        request.close()
        self.close_when_flushed = True

    def _leaves_unread(self, seconds: float, now: float) -> bool:
        """A thread that writes to such a client waits for it, and closing lets it go."""
        if not self.total_outbufs_len:
            self._unread = self._reading = None
        elif self._unread is None or self._unread[1] != self._sent:
            self._unread = now, self._sent
            self._reading = self._reading or self._unread
        return self._unread is not None and now - self._unread[0] > seconds

    def reader(self, now: float) -> Reader | None:
        """Tell how the client reads its answer; None when the answer is not there yet, or has been read."""
        writing = bool(self.requests)
        if self._reading is None or (
            writing and self.total_outbufs_len <= self.adj.outbuf_high_watermark // 2
        ):
            return None
        since, sent = self._reading
        return Reader(peer_of(str(self.addr[0])), now - since, self._sent - sent, writing)


class HttpServer:
    """Listens as soon as it is made. ``run`` serves until ``close``, which is for another thread; ``port`` is where, ``waiting`` how
    many requests wait for a thread. ``lent``: its further threads."""

    def __init__(self, made: Any, sockets: dict[int, Any], limits: ClientLimits | None = None) -> None:
        self._made, self._sockets, self._over = made, sockets, False
        self._limits, self._looked = limits or ClientLimits(), time.monotonic()
        self._waking, self._closed = threading.Lock(), False
        self.lent = LentThreads(made.task_dispatcher)
        self._health: Any = ThreadedTaskDispatcher()
        self._health.set_thread_count(1)
        self._listeners: list[Any] = [one for one in sockets.values() if isinstance(one, BaseWSGIServer)]
        for one in self._listeners:
            one.channel_class = Channel
            one.pull_trigger = partial(self._wake, one)
            one.add_task = self._take
            one.handle_accept = partial(self._accept, one)
        self.port: int = self._listeners[0].effective_port

    @property
    def waiting(self) -> int:
        return len(self._made.task_dispatcher.queue)

    def _take(self, channel: Any) -> None:
        """Give a request to a thread: one that asks for health to a thread of its own, because all others may be busy."""
        asked = channel.requests[0]
        healthy = asked.error is None and asked.path == HEALTH
        (self._health if healthy else self._made.task_dispatcher).add_task(channel)

    def run(self) -> None:
        """With ``poll``: ``select`` takes no descriptor above 1023, and a thousand clients that say nothing would end it."""
        while not self._over:
            wasyncore.loop(timeout=self._limits.pace, use_poll=True, map=self._sockets, count=1)
            self._expire(time.monotonic())
        with self._waking:
            self._closed = True
            wasyncore.close_all(self._sockets, ignore_all=True)

    def _channels(self) -> list[Channel]:
        return [one for one in self._sockets.values() if isinstance(one, Channel)]

    def _expire(self, now: float) -> None:
        if now - self._looked >= self._limits.pace:
            self._looked = now
            for one in self._channels():
                one.expire(self._limits, now)
            self._close_slow_readers(now)

    def _close_slow_readers(self, now: float) -> None:
        """Take back the threads that write to clients which hardly read; closing the connection lets its thread go."""
        reading = [(one, reader) for one in self._channels() if (reader := one.reader(now))]
        found = self._limits.too_slow(
            (reader for _, reader in reading), self.lent.own, crowded=self.waiting > 0
        )
        for place in list(found):
            reading[place][0].handle_close()

    def _accept(self, listener: Any) -> None:
        """Take in a connection, or refuse it: its machine has too many, or all are being worked on."""
        try:
            found = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE) and not self._close_idle():
                time.sleep(CROWDED_SECONDS)
            return
        if found is None:
            return
        connection, address = found
        peer, channels = peer_of(str(address[0])), self._channels()
        most = self._limits.most_of(peer)
        if len(channels) >= self._limits.connections and not self._close_idle():
            _turn_away(connection, 503, f"all of {self._limits.connections} connections are being worked on")
        elif most < self._limits.connections and _count(channels, peer) >= most:
            _turn_away(connection, 429, f"{peer} has {most} connections already")
        else:
            with suppress(OSError):
                listener.set_socket_options(connection)
            listener.channel_class(listener, connection, address, listener.adj, map=self._sockets)

    def _close_idle(self) -> bool:
        """Close the connection that has been idle longest, so that another one has room."""
        idle = [one for one in self._channels() if one.idle]
        if idle:
            min(idle, key=lambda one: one.last_activity).handle_close()
        return bool(idle)

    def _wake(self, listener: Any) -> None:
        """Wake the thread of ``run``, unless it has ended.

        A thread whose request outlasts ``close`` wakes it as well. By then the number of the closed descriptor may belong to another
        file of this process.
        """
        with self._waking:
            if not self._closed:
                listener.trigger.pull_trigger()

    def close(self, seconds: float) -> None:
        """Take nobody in, give those their answers whose requests are being worked on (for ``seconds``), and end. Requests that no thread
        has begun are cut off: nothing of them was done."""
        until = time.monotonic() + seconds
        self.lent.close()
        for one in self._listeners:
            one.accepting = False
        self._made.task_dispatcher.shutdown(timeout=seconds)
        self._health.shutdown(timeout=seconds)
        while time.monotonic() < until and any(map(_unsent, list(self._sockets.values()))):
            time.sleep(0.01)
        self._over = True
        self._listeners[0].pull_trigger()


def _count(channels: list[Channel], peer: str) -> int:
    return sum(peer_of(str(one.addr[0])) == peer for one in channels)


def _turn_away(connection: socket.socket, status: int, detail: str) -> None:
    """Say why in one packet, and hang up; what the client has not read by then is lost."""
    reason = {429: "Too Many Requests", 503: "Service Unavailable"}[status]
    request_id = secrets.token_hex(8)
    hint = "close connections that are not used, or come back later"
    found = refusal(status, _CODES[status], detail, request_id, hint=hint)
    body = found.body().encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {found.content_type}\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\nRetry-After: 1\r\n{REQUEST_ID}: {request_id}\r\n\r\n"
    )
    with suppress(OSError), connection:
        connection.setblocking(False)
        connection.sendall(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)


def _unsent(one: Any) -> bool:
    return isinstance(one, HTTPChannel) and one.connected and one.total_outbufs_len > 0


def listen(
    application: Application, host: str, port: int, threads: int, limits: ClientLimits | None = None
) -> HttpServer:
    """Raises InfrastructureError(code="address_in_use") and InvalidInputError(code="host_unknown")."""
    logging.getLogger("waitress.queue").setLevel(
        logging.ERROR
    )  # a line per request that waits; /metrics tells it
    limits = limits or ClientLimits()
    sockets: dict[int, Any] = {}
    silence = max(1, int(limits.silence))
    try:
        made: Any = create_server(
            application,
            map=sockets,
            host=host,
            port=port,
            threads=threads,
            backlog=BACKLOG,
            connection_limit=limits.connections + BACKLOG,  # `_accept` holds them to their cap
            channel_timeout=silence,
            cleanup_interval=min(LOOKED_AT_SECONDS, silence),
            max_request_body_size=TAKEN,
            max_request_header_size=HEADERS + 1,  # waitress refuses what reaches its number
            ident="noetl",
            clear_untrusted_proxy_headers=True,
        )
    except ValueError as error:
        raise InvalidInputError(
            f"{host[:200]!r} is no name or address of this machine",
            code="host_unknown",
            hint="--host takes 127.0.0.1, 0.0.0.0 for everybody, or an address that this machine has",
        ) from error
    except OSError as error:
        raise InfrastructureError(
            f"{host}:{port} cannot be listened at: {error.strerror or error}",
            code="address_in_use",
            hint="another server may be running there (`noetl server status`); --port takes another one",
            retryable=False,
        ) from error
    return HttpServer(made, sockets, limits)
