"""Polling of remote executions for new events, at longer intervals while nothing happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import to_builtins

from noetl.api.http.bodies import EventPage, ExecutionAnswer, StatusAnswer
from noetl.api.nouns.logs import LinesAnswer
from noetl.cli.client.http_client import Client
from noetl.domain.state import TERMINAL
from noetl.domain.task_logs import TaskLine
from noetl.services.history.event_filter import EVERYTHING, EventFilter
from noetl.services.history.log_lines import EVERY_LINE, LineFilter
from noetl.services.history.progress import Progress
from noetl.services.history.read_history import HistoryEvent

PAGE = 1000
SOONEST, LATEST = 0.2, 2.0
"""Seconds between two looks: the first while something happens, the second after a while of nothing."""
SLOWER = 1.4
TICK = 0.1
APPLIED = 15.0
"""Seconds within which a change that was accepted shows in the history; after them it is not waited for."""

ONE = "/api/executions/{}"


class History:
    """Reads one execution's history once, and then what is added."""

    def __init__(
        self,
        client: Client,
        execution_id: int,
        vocabulary: str = "stored",
        wanted: EventFilter = EVERYTHING,
    ) -> None:
        self._client, self._path = client, f"{ONE.format(execution_id)}/events"
        self._query = {"vocabulary": vocabulary, **_query(wanted)}
        self._after: str | None = None
        self._more = False
        self.complete = False
        """The execution has ended, and every event was read."""

    def read(self) -> list[HistoryEvent]:
        """Events since the last call, at most a page of them."""
        page = self._client.get(self._path, EventPage, after=self._after, limit=PAGE, **self._query)
        self._after, self.complete, self._more = page.next, page.complete, page.more
        return page.events

    def all(self) -> Iterator[HistoryEvent]:
        """Read everything there is now.

        Short pages may be followed by more, and of a filter empty ones, too.
        """
        while True:
            found = self.read()
            yield from found
            if self.complete or not (found or self._more):
                return

    def follow(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[HistoryEvent]:
        """Everything until the execution ends."""
        pace = PollInterval()
        while True:
            found = self.read()
            yield from found
            if self.complete:
                return
            if not (found or self._more):
                sleep(pace.after(False))
            else:
                pace.after(True)


def _query(wanted: EventFilter) -> dict[str, str | None]:
    """The parameters that say what is wanted; those that are None are not sent."""
    return {"types": ",".join(sorted(wanted.types)) or None, "step": wanted.step or None}


def newest_events(
    client: Client, execution_id: int, vocabulary: str, count: int, wanted: EventFilter = EVERYTHING
) -> list[HistoryEvent]:
    """The latest events without those of items, in the order in which they happened."""
    found: list[HistoryEvent] = []
    after: str | None = None
    while len(found) < count:
        page = client.get(
            f"{ONE.format(execution_id)}/events",
            EventPage,
            after=after,
            limit=min(PAGE, count - len(found)),
            vocabulary=vocabulary,
            order="newest",
            **_query(wanted),
        )
        found += page.events
        after = page.next
        if page.complete:
            break
    return found[::-1]


def lines(
    client: Client,
    execution_id: int,
    wanted: LineFilter = EVERY_LINE,
    *,
    follow: bool,
    last: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[TaskLine]:
    """What tasks have printed, as far as it is wanted.

    ``last``: only so many of the latest that there are. ``follow``: until the execution ends.
    """
    path, query = f"{ONE.format(execution_id)}/logs", _line_query(wanted)
    after, pace = None, PollInterval()
    if last is not None:
        found, after = _last_lines(client, path, query, last)
        yield from found
        if not follow:
            return
    while True:
        page = client.get(path, LinesAnswer, after=after, limit=PAGE, **query)
        yield from page.lines
        moved, after = page.next != after, page.next
        if page.complete or not (moved or follow):
            return
        pause = pace.after(bool(page.lines))
        if not moved:
            sleep(pause)


def _line_query(wanted: LineFilter) -> dict[str, str | int | None]:
    """The parameters that say what is wanted; those that are None are not sent."""
    return {**to_builtins(wanted), "search": wanted.search or None}


def _last_lines(
    client: Client, path: str, query: Mapping[str, str | int | None], count: int
) -> tuple[list[TaskLine], str]:
    """Return the latest lines in their order, and the cursor behind them."""
    found: list[TaskLine] = []
    end: str | None = None
    after: str | None = None
    while True:
        most = min(PAGE, count - len(found))
        page = client.get(path, LinesAnswer, after=after, limit=most, order="newest", **query)
        found += page.lines
        end, after = page.end if end is None else end, page.next
        if page.complete or len(found) >= count:
            return found[::-1], end or ""


class PollInterval:
    """Seconds to the next look."""

    def __init__(self) -> None:
        self._pause = SOONEST

    def after(self, something: bool) -> float:
        """``something`` was new."""
        pause = self._pause
        self._pause = SOONEST if something else min(self._pause * SLOWER, LATEST)
        return SOONEST if something else pause


class RemoteFeed:
    """The feed of a server: events as they arrive, and the progress of steps.

    It implements ``noetl.cli.render.event_stream.Feed``.
    """

    def __init__(self, client: Client, *, expected: Collection[str] = ()) -> None:
        """``expected``: ids of accepted changes.

        Until their events appear, an execution that waits may be about to continue.
        """
        self._client = client
        self._histories: dict[int, History] = {}
        self._untold: dict[int, list[HistoryEvent]] = {}
        self._progress: dict[int, Progress] = {}
        self.expected = set(expected)

    def new_events(self, execution_id: int, *, everything: bool) -> Iterable[HistoryEvent]:
        """What ``look`` has brought since the last call; ``everything``: all there is."""
        while everything and self.look(execution_id):
            continue
        return self._untold.pop(execution_id, [])

    def progress(self, execution_id: int) -> Progress:
        """As far as was looked."""
        return self._progress.setdefault(execution_id, Progress())

    def look(self, execution_id: int) -> bool:
        """Ask for what is new; whether there was anything."""
        history = self._histories.setdefault(execution_id, History(self._client, execution_id))
        if history.complete:
            return False
        found = history.read()
        progress = self.progress(execution_id)
        for event in found:
            progress.add_event(event)
            self.expected.discard(event.event_id.rpartition(":")[0])
        self._untold.setdefault(execution_id, []).extend(found)
        return bool(found)

    def over(self, execution_id: int) -> bool:
        return self._histories[execution_id].complete


def run_until(
    client: Client,
    feed: RemoteFeed,
    ids: Collection[int],
    *,
    on_tick: Callable[[], None] | None = None,
    timeout: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when all have ended, or when those left wait for the outside.

    Raises TimeoutError.
    """
    begun, pace = clock(), PollInterval()
    left = list(ids)
    while True:
        news = sum(feed.look(one) for one in left) > 0
        left = [one for one in left if not feed.over(one)]
        if on_tick is not None:
            on_tick()
        if not left:
            return
        patient = bool(feed.expected) and clock() - begun < APPLIED
        if not news and not patient and all(_waits(client, one) for one in left):
            return
        until = clock() + pace.after(news)
        while (now := clock()) < until:
            if timeout is not None and now - begun > timeout:
                raise TimeoutError(f"not finished after {timeout:g} s")
            sleep(min(TICK, until - now))
            if on_tick is not None:
                on_tick()


def status_of(client: Client, execution_id: int) -> StatusAnswer:
    return client.get(f"{ONE.format(execution_id)}/status", StatusAnswer, full="false")


def _waits(client: Client, execution_id: int) -> bool:
    """Return whether it has ended, or only a patch or an answer from outside can continue it."""
    found = status_of(client, execution_id)
    if found.status in TERMINAL:
        return True
    if found.status != "waiting" or found.outstanding.get("outbox"):
        return False
    commands = found.outstanding.get("commands", 0)
    return not commands or commands <= _open_questions(client, execution_id)


def _open_questions(client: Client, execution_id: int) -> int:
    """Count the commands that wait for an answer; 0 while one of them has a time limit."""
    found = client.get(ONE.format(execution_id), ExecutionAnswer)
    if any(one.until is not None for one in found.awaiting):
        return 0
    return len(found.awaiting) + found.awaiting_left_out
