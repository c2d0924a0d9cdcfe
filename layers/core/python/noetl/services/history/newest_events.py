"""Reader of an execution's history from its end.

The newest event comes first. Events of single items of loops are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.event_names import Vocabulary
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.history.event_filter import EVERYTHING, EventFilter
from noetl.services.history.history_pages import CalledIndexes, read_cursor
from noetl.services.history.read_history import HistoryEvent, row_events

END = 2**62
"""Behind every row."""
PAGE = 500


class NewestPosition(msgspec.Struct, frozen=True, array_like=True, tag="newest"):
    """The position at which a reader from the end stopped.

    ``before``: the place of the oldest row that it returned whole, or the one after the row that it returned in part: rows that are added
    meanwhile are newer than both. ``skip``: how many events of the next older row it has returned already.
    """

    before: int = END
    skip: int = 0


_POSITION: msgspec.json.Decoder[NewestPosition] = codec.decoder(NewestPosition)


def decode_newest(text: str) -> NewestPosition:
    """Decode a cursor of this order, which ``encode_position`` made.

    Raises InvalidInputError(code="invalid_cursor"), also for a cursor of the other order.
    """
    try:
        found = read_cursor(text, _POSITION)
        if not (0 <= found.before <= END and 0 <= found.skip < 2**31):
            raise ValueError("out of range")
    except ValueError as error:
        raise InvalidInputError(
            f"{text[:40]!r} is not a cursor of the newest events",
            code="invalid_cursor",
            hint="pass on the `next` of the page before, unchanged, with the same `order`",
        ) from error
    return found


class NewestReader:
    """A reader of the main lane, from the end or from a position."""

    def __init__(
        self,
        store: ExecutionStore,
        execution_id: int,
        vocabulary: Vocabulary = "stored",
        position: NewestPosition | None = None,
    ) -> None:
        self._store, self._execution_id, self._vocabulary = store, execution_id, vocabulary
        self.position = msgspec.structs.replace(position or NewestPosition(), skip=0)
        """The position after all units that ``units`` has yielded so far."""
        self.start = self.position
        """The position at which the unit begins that was yielded last."""
        self._called = CalledIndexes(store, execution_id)
        self.rows = 0
        """Rows whose events ``units`` has yielded so far."""

    def units(self, *, page: int = PAGE) -> Iterator[list[HistoryEvent]]:
        """Yield the events of each row, the newest first.

        A reader may stop after any row and continue from its position. ``page``: rows to read at once.
        """
        while True:
            rows = self._store.events_before(self._execution_id, self.position.before, page)
            for row in rows:
                events = list(
                    row_events(self._execution_id, row, vocabulary=self._vocabulary, called=self._called)
                )
                self.start, self.position = NewestPosition(row.seq + 1), NewestPosition(row.seq)
                self.rows += 1
                yield events[::-1]
            if len(rows) < page:
                return


def newest_events(
    store: ExecutionStore,
    execution_id: int,
    vocabulary: Vocabulary,
    count: int,
    wanted: EventFilter = EVERYTHING,
) -> list[HistoryEvent]:
    """Return the latest events of those that are wanted, in the order in which they happened."""
    found: list[HistoryEvent] = []
    page = PAGE if wanted else min(count, PAGE)
    for unit in NewestReader(store, execution_id, vocabulary).units(page=page):
        found += filter(wanted.fits, unit)
        if len(found) >= count:
            break
    return found[:count][::-1]
