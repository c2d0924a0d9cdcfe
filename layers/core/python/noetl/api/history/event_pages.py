"""Pages of an execution's events: all of them, or those that a filter wants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.api.nouns.executions import escaped_size
from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.event_names import VOCABULARIES, Vocabulary
from noetl.domain.state import TERMINAL
from noetl.services.history.event_filter import EventFilter, make_filter
from noetl.services.history.history_pages import HistoryReader, Position, decode_position, encode_position
from noetl.services.history.newest_events import PAGE, NewestPosition, NewestReader, decode_newest
from noetl.services.history.read_history import HistoryEvent
from noetl.services.queries import read_execution

ROWS = 5000
"""Most rows that one request of a filter looks at."""
SECONDS = 1.0
"""How long one request of a filter looks, at most."""
_Position = TypeVar("_Position")
_LARGE_EVENT = 1_000_000


class _Found:
    """The events that one request has found, and how far it has looked."""

    def __init__(self, limit: int, size: int) -> None:
        self._limit, self._left = limit, size
        self.texts: list[str] = []
        self.scanned = 0
        self.scanned_until: str | None = None

    def is_full(self) -> bool:
        return len(self.texts) >= self._limit or self._left < 0

    def look_at(self, event: HistoryEvent, wanted: EventFilter) -> None:
        self.scanned += 1
        self.scanned_until = event.timestamp
        if wanted.fits(event):
            self.texts.append(_event_text(event))
            self._left -= escaped_size(self.texts[-1])


def get_events(deps: ApiDeps, request: Request) -> Answer:
    """Answer a page of events: at most ``limit``, and fewer when they are large.

    With a filter a page may be short or empty although more events follow: the rows and the time of one request are bounded.
    """
    execution_id, limit = (
        parse.execution_id(request.params["execution_id"]),
        parse.limit(request, 200, 1000),
    )
    until = time.monotonic() + SECONDS
    wanted = _wanted(request)
    over = read_execution.find(deps.store, execution_id).status in TERMINAL
    stop, reader, units, complete = _reading(deps, request, execution_id, limit, wanted, over=over)
    found = _Found(limit, deps.max_answer // 2)
    skip, more = stop.skip, False
    for unit in units:
        taken = skip
        for event in unit[skip:]:
            if found.is_full():
                break
            found.look_at(event, wanted)
            taken += 1
        skip = 0
        if taken < len(unit):
            stop, more = msgspec.structs.replace(reader.start, skip=taken), True
            break
        stop = reader.position
        if wanted and (reader.rows >= ROWS or time.monotonic() > until):
            more = True
            break
    head = codec.encode(
        {
            "execution_id": str(execution_id),
            "next": encode_position(stop),
            "complete": complete and not more,
            "more": more,
            "scanned": found.scanned,
            "scanned_until": found.scanned_until,
        }
    ).decode()
    return Answer(200, text=f'{head[:-1]},"events":[{",".join(found.texts)}]}}')


def _reading(
    deps: ApiDeps, request: Request, execution_id: int, limit: int, wanted: EventFilter, *, over: bool
) -> tuple[Position | NewestPosition, HistoryReader | NewestReader, Iterator[list[HistoryEvent]], bool]:
    """Return the position to read from, the reader, and its units.

    Also whether a page that takes all of them is the last one.
    """
    words = _vocabulary(request)
    rows = PAGE if wanted else limit
    if parse.newest_first(request):
        newest = _position(request, decode_newest) or NewestPosition()
        from_end = NewestReader(deps.store, execution_id, words, newest)
        return newest, from_end, from_end.units(page=rows), True
    place = _position(request, decode_position) or Position()
    reader = HistoryReader(deps.store, execution_id, words, place, wanted)
    return place, reader, reader.units(everything=over, page=rows), over


def _wanted(request: Request) -> EventFilter:
    types = filter(None, (one.strip() for one in request.query.get("types", "").split(",")))
    try:
        return make_filter(_vocabulary(request), types, request.query.get("step", ""))
    except InvalidInputError as error:
        raise BadRequestError(error.message, code="invalid_parameter", hint=error.hint) from error


def _position(request: Request, decode: Callable[[str], _Position]) -> _Position | None:
    after = parse.after(request)
    if not after:
        return None
    try:
        return decode(after)
    except InvalidInputError as error:
        raise parse.bad_cursor(after) from error


def _vocabulary(request: Request) -> Vocabulary:
    vocabulary = request.query.get("vocabulary", "stored")
    for known in VOCABULARIES:
        if vocabulary == known:
            return known
    raise BadRequestError(
        f"vocabulary={vocabulary[:40]!r} is none of {', '.join(VOCABULARIES)}", code="invalid_parameter"
    )


def _event_text(event: HistoryEvent) -> str:
    """Return an event as JSON; without its payload when it would fill an answer alone."""
    text = codec.encode(event).decode()
    if len(text) <= _LARGE_EVENT:
        return text
    short = {"truncated": True, "bytes": len(text)}
    return codec.encode(msgspec.structs.replace(event, payload=short)).decode()
