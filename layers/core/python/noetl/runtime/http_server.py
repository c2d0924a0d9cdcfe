"""The HTTP server of ``noetl serve``: waitress, whose own refusals are problems as well (what cannot be read as HTTP never gets to a route)."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer, create_server
from waitress.task import ErrorTask, ThreadedTaskDispatcher

from noetl.api.deps import MAX_BODY
from noetl.api.dispatch import REQUEST_ID
from noetl.api.problems import refusal
from noetl.api.wsgi import HEALTH
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.size_gate import exceeded
from noetl.domain.sizes import HEADER_BYTES

if TYPE_CHECKING:
    from noetl.api.wsgi import Application

BACKLOG = 1024
CONNECTIONS = 1000
SILENCE = 60
"""Seconds that a connection may say nothing; clients that trickle hold no thread, only their connection."""
HEADERS = HEADER_BYTES.value
TAKEN = 4 * MAX_BODY
"""Bytes of a body that are read at all: whoever sends somewhat too much is told so, instead of being cut off while it sends."""
_CODES = {
    400: "bad_request",
    413: "body_too_large",
    431: "headers_too_large",
    501: "not_implemented",
}


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


class Channel(HTTPChannel):
    error_task_class = Refusal


class HttpServer:
    """Listens as soon as it is made. ``run`` serves until ``close``, which is for another thread; ``port`` is where, ``waiting`` how
    many requests wait for a thread."""

    def __init__(self, made: Any, sockets: dict[int, Any]) -> None:
        self._made, self._sockets, self._over = made, sockets, False
        self._waking, self._closed = threading.Lock(), False
        self._health: Any = ThreadedTaskDispatcher()
        self._health.set_thread_count(1)
        self._listeners: list[Any] = [one for one in sockets.values() if isinstance(one, BaseWSGIServer)]
        for one in self._listeners:
            one.channel_class = Channel
            one.pull_trigger = partial(self._wake, one)
            one.add_task = self._take
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
            wasyncore.loop(timeout=1.0, use_poll=True, map=self._sockets, count=1)
        with self._waking:
            self._closed = True
            wasyncore.close_all(self._sockets, ignore_all=True)

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
        for one in self._listeners:
            one.accepting = False
        self._made.task_dispatcher.shutdown(timeout=seconds)
        self._health.shutdown(timeout=seconds)
        while time.monotonic() < until and any(map(_unsent, list(self._sockets.values()))):
            time.sleep(0.01)
        self._over = True
        self._listeners[0].pull_trigger()


def _unsent(one: Any) -> bool:
    return isinstance(one, HTTPChannel) and one.connected and one.total_outbufs_len > 0


def listen(application: Application, host: str, port: int, threads: int) -> HttpServer:
    """Raises InfrastructureError(code="address_in_use") and InvalidInputError(code="host_unknown")."""
    logging.getLogger("waitress.queue").setLevel(
        logging.ERROR
    )  # a line per request that waits; /metrics tells it
    sockets: dict[int, Any] = {}
    try:
        made: Any = create_server(
            application,
            map=sockets,
            host=host,
            port=port,
            threads=threads,
            backlog=BACKLOG,
            connection_limit=CONNECTIONS,
            channel_timeout=SILENCE,
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
    return HttpServer(made, sockets)
