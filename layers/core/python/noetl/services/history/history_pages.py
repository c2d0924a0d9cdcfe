"""Reader of an execution's history: whole, as it grows, or by pages from a position."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import TypeVar

import msgspec

from noetl.domain import codec, ids
from noetl.domain.errors import InvalidInputError
from noetl.domain.event_names import TERMINAL_EVENTS, Vocabulary
from noetl.domain.loop_resume import Places
from noetl.ports.executions.execution_store import ExecutionStore, StoredEvent
from noetl.services.history.event_filter import EVERYTHING, EventFilter
from noetl.services.history.read_history import HistoryEvent, facts_of, row_events

PAGE = 500
FIRST_ROUND = 1
"""Every loop run is its step run's only one."""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The position at which a reader stopped.

    ``seq``: the last main-lane row that it returned. ``lanes``: live loops (run, step, place of the last item returned). ``skip``: how many
    events of the next row it has returned already; ``inside``: the loop run of the item that this row belongs to, 0 for the main lane;
    negative when the reader took the last rows of failed items alone.
    """

    seq: int = 0
    lanes: tuple[tuple[int, str, int], ...] = ()
    skip: int = 0
    inside: int = 0


P = TypeVar("P")
_POSITION: msgspec.json.Decoder[Position] = codec.decoder(Position)


def encode_position(position: msgspec.Struct) -> str:
    """Encode a position as a cursor, which is text for URLs.

    ``decode_position`` reads it, and ``decode_newest`` that of the other order.
    """
    return base64.urlsafe_b64encode(codec.encode(position)).decode().rstrip("=")


def read_cursor(text: str, decoder: msgspec.json.Decoder[P]) -> P:
    """Read what ``encode_position`` wrote. Raises ValueError."""
    return decoder.decode(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))


def decode_position(text: str) -> Position:
    """Decode a cursor.

    Raises InvalidInputError(code="invalid_cursor") for anything that ``encode_position`` did not make.
    """
    try:
        found = read_cursor(text, _POSITION)
        if (
            not 0 <= found.seq < 2**62
            or not 0 <= found.skip < 2**31
            or not -(2**62) < found.inside < 2**62
            or any(not (0 <= run < 2**62 and -1 <= last < 2**62) for run, _, last in found.lanes)
        ):
            raise ValueError("out of range")
    except ValueError as error:
        raise InvalidInputError(
            f"{text[:40]!r} is not a cursor",
            code="invalid_cursor",
            hint="pass on the `next` of the page before, unchanged",
        ) from error
    return found


class CalledIndexes:
    """Indexes of items in their whole loops.

    The row of a loop that was redriven in part maps its places to them.
    """

    def __init__(self, store: ExecutionStore, execution_id: int) -> None:
        self._store, self._execution_id = store, execution_id
        self._places: dict[int, Places] = {}

    def __call__(self, run: int, place: int) -> int:
        places = self._places.get(run)
        if places is None:
            row = self._store.loop_run(self._execution_id, run, FIRST_ROUND)
            places = self._places[run] = Places(row.picked if row is not None else ())
        return places.index(place)


class HistoryReader:
    """A reader of an execution's history, from the start or from a position.

    Each ``read`` continues from where the last one stopped. While a loop runs, the reader returns its items as far as they are complete in
    index order; the others follow when the loop ends.
    """

    def __init__(
        self,
        store: ExecutionStore,
        execution_id: int,
        vocabulary: Vocabulary = "stored",
        position: Position | None = None,
        wanted: EventFilter = EVERYTHING,
    ) -> None:
        position = position or Position()
        self._store = store
        self._execution_id = execution_id
        self._vocabulary = vocabulary
        self._seq = position.seq
        self._lanes: dict[int, tuple[str, int]] = {run: (step, last) for run, step, last in position.lanes}
        """Run of a live loop → its step, and the place of the last item that was returned."""
        self._called = CalledIndexes(store, execution_id)
        self._wanted = wanted
        self.rows = 0
        """Rows whose events ``units`` has yielded so far."""
        self._begun = position.inside
        self._inside = 0
        """``Position.inside`` of the unit that was yielded last."""
        self.start = self.position
        """The position at which the unit begins that was yielded last."""

    @property
    def position(self) -> Position:
        """Return the position after all units that ``units`` has yielded so far."""
        return Position(self._seq, tuple((run, step, last) for run, (step, last) in self._lanes.items()))

    def read(self, *, everything: bool = False) -> Iterator[HistoryEvent]:
        """Yield the events since the last call, of those that are wanted.

        ``everything``: also items that wait for earlier ones, since nothing more will be read.
        """
        for unit in self.units(everything=everything):
            yield from filter(self._wanted.fits, unit)

    def units(self, *, everything: bool = False, page: int = 0) -> Iterator[list[HistoryEvent]]:
        """Yield groups of events that belong together: those of one row, or of one item.

        A reader may stop after any group and continue from its position, or inside one and continue from its start. ``page``: rows to read
        at once; 0: the usual number. A group is whole, so that a position counts all events; only items that cannot have a wanted event
        are passed over unread.
        """
        before = self.position
        for unit in self._units(everything, page):
            self.start = msgspec.structs.replace(before, inside=self._inside)
            yield unit
            before = self.position

    def _units(self, everything: bool, page: int) -> Iterator[list[HistoryEvent]]:
        begun, self._begun = self._begun, 0
        if abs(begun) in self._lanes:  # A part of this item was returned: rows that came meanwhile follow it.
            yield from islice(self._items(abs(begun), gaps=True, failed=begun < 0), 1)
        for row in self._main_rows(page or PAGE):
            yield from self._row(row)
        for run in list(self._lanes):
            yield from self._items(run, gaps=everything, failed=everything and self._takes_failed(run))

    def _main_rows(self, size: int) -> Iterator[StoredEvent]:
        while True:
            page = self._store.events(self._execution_id, after=self._seq, limit=size)
            yield from page
            if len(page) < size:
                return

    def _row(self, row: StoredEvent) -> Iterator[list[HistoryEvent]]:
        """Yield the events of a row, after the items of the loops that end with it.

        A row that ends the execution comes after all items. A row counts as read when its own events were returned: a reader that stops
        before that reads it again.
        """
        facts = facts_of(row)
        loops = [fact for fact in facts if fact.get("name") in ("loop.started", "loop.done")]
        ending = {fact.get("run", -1) for fact in loops if fact["name"] == "loop.done"}
        if any(fact.get("name") in TERMINAL_EVENTS for fact in facts):
            ending |= self._lanes.keys()
        for fact in loops:
            run = fact.get("run", -1)
            if fact["name"] == "loop.started" and not (run in ending and run in self._lanes):
                self._lanes[run] = (str(fact.get("step", "")), -1)
        for run in ending & self._lanes.keys():
            yield from self._items(run, gaps=True, failed=self._takes_failed(run))
        events = list(row_events(self._execution_id, row, vocabulary=self._vocabulary, called=self._called))
        self._seq = max(self._seq, row.seq)
        for run in ending:
            self._lanes.pop(run, None)
        self.rows += 1
        self._inside = 0
        yield events

    def _takes_failed(self, run: int) -> bool:
        """Return whether only failed items of a loop can have wanted events."""
        return self._wanted.items_of(self._lanes[run][0]) == "failed"

    def _items(self, run: int, *, gaps: bool, failed: bool) -> Iterator[list[HistoryEvent]]:
        step, last = self._lanes[run]
        more = self._wanted.items_of(step) != "none"
        while more:
            page, more = self._item_page(run, last, failed=failed)
            for index, rows in groupby(page, key=attrgetter("seq")):
                item = sorted(rows, key=turn_order)
                if not gaps and (index != last + 1 or is_suspended(item[-1])):
                    return
                events = [
                    event
                    for row in item
                    for event in row_events(
                        self._execution_id, row, step=step, vocabulary=self._vocabulary, called=self._called
                    )
                ]
                last = index
                self._lanes[run] = (step, last)
                self.rows += len(item)
                self._inside = -run if failed else run
                yield events

    def _item_page(self, run: int, after: int, *, failed: bool) -> tuple[Sequence[StoredEvent], bool]:
        """Read rows of whole items; also return whether there are more.

        An item that was suspended has a row for each turn. ``failed``: only the last rows of items that failed.
        """
        limit = PAGE
        if failed:
            page = self._store.failed_items(self._execution_id, run, limit, after=after)
            return page, len(page) == limit
        while True:
            page = self._store.item_events(self._execution_id, run, after=after, limit=limit)
            if len(page) < limit:
                return page, False
            whole = [row for row in page if row.seq < page[-1].seq]
            if whole:
                return whole, True
            limit *= 2


def is_suspended(row: StoredEvent) -> bool:
    """Check whether the row of an item is that of a turn after which the item continues."""
    return not ids.ends_item(row.event_id)


def turn_order(row: StoredEvent) -> tuple[bool, int, float]:
    """Return the sort key of an item's row.

    Turns that were committed together have one time, so the number of the turn decides.
    """
    return (not is_suspended(row), ids.turn_of_item(row.event_id), row.at)


def history(
    store: ExecutionStore,
    execution_id: int,
    vocabulary: Vocabulary = "stored",
    wanted: EventFilter = EVERYTHING,
) -> Iterator[HistoryEvent]:
    """Yield the wanted events of an execution so far, in order."""
    return HistoryReader(store, execution_id, vocabulary, wanted=wanted).read(everything=True)
