"""Idle connections, kept for the next task: at most so many, and for so many seconds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from noetl.kinds.support.call_deadline import CallDeadline

Key = TypeVar("Key", bound=Hashable)
Connection = TypeVar("Connection")


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment on two clocks.

    A frozen machine may have stopped the one, and an operator may have set the other.
    """

    steady: float
    wall: float

    def age(self, now: Moment) -> float:
        """Return the seconds until ``now`` by the clock that counts more of them."""
        return max(now.steady - self.steady, now.wall - self.wall)


def read_clocks() -> Moment:
    """Tell the time on both clocks."""
    return Moment(time.monotonic(), time.time())


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Key, Connection]):
    key: Key
    connection: Connection
    since: Moment


class Idle(Generic[Key, Connection]):
    """Idle connections by key, safe to share between threads.

    A forked process starts with none. Above the limit, the connection that has been idle longest is closed. One that is too old is closed
    without a call that asks for it.
    """

    def __init__(
        self,
        most: int,
        seconds: float,
        close: Callable[[Connection], None],
        now: Callable[[], Moment] = read_clocks,
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._close = close
        self._now = now
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._left_behind: list[object] = []
        self._serial = 0
        self._kept: dict[int, _Entry[Key, Connection]] = {}
        """By serial number, and so from the one that has been idle longest to the latest one."""
        self._serials: dict[Key, list[int]] = {}
        self._sweep_is_set = False

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, key: Key, connection: Connection) -> None:
        """Keep a connection that is ready for the next task."""
        now = self._now()
        with self._lock:
            self._own()
            self._serial += 1
            self._kept[self._serial] = _Entry(key, connection, now)
            self._serials.setdefault(key, []).append(self._serial)
            surplus = [self._remove_first() for _ in range(len(self._kept) - self._most)]
            first = not self._sweep_is_set
            self._sweep_is_set = True
        self._close_all(surplus)
        if first:
            self._set_sweep(self._seconds)

    def take(self, key: Key) -> Connection | None:
        """Take the connection that was used last, or None; it is the caller's from now on."""
        now = self._now()
        with self._lock:
            self._own()
            serials = self._serials.get(key)
            if serials is None:
                return None
            entry = self._kept[serials[-1]]
            if entry.since.age(now) < self._seconds:
                self._remove(key, serials.pop())
                return entry.connection
            # The others of this key are older still.
            old = [self._remove(key, serials.pop()) for _ in range(len(serials))]
        self._close_all(old)
        return None

    def close_idle(self, older_than: float = 0.0) -> None:
        """Close connections that no task used for so many seconds."""
        self._close_all(self._old(older_than))

    def _old(self, seconds: float) -> list[_Entry[Key, Connection]]:
        now = self._now()
        found = []
        with self._lock:
            self._own()
            while self._kept and next(iter(self._kept.values())).since.age(now) >= seconds:
                found.append(self._remove_first())
        return found

    def _remove_first(self) -> _Entry[Key, Connection]:
        serial, entry = next(iter(self._kept.items()))
        self._serials[entry.key].remove(serial)
        return self._remove(entry.key, serial)

    def _remove(self, key: Key, serial: int) -> _Entry[Key, Connection]:
        if not self._serials[key]:
            del self._serials[key]
        return self._kept.pop(serial)

    def _own(self) -> None:
        """Leave the parent's connections alone: closing them here would end them there."""
        if self._process != os.getpid():
            self._left_behind += [entry.connection for entry in self._kept.values()]
            self._kept, self._serials, self._sweep_is_set = {}, {}, False
            self._process = os.getpid()

    def _close_all(self, entries: list[_Entry[Key, Connection]]) -> None:
        for entry in entries:
            self._close(entry.connection)

    def _set_sweep(self, seconds: float) -> None:
        # Nobody leaves this block: the alarm always rings.
        CallDeadline(time.monotonic() + seconds, self._sweep).__enter__()

    def _sweep(self) -> None:
        self._close_all(self._old(self._seconds))
        now = self._now()
        with self._lock:
            first = next(iter(self._kept.values()), None)
            self._sweep_is_set = first is not None
        if first is not None:
            self._set_sweep(max(0.05, self._seconds - first.since.age(now)))
