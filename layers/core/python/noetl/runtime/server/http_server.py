"""The HTTP server of ``noetl serve``: uvicorn in a thread, with limits of connections."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from email.utils import formatdate
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from noetl.api.http.asgi import Application
from noetl.api.http.client_limits import ClientLimits, peer_of
from noetl.api.http.exchange import Answer
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.runtime.server.http_connection import CHUNK_LINE, Connection, refused
from noetl.runtime.server.request_threads import RequestThreads

BACKLOG = 1024
TICK_SECONDS = 0.01
"""How often a server that ends looks whether its answers are sent."""


class HttpServer:
    """A server that listens as soon as it is made.

    ``run`` serves until another thread calls ``close``; ``port`` is the port it listens on.
    """

    def __init__(
        self,
        application: Application,
        sockets: list[socket.socket],
        threads: RequestThreads,
        limits: ClientLimits | None = None,
    ) -> None:
        self.threads = threads
        self.port: int = sockets[0].getsockname()[1]
        self._sockets, self._limits = sockets, limits or ClientLimits()
        self._config = Config(
            application,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            proxy_headers=False,
            timeout_keep_alive=86400,  # `expire` ends what is silent
            h11_max_incomplete_event_size=CHUNK_LINE,  # heads arrive whole
        )
        self._state = ServerState()
        self._peers: Counter[str] = Counter()
        self._connections: set[Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._on_trouble)
        self._stop = asyncio.Event()
        self._seconds = 0.0
        self._closing = threading.Lock()
        threads.start()

    @property
    def waiting(self) -> int:
        """Return how many requests wait for a thread."""
        return self.threads.waiting

    def run(self) -> None:
        """Serve until ``close``."""
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            with self._closing:
                self._loop.close()
            for one in self._sockets:
                one.close()

    def close(self, seconds: float) -> None:
        """Take no more requests, and end when those that are worked on are answered.

        It ends after ``seconds`` at the latest. Requests that no thread has begun are neither handled nor answered.
        """
        with self._closing:
            if self._loop.is_closed():
                return
            self._seconds = seconds
            self.threads.drop(self._loop)  # at once: a thread that becomes free would take the next one
            self._loop.call_soon_threadsafe(self._stop.set)

    def admit(self, connection: Connection) -> Answer | None:
        """Count a new connection. Return why it is turned away instead, or None."""
        limits = self._limits
        address = connection.client[0] if connection.client else ""
        peer = connection.peer = peer_of(str(address))
        most = limits.most_of(peer)
        hint = "close connections that are not used, or come back later"
        if len(self._connections) >= limits.connections and not self._make_room():
            return refused(503, f"all of {limits.connections} connections are being worked on", hint)
        if most < limits.connections and self._peers[peer] >= most:
            return refused(429, f"{peer} has {most} connections already", hint)
        self._connections.add(connection)
        self._peers[peer] += 1
        return None

    def left(self, connection: Connection) -> None:
        """Forget a connection."""
        if connection in self._connections:
            self._connections.discard(connection)
            self._peers[connection.peer] -= 1
            if not self._peers[connection.peer]:
                del self._peers[connection.peer]

    async def _serve(self) -> None:
        self._date()
        listening = [
            await self._loop.create_server(self._connect, sock=one, backlog=BACKLOG) for one in self._sockets
        ]
        while not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self._limits.pace)
            self._look()
        for server in listening:
            server.close()
        await self._end(time.monotonic() + self._seconds)

    def _connect(self) -> Connection:
        return Connection(self._config, self._state, self)

    def _look(self) -> None:
        self._date()
        now = self._loop.time()
        for one in self._channels():
            one.expire(self._limits, now)

    def _date(self) -> None:
        self._state.default_headers = [
            (b"server", b"noetl"),
            (b"date", formatdate(usegmt=True).encode()),
        ]

    def _channels(self) -> list[Connection]:
        return list(self._connections)

    def _open(self) -> list[Connection]:
        """Return all connections, those that were turned away too."""
        return [one for one in self._state.connections if isinstance(one, Connection)]

    def _close_idle(self) -> bool:
        """Close the connection that has been idle longest, so that another one has room."""
        idle = [one for one in self._connections if one.idle]
        if idle:
            longest = min(idle, key=lambda one: one.active)
            self.left(longest)
            longest.cut()
        return bool(idle)

    def _make_room(self) -> bool:
        """Close an idle connection, or else the one that has longest been sent what it asked for.

        A stream of events is asked for again by its client, so it goes before an answer that a client is slow to take.
        """
        if self._close_idle():
            return True
        taking = [one for one in self._connections if one.streaming or one.unsent]
        if taking:
            longest = min(taking, key=lambda one: (not one.streaming, one.active))
            self.left(longest)
            longest.cut()
        return bool(taking)

    def _on_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Close an idle connection when no descriptor is left for a new one.

        asyncio tries to accept the new one again in a second.
        """
        if "out of system resource" in str(context.get("message")):
            self._make_room()
        else:
            loop.default_exception_handler(context)

    async def _end(self, until: float) -> None:
        for one in self._open():
            one.finish()
        self.threads.drop(self._loop)
        while self._state.connections and time.monotonic() < until:
            await asyncio.sleep(TICK_SECONDS)
        for one in self._open():
            one.cut()
        await asyncio.sleep(0)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.threads.close(max(0.0, until - time.monotonic()))


def listen(
    application: Application,
    host: str,
    port: int,
    threads: RequestThreads,
    limits: ClientLimits | None = None,
) -> HttpServer:
    """Open the listening socket.

    Raises InfrastructureError(code="address_in_use") and InvalidInputError(code="host_unknown").
    """
    logging.getLogger("uvicorn.error").setLevel(
        logging.ERROR
    )  # a line for each client that asks for WebSocket
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(
            f"{host[:200]!r} is no name or address of this machine",
            code="host_unknown",
            hint="--host takes 127.0.0.1, 0.0.0.0 for everybody, or an address that this machine has",
        ) from error
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            taken = sockets[0].getsockname()[1] if sockets else port
            sockets.append(_bound(family, (address[0], taken, *address[2:])))
    except OSError as error:
        for one in sockets:
            one.close()
        raise InfrastructureError(
            f"{host}:{port} cannot be listened at: {error.strerror or error}",
            code="address_in_use",
            hint="another server may be running there (`noetl server status`); --port takes another one",
            retryable=False,
        ) from error
    return HttpServer(application, sockets, threads, limits)


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or asyncio leaves Nagle on
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
