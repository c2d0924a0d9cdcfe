"""A watchdog for a database that takes statements and never answers: it ends the wait.

The driver waits inside libpq for as long as it takes, so one thread of the process looks at all sessions now and then and hangs up those
that have waited too long. That costs a session two assignments per statement, and nothing when all is well.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from contextlib import suppress
from typing import Protocol

ANSWER_SECONDS = 20.0
"""Longest wait for the answer to one statement. (Deployed functions of the API have 29 seconds.)"""
LOOK_SECONDS = 1.0


class Waits(Protocol):
    """A session as the watchdog sees it.

    ``since``: when its statement was sent, on ``time.monotonic()``; 0 when it waits for nothing.
    """

    since: float
    silent: bool
    """It was hung up."""

    @property
    def handle(self) -> int:
        """The descriptor of its socket."""


_sessions: weakref.WeakSet[Waits] = weakref.WeakSet()
_lock = threading.Lock()
_looking: threading.Thread | None = None


def watch(session: Waits) -> None:
    """Look after it for as long as it exists."""
    global _looking
    with _lock:
        _sessions.add(session)
        if _looking is None or not _looking.is_alive():
            _looking = threading.Thread(target=_look, name="noetl-database-watch", daemon=True)
            _looking.start()


def _look() -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        _end_long_waits(time.monotonic() - ANSWER_SECONDS)


def _end_long_waits(before: float) -> None:
    with _lock:
        found = list(_sessions)
    for session in found:
        if 0.0 < session.since < before and not session.silent:
            session.silent = True
            _hang_up(session)


def _hang_up(session: Waits) -> None:
    """Close the connection; a thread that waits at the socket sees its end at once."""
    with suppress(OSError, ValueError), socket.socket(fileno=os.dup(session.handle)) as line:
        line.shutdown(socket.SHUT_RDWR)
