"""A connection of ``noetl serve``: uvicorn's, behind strict heads and limits.

Each head is read here first, and reaches uvicorn when it is whole, sound, and its turn has come. Bodies pass through as they arrive.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from noetl.api.deps import MAX_BODY
from noetl.api.http.client_limits import ClientLimits
from noetl.api.http.dispatch import REQUEST_ID
from noetl.api.http.exchange import Answer, drawn_name
from noetl.api.http.problems import refusal
from noetl.api.http.request_head import early_fault, head_fault
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import BODY_BYTES, HEADER_BYTES

CHUNK_LINE = 1024
"""Bytes of the line before a chunk, and of the headers after the last one, which no route reads."""
HEADERS = HEADER_BYTES.value
TAKEN = 4 * MAX_BODY
"""Bytes of a body that are read at all: a client that sends somewhat too much gets an answer, instead of being cut off while it sends."""
PIPELINED = 65536
"""Bytes of later requests that are taken before an earlier one is answered."""
LINGER_SECONDS = 1.0
"""How long a refused client may continue to send, so that it reads the reason."""
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_CLOSE = (b"connection", b"close")
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
_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class Admission(Protocol):
    """The server, as a connection knows it."""

    def admit(self, connection: Connection) -> Answer | None:
        """Count a new connection. Return why it is turned away instead, or None."""

    def left(self, connection: Connection) -> None:
        """Forget a connection."""


class _Counted:
    """A transport that counts the bytes given to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self.written = transport, 0

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(H11Protocol):
    """One connection of a client."""

    def __init__(self, config: Config, state: ServerState, admission: Admission) -> None:
        self.gone: bool = False
        """The client has closed this connection, or lost it."""
        super().__init__(config, state, {"cut": self.cut, "gone": lambda: self.gone})
        self.access_log = False
        self.peer = ""
        self.active = self.loop.time()
        """When bytes last moved."""
        self._admission, self._admitted, self._refused = admission, False, False
        self._pending = bytearray()
        self._looked = 0
        """How many bytes of the head that is being received were looked at."""
        self._began: float | None = None
        """When the request that is being received began."""
        self._body_began: float | None = None
        self._body_taken, self._body_left, self._chunked = 0, 0, False
        self._unread: tuple[float, int] | None = None
        """When the client was last seen to have read something, and how much it had read by then."""
        self._reading: tuple[float, int] | None = None
        """When an answer was first seen unread, and what had been read by then."""

    @property
    def working(self) -> bool:
        """Whether a request has been received whose answer is not complete."""
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    @property
    def idle(self) -> bool:
        """Whether no request is being worked on, and no answer is on its way."""
        return not self.working and not self.unsent

    @property
    def streaming(self) -> bool:
        """Whether an answer is coming over time, and the client has taken all that came."""
        cycle = self.cycle
        return self.working and cycle.response_started and not self.unsent

    @property
    def unsent(self) -> int:
        """Return the bytes of answers that the client has not taken."""
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        counted: Any = _Counted(transport)
        super().connection_made(counted)
        if (refused := self._admission.admit(self)) is not None:
            self._say(refused, {"Retry-After": "1"})
        else:
            self._admitted = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        if self._admitted:
            self._admission.left(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        self.active = self.loop.time()
        if self._refused:
            return
        if self._body_left or self._chunked:
            data = self._take_body(data)
        if data:
            self._pending += data
            self._advance()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.active = self.loop.time()
        if not self._refused and not self.transport.is_closing():
            self._advance()

    def send_400_response(self, msg: str) -> None:
        """Refuse chunks that are none; everything else was found in the head."""
        self._refuse(400, "the line before a chunk, or the trailer, is malformed or too long")

    def cut(self) -> None:
        """Close the connection without a word."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def finish(self) -> None:
        """Answer what is being worked on, and nothing else."""
        self._refused = True
        if self.working:
            self.cycle.keep_alive = False
        elif self.unsent:
            self.transport.close()
        else:
            self.cut()

    def expire(self, limits: ClientLimits, now: float) -> None:
        """Close the connection if its client is too slow or silent."""
        if self.unsent:
            if self._leaves_unread(limits, now):
                self.cut()
            return
        self._unread = self._reading = None
        if self._refused:
            return
        if detail := self._late(limits, now):
            self._refuse(408, detail)
        elif not self.working and self._began is None and now - self.active > limits.silence:
            self.cut()

    def _late(self, limits: ClientLimits, now: float) -> str | None:
        """Describe how the request that is being received is late."""
        if self._body_began is not None:
            return limits.late_body(now - self._body_began, self._body_taken)
        return limits.late_head(now - self._began) if self._began is not None else None

    def _leaves_unread(self, limits: ClientLimits, now: float) -> bool:
        counted: Any = self.transport
        read = counted.written - self.unsent
        if self._unread is None or self._unread[1] != read:
            self._unread = now, read
            self._reading = self._reading or self._unread
        since, before = self._reading or self._unread
        silent = now - self._unread[0] > limits.silence
        return silent or limits.late_reader(now - since, read - before)

    def _advance(self) -> None:
        """Begin with the next request if its head is there and the last one is answered."""
        while self._pending and not self._refused:
            if self.cycle is not None and not self.cycle.response_complete:
                if len(self._pending) > PIPELINED:
                    self.flow.pause_reading()
                return
            if self._began is None:
                self._began = self.loop.time()
            head = self._head()
            if head is None:
                return
            self._begin(head)

    def _head(self) -> bytes | None:
        """Take the next head. None: it is not whole, or was refused."""
        pending = self._pending
        if pending.startswith(b"\r\n") and len(pending) > 2 and not pending.startswith(b"\r\n\r"):
            del pending[:2]  # a client may send one blank line too many after a body
            self._looked = 0
        known, self._looked = self._looked, len(pending)
        end = pending.find(_END, max(0, known - 3))
        if end == 0:
            self._refuse(400, "there is no request line before the empty one")
        elif end < 0 and len(pending) < HEADERS:
            if fault := early_fault(bytes(pending[max(0, known - 3) : known]), bytes(pending[known:])):
                self._refuse(fault.status, fault.detail)
        elif end < 0 or end + len(_END) > HEADERS:
            self._refuse_headers()
        else:
            head = bytes(pending[: end + len(_END)])
            del pending[: end + len(_END)]
            self._looked = 0
            if (found := head_fault(head)) is None:
                return head
            self._refuse(found.status, found.detail)
        return None

    def _begin(self, head: bytes) -> None:
        length = _LENGTH.search(head)
        self._chunked = _CHUNKED.search(head) is not None
        self._body_left = int(length[1]) if length is not None else 0
        if self._body_left > TAKEN:
            self._refuse_body(self._body_left)
            return
        self._began, self._body_taken = None, 0
        self._body_began = self.loop.time() if self._body_left or self._chunked else None
        self._pass_on(head)
        if self._chunked:
            # What follows chunks is never taken for a request: nothing can hide behind a length that is read in two ways.
            self.headers.append(_CLOSE)  # the list of the scope
        if self._body_left or self._chunked:
            rest = bytes(self._pending)
            self._pending.clear()
            self._pending += self._take_body(rest)

    def _take_body(self, data: bytes) -> bytes:
        """Pass on what belongs to the body; return the rest."""
        if self._chunked:
            self._body_taken += len(data)
            if self._body_taken > TAKEN:
                self._refuse_body(self._body_taken)
            else:
                self._pass_on_chunks(data)
            return b""
        part, rest = data[: self._body_left], data[self._body_left :]
        self._body_left -= len(part)
        self._body_taken += len(part)
        if part:
            self._pass_on(part)
        if not self._body_left:
            self._body_began = None
        return rest

    def _pass_on_chunks(self, data: bytes) -> None:
        """Pass on a little at a time, so that uvicorn counts the bytes of each line."""
        for place in range(0, len(data), CHUNK_LINE):
            if self._refused:
                return
            self._pass_on(data[place : place + CHUNK_LINE])
        if not self.cycle.more_body:
            self._body_began = None

    def _pass_on(self, data: bytes) -> None:
        super().data_received(data)

    def _refuse_headers(self) -> None:
        error = exceeded(HEADER_BYTES, None, "the request line and its headers", remedy="send fewer headers")
        self._refuse(431, error.message, error.hint, error.details)

    def _refuse_body(self, size: int) -> None:
        error = exceeded(BODY_BYTES, size, "the body")
        self._refuse(413, error.message, error.hint, error.details)

    def _refuse(
        self, status: int, detail: str, hint: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The application waits for the rest of the body; it learns that the client has gone.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._say(refused(status, detail, hint, details))

    def _say(self, found: Answer, more: dict[str, str] | None = None) -> None:
        """Answer what was no request, and close when the client has had time to read that."""
        self._refused, self._began, self._body_began = True, None, None
        self._pending.clear()
        body = found.body().encode()
        headers = {
            "Content-Type": found.content_type,
            "Content-Length": str(len(body)),
            "Connection": "close",
            **found.headers,
            **(more or {}),
        }
        lines = [
            f"HTTP/1.1 {found.status} {_REASONS[found.status]}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.transport.write("\r\n".join(lines).encode() + _END + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


def refused(
    status: int,
    detail: str,
    hint: str | None = None,
    details: dict[str, Any] | None = None,
) -> Answer:
    """Make the problem of a request or a connection that is not taken."""
    request_id = drawn_name()
    found = refusal(status, _CODES[status], detail, request_id, hint=hint, details=details)
    return Answer(
        found.status, found.value, headers={REQUEST_ID: request_id}, content_type=found.content_type
    )
