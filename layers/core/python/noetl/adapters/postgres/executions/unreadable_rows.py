"""Unreadable rows of commands and of the outbox: log them, and set them aside.

A row that is set aside has an owner whose name says until when (domain/workers/lease_owners.py). Until then claims pass over it. Afterwards
the next claim tries it again, so that a row which a newer version wrote, or an operator repaired, is taken up by itself.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TypeVar

from noetl.adapters.postgres.connection import UNKNOWN, Database
from noetl.adapters.postgres.literals import number, numbers, text, texts
from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Event, decode_event
from noetl.domain.unreadable import Unreadable, attempt
from noetl.domain.workers.lease_owners import ASIDE_SECONDS
from noetl.ports.executions.loop_rows import LoopRow

T = TypeVar("T")
Key = tuple[int, str]
"""(execution, id of the command or event)."""

_LOOP = codec.decoder(LoopRow)
_MOST_REPORTED = 1000
_LOG = logging.getLogger("noetl.store")


_reported: dict[str, float] = {}


def report(row: Unreadable | str) -> None:
    """Log which row cannot be read; the same again only after ``ASIDE_SECONDS``."""
    text, now = str(row), time.monotonic()
    if now - _reported.get(text, -ASIDE_SECONDS) < ASIDE_SECONDS:
        return
    if len(_reported) >= _MOST_REPORTED:
        _reported.clear()
    _reported[text] = now
    _LOG.error("%s", text)


def moment(column: bytes | None, what: str) -> float | None:
    """Read a moment; None for one that no clock can show, which is reported.

    ``what``: the column and its row.
    """
    if column is None:
        return None
    found = float(column)
    if math.isfinite(found):
        return found
    report(Unreadable(what, f"it is {column.decode().lower()}"))
    return None


class RowReader:
    """Reads rows of one answer, and remembers those that cannot be read."""

    def __init__(self) -> None:
        self.commands: list[Key] = []
        self.events: list[Key] = []

    def command(self, execution_id: int, command_id: str, read: Callable[[], Command]) -> Command | None:
        """Read a command from its row; None when that cannot be read."""
        row = f"command {command_id} of execution {execution_id}"
        return self._read(read, row, self.commands, (execution_id, command_id))

    def loop(self, execution_id: int, run: int, body: bytes) -> LoopRow | None:
        """Read a loop from its row; None when that cannot be read."""
        found = attempt(
            lambda: codec.decode_as(_LOOP, body), f"the loop of run {run} of execution {execution_id}"
        )
        if isinstance(found, Unreadable):
            report(found)
            return None
        return found

    def event(self, execution_id: int, event_id: str, payload: bytes) -> Event | None:
        """Read an event from its row of the outbox; None when that cannot be read."""
        row = f"event {event_id} in the outbox of execution {execution_id}"
        return self._read(lambda: decode_event(payload), row, self.events, (execution_id, event_id))

    def _read(self, read: Callable[[], T], row: str, kept: list[Key], key: Key) -> T | None:
        found = attempt(read, row)
        if isinstance(found, Unreadable):
            report(found)
            kept.append(key)
            return None
        return found

    def set_aside(self, database: Database, owner: str) -> None:
        """Take the rows that could not be read from ``owner``.

        One more round trip, when there are any. Raises InfrastructureError(code="outcome_unknown"): what the statement
        before it gave to ``owner`` is lost with this error.
        """
        if not (self.commands or self.events):
            return
        try:
            self._set_aside(database, owner)
        except InfrastructureError as error:
            raise InfrastructureError(
                f"rows that cannot be read could not be set aside: {error.message}", code=UNKNOWN
            ) from error

    def _set_aside(self, database: Database, owner: str) -> None:
        database.run(
            "set_aside",
            {
                "owner": text(owner),
                "seconds": number(ASIDE_SECONDS),
                "command_executions": numbers([execution_id for execution_id, _ in self.commands]),
                "commands": texts([name for _, name in self.commands]),
                "event_executions": numbers([execution_id for execution_id, _ in self.events]),
                "events": texts([name for _, name in self.events]),
            },
        )
