"""Streams of changes: one thread queries the store for all of them.

Each stream waits in the server's loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from noetl.api.live.changes import changed, cursor, events
from noetl.domain.errors import OverloadedError
from noetl.ports.executions.execution_store import NEWEST, Pulse

LOOK_SECONDS = 1.0
"""Pause between two questions to the store."""
SOON_SECONDS = 0.25
"""Least time between two questions, so between two messages of a topic."""
HEARTBEAT_SECONDS = 15.0
LIFE_SECONDS = 600.0
"""After that a stream ends. Its client asks again, and the server checks again who may watch."""
MOST_STREAMS = 1000
JOIN_SECONDS = 5.0
Read = Callable[[Sequence[int]], Mapping[int, Pulse]]


class _Stream:
    """One client.

    ``known``: digests of what it has; used by the loop alone. ``shown``: whether it was shown a reading; used by the
    hub's thread alone.
    """

    def __init__(self, topics: Mapping[str, int], known: frozenset[str]) -> None:
        self.topics, self.known = topics, known
        self.watched, self.shown = frozenset(topics.values()), False
        self.loop = asyncio.get_running_loop()
        self.news = asyncio.Event()
        self.pulses: Mapping[int, Pulse] | None = None
        self.over = False

    def show(self, pulses: Mapping[int, Pulse] | None) -> None:
        """Store the latest reading, in place of one not sent yet; None: the hub has ended."""
        self.over = self.over or pulses is None
        self.pulses = pulses if pulses is not None else self.pulses
        self.news.set()


class ChangeHub:
    """The streams of changes, fed by one query for all of them.

    ``read``: asks the store for all ids in one query. ``log``: called once when the store does not answer.
    """

    def __init__(self, read: Read, log: Callable[[str], None]) -> None:
        self._read, self._log = read, log
        self._streams: set[_Stream] = set()
        self._watched: frozenset[int] = frozenset()
        self._state = threading.Condition()
        self._woken, self._closed = False, False
        self._thread: threading.Thread | None = None

    def watch(self, topics: Mapping[str, int], known: frozenset[str]) -> AsyncGenerator[bytes, None]:
        """Return the stream of a client. Raises OverloadedError when there are too many."""
        if len(self._streams) >= MOST_STREAMS:
            raise OverloadedError(
                "too many streams are open", code="too_many_streams", hint="use GET /api/changes"
            )
        return self._events(topics, known)

    def wake(self, execution_ids: Iterable[int]) -> None:
        """Ask the store soon, if one of these is watched: this process has changed them."""
        watched = self._watched
        if watched and (NEWEST in watched or not watched.isdisjoint(execution_ids)):
            with self._state:
                self._woken = True
                self._state.notify_all()

    def close(self) -> None:
        """End all streams, and the thread."""
        with self._state:
            self._closed = True
            self._state.notify_all()
            for one in self._streams:
                _notify(one, None)
            thread = self._thread
        if thread is not None:
            thread.join(JOIN_SECONDS)  # a database may be silent

    async def _events(self, topics: Mapping[str, int], known: frozenset[str]) -> AsyncGenerator[bytes, None]:
        stream = _Stream(topics, known)
        now = time.monotonic()
        until, beat = now + LIFE_SECONDS, _next_beat(now)
        self._add(stream)
        try:
            yield b": changes\n\n"
            while not stream.over and now < until:
                # Not `wait_for`: before Python 3.12 it may lose the cancellation of a client that leaves.
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(until, beat) - now):
                        await stream.news.wait()
                stream.news.clear()
                if (now := time.monotonic()) >= beat:
                    beat = _next_beat(now)
                    yield b": heartbeat\n\n"
                if (pulses := stream.pulses) is not None:
                    stream.pulses = None
                    found, stream.known = changed(stream.topics, pulses, stream.known)
                    if found:
                        yield events(found, cursor(stream.known))
        finally:
            self._remove(stream)

    def _add(self, stream: _Stream) -> None:
        with self._state:
            if self._closed:
                stream.over = True
                return
            self._streams.add(stream)
            self._rewatch()
            self._woken = True
            self._state.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="noetl-changes", daemon=True)
                self._thread.start()

    def _remove(self, stream: _Stream) -> None:
        with self._state:
            self._streams.discard(stream)
            self._rewatch()

    def _rewatch(self) -> None:
        self._watched = frozenset().union(*(one.watched for one in self._streams))

    def _run(self) -> None:
        silent, looked = False, 0.0
        last: Mapping[int, Pulse] = {}
        while self._wait(looked):
            looked = time.monotonic()
            with self._state:
                streams, watched = list(self._streams), sorted(self._watched)
            try:
                pulses = self._read(watched)
            except Exception as error:
                if not silent:
                    self._log(f"changes cannot be read: {error}")
                silent = True
                continue
            silent = False
            # A reading costs a stream that wakes as much as a message: those whose topics are as before stay asleep.
            news = {about for about in watched if pulses.get(about) != last.get(about)}
            last = pulses
            for one in streams:
                if not (one.shown and news.isdisjoint(one.watched)):
                    one.shown = True
                    _notify(one, pulses)

    def _wait(self, looked: float) -> bool:
        """Wait for the next question; not at all for time while no stream is open.

        False: the hub is closed.
        """
        with self._state:
            while not self._closed:
                passed = time.monotonic() - looked
                pause = (SOON_SECONDS if self._woken else LOOK_SECONDS) - passed
                if not self._streams:
                    self._state.wait()
                elif pause > 0:
                    self._state.wait(pause)
                else:
                    self._woken = False
                    return True
            return False


def _next_beat(now: float) -> float:
    """Return the moment of the next heartbeat.

    It is the same for all streams, so that the loop wakes once for all of them.
    """
    return (now // HEARTBEAT_SECONDS + 1.0) * HEARTBEAT_SECONDS


def _notify(stream: _Stream, pulses: Mapping[int, Pulse] | None) -> None:
    with suppress(RuntimeError):  # the server's loop has ended
        stream.loop.call_soon_threadsafe(stream.show, pulses)
