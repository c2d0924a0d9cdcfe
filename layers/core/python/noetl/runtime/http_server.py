"""The HTTP server of ``noetl serve``: waitress, whose own refusals are problems as well (what cannot be read as HTTP never gets to a route)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask

from noetl.api.deps import MAX_BODY
from noetl.api.dispatch import REQUEST_ID
from noetl.api.problems import refusal
from noetl.domain.errors import InfrastructureError

if TYPE_CHECKING:
    from noetl.api.wsgi import Application

BACKLOG = 1024
CONNECTIONS = 1000
SILENCE = 60
"""Seconds that a connection may say nothing; clients that trickle hold no thread, only their connection."""
HEADERS = 64 * 1024
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


def listen(application: Application, host: str, port: int, threads: int) -> Any:
    """A waitress server that listens; ``run`` serves. Raises InfrastructureError(code="address_in_use")."""
    try:
        server: Any = create_server(
            application,
            host=host,
            port=port,
            threads=threads,
            backlog=BACKLOG,
            connection_limit=CONNECTIONS,
            channel_timeout=SILENCE,
            max_request_body_size=TAKEN,
            max_request_header_size=HEADERS,
            ident="noetl",
            clear_untrusted_proxy_headers=True,
        )
    except OSError as error:
        raise InfrastructureError(
            f"{host}:{port} cannot be listened at: {error.strerror or error}",
            code="address_in_use",
            hint="another server may be running there (`noetl server status`); --port takes another one",
            retryable=False,
        ) from error
    server.channel_class = Channel
    return server
