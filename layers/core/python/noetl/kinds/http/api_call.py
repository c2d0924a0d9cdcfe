"""Calls of an HTTP API by other kinds, with the guard and bounds of ``http`` tasks.

They share its connections, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskSettings
from noetl.kinds.http.client import Answer, Limits, Request, send
from noetl.kinds.http.response import failure_of
from noetl.kinds.support.foreign_json import foreign_value
from noetl.kinds.support.net_guard import allowed_of, parse_url

CONNECT_SECONDS = 5.0


class Caller(Protocol):
    """The caller of an API: a task (``TaskContext``), or a part of the system itself."""

    @property
    def timeout(self) -> float:
        """Seconds that all calls together may take."""

    @property
    def settings(self) -> TaskSettings:
        """What may be reached, and how large an answer may be."""


class Api:
    """One task's calls of one API: they share the task's time."""

    def __init__(self, context: Caller, headers: Mapping[str, str]) -> None:
        self._context = context
        self._headers = {"User-Agent": "noetl", "Accept-Encoding": "gzip, deflate", **headers}
        self._deadline = time.monotonic() + context.timeout

    def call(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and return the answer of any status below 400.

        Raises TaskError: as ``http.client.send`` and ``http.answer.failure_of``.
        """
        left = max(0.001, self._deadline - time.monotonic())
        settings = self._context.settings
        limits = Limits(
            left,
            min(CONNECT_SECONDS, left),
            left,
            settings.http_max_bytes,
            allowed_of(tuple(settings.http_allow)),
        )
        request = Request(method, parse_url(url), {**self._headers, **(headers or {})}, body)
        answer = send(request, limits, follow_redirects=False)
        if answer.status >= 400 or answer.status < 200:
            raise failure_of(request, answer)
        return answer


def json_of(answer: Answer) -> Any:
    """Decode a JSON answer.

    Raises TaskError(kind="parse", code="invalid_json"): the API answered something else.
    """
    try:
        return foreign_value(answer.body, f"the answer of {answer.url}") if answer.body else None
    except (ValueError, RecursionError):
        raise TaskError(
            f"{answer.url} answered something that is not JSON",
            kind="parse",
            code="invalid_json",
            details={"body": answer.body[:500].decode("utf-8", "replace")},
        ) from None
