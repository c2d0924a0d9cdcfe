"""The scheduler of a pool: which ready command runs next.

The highest priority goes first, and executions of one priority take turns. Where an execution keeps something warm between its commands
(the child process of its code), only so many are warm at once: those that have begun continue, and others begin as places become free.
If none begins for ``PATIENCE``, the first in line takes the place of another, so that no execution waits for ever; that costs a child
in so many seconds, not one per command. An execution that has a command running leaves its others until no other execution has one that
is ready, or until they have waited for ``PATIENCE`` and there is a place for another child.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from noetl.domain.workers.process_need import Need

T = TypeVar("T")
PATIENCE = 0.25
"""Seconds in which no execution began, after which the first that waits to begin takes the place of another."""


def _no_need(execution_id: int) -> Need:
    return Need.NONE


@dataclass(slots=True)
class _Line(Generic[T]):
    """Ready items of an execution. ``since``: when it came into line, or had its last turn."""

    since: float
    items: deque[T] = field(default_factory=deque)


@dataclass(slots=True)
class _Level(Generic[T]):
    """Executions of one priority with ready items, whose turn is next first. No line is empty."""

    warm: OrderedDict[int, _Line[T]] = field(default_factory=OrderedDict)
    cold: OrderedDict[int, _Line[T]] = field(default_factory=OrderedDict)


class _Warm(msgspec.Struct):
    """An execution that has warm children.

    ``children``: as many as ran at once. ``priority``: of its last item. ``over``: it has ended.
    """

    priority: int
    running: int = 0
    children: int = 0
    over: bool = False


class Turns(Generic[T]):
    """The ready items of a pool. Not for several threads at once.

    ``places``: how many children there may be; None: nothing is kept warm. ``need``: how much an execution of which nothing is ready or
    running in this pool is in need of its child. Moments are seconds of any one clock.
    """

    def __init__(
        self,
        places: int | None = None,
        need: Callable[[int], Need] = _no_need,
    ) -> None:
        self._places, self._need, self._patience = places, need, PATIENCE
        self._levels: dict[int, _Level[T]] = {}
        self._warm: OrderedDict[int, _Warm] = OrderedDict()
        """Longest unused first."""
        self.children = 0
        """At most ``places`` of them."""
        self._begun = -math.inf
        """When an execution was last given a place."""
        self._refused: float | None = None
        """Since when nothing was taken although something was ready."""
        self._new_last = False
        """The last turn went to a new execution: the next one goes to a warm one that is ready."""
        self.ready = 0
        self.running = 0

    def __bool__(self) -> bool:
        """Return whether an item is ready."""
        return self.ready > 0

    @property
    def runnable(self) -> int:
        """Count about how many commands could run now, without those that wait for a place.

        Any thread may call this.
        """
        if self._places is None:
            return self.ready
        levels = list(self._levels.values())
        new = sum(len(level.cold) for level in levels)
        return sum(len(level.warm) for level in levels) + min(new, self._places - self.children)

    def wants(self, execution_id: int) -> bool:
        """Return whether an item of this execution is ready or running. Any thread may ask."""
        warm = self._warm.get(execution_id)
        if warm is not None and warm.running:
            return True
        levels = list(self._levels.values())
        return any(execution_id in level.warm or execution_id in level.cold for level in levels)

    def is_cold(self, execution_id: int) -> bool:
        """Return whether the next item of this execution needs a new child.

        Any thread may ask.
        """
        return self._places is not None and execution_id not in self._warm

    def add(self, item: T, execution_id: int, priority: int, now: float) -> None:
        """Put an item in line."""
        level = self._levels.setdefault(priority, _Level())
        lines = level.warm if self._places is None or execution_id in self._warm else level.cold
        lines.setdefault(execution_id, _Line(now)).items.append(item)
        self.ready += 1

    def next(self, now: float) -> T | None:
        """Take the item that runs now; the caller calls ``done`` when it has run.

        None: nothing is ready, or what is waits for a place.
        """
        if not self._levels:
            return None
        priority = max(self._levels)
        execution_id = self._choose(priority, self._levels[priority], now)
        if execution_id is None:
            self._refused = now if self._refused is None else self._refused
            return None
        self._refused = None
        if self._places is not None:
            self._begin(execution_id, priority, now)
        self.running += 1
        level = self._levels[priority]
        (level.warm.get(execution_id) or level.cold[execution_id]).since = now
        return self._pop(priority, execution_id)

    def done(self, execution_id: int) -> None:
        """Release what an item of this execution held."""
        self.running -= 1
        warm = self._warm.get(execution_id)
        if warm is None:
            return
        warm.running -= 1
        if warm.over:
            self._end(execution_id, warm)
        else:
            self._warm.move_to_end(execution_id)

    def undo(self, execution_id: int) -> None:
        """Release what an item of this execution held that did not begin, and idle children."""
        self.running -= 1
        warm = self._warm.get(execution_id)
        if warm is not None:
            warm.running -= 1
            self._end(execution_id, warm)

    def end(self, execution_id: int) -> None:
        """Free the places of an execution that has ended, except those of items that still run."""
        warm = self._warm.get(execution_id)
        if warm is not None:
            warm.over = True
            self._end(execution_id, warm)

    def take(self, limit: int) -> list[T]:
        """Hand out at most ``limit`` ready items, in turn from each execution.

        Of one priority, the executions without a child in this process go first.
        """
        found: list[T] = []
        while self._levels and len(found) < limit:
            priority = max(self._levels)
            level = self._levels[priority]
            found.append(self._pop(priority, next(iter(level.cold or level.warm))))
        return found

    def take_one(self, execution_id: int, wanted: Callable[[T], bool]) -> list[T]:
        """Hand out the first ready item of this execution that is wanted, if there is one."""
        for priority, level in self._levels.items():
            line = level.warm.get(execution_id) or level.cold.get(execution_id)
            found = [item for item in line.items if wanted(item)][:1] if line is not None else []
            if line is not None and found:
                line.items.remove(found[0])
                self._forget_empty(priority, execution_id, line)
                return found
        return []

    @property
    def pause(self) -> float | None:
        """Return the seconds after which to ask again although nothing has happened.

        None while nothing is ready.
        """
        return self._patience if self._levels else None

    # --- the choice ---

    def _choose(self, priority: int, level: _Level[T], now: float) -> int | None:
        if self._places is None:
            return next(iter(level.warm))
        busy = self._longest_passed_over(level, now)
        if busy is not None and self._make_room(busy, priority, Need.ELSEWHERE):
            return busy
        new = next(iter(level.cold), None)
        if (
            new is not None
            and self._is_late(level.cold[new], now)
            and self._make_room(new, priority, Need.NOW)
        ):
            return new
        ready = next((one for one in level.warm if self._is_idle(one)), None)
        if (
            new is not None
            and (ready is None or not self._new_last)
            and self._make_room(new, priority, Need.NONE)
        ):
            self._new_last = True
            return new
        if ready is not None:
            self._new_last = False
            return ready
        most = Need.NOW if self._is_refused_long(now) else Need.ELSEWHERE
        for one in (new, next(iter(level.warm), None)):
            if one is not None and self._make_room(one, priority, most):
                return one
        return None

    def _is_refused_long(self, now: float) -> bool:
        """Return whether no ready command could begin for longer than the patience allows."""
        return self._refused is not None and self._refused <= now - self._patience

    def _longest_passed_over(self, level: _Level[T], now: float) -> int | None:
        """Return the execution that waits longest for another child beside those that are busy.

        None: none has waited for too long.
        """
        waiting = [
            (line.since, one)
            for one, line in level.warm.items()
            if line.since <= now - self._patience and not self._is_idle(one)
        ]
        return min(waiting)[1] if waiting else None

    def _is_late(self, line: _Line[T], now: float) -> bool:
        """Return whether the first of the new executions has waited too long.

        No other execution began meanwhile.
        """
        return max(line.since, self._begun) <= now - self._patience

    def _is_idle(self, execution_id: int) -> bool:
        """Return whether a child waits for this execution."""
        warm = self._warm.get(execution_id)
        return warm is not None and warm.running < warm.children

    def _make_room(self, execution_id: int, priority: int, most: Need) -> bool:
        """Return whether another child has a place.

        An execution that needs its child no more than ``most``, or has a lower priority, loses that child to make the place.
        """
        assert self._places is not None
        if self.children < self._places:
            return True
        needs = [
            (self._need_of(one), place, one)
            for place, (one, warm) in enumerate(self._warm.items())
            if one != execution_id and warm.running < warm.children
        ]
        able = [found for found in needs if found[0] <= most or self._warm[found[2]].priority < priority]
        if not able:
            return False
        self._lose(min(able)[2])
        return True

    def _need_of(self, execution_id: int) -> Need:
        if self._warm[execution_id].running or any(
            execution_id in level.warm for level in self._levels.values()
        ):
            return Need.NOW
        return self._need(execution_id)

    def _lose(self, execution_id: int) -> None:
        """Drop an idle child. One that has no other is new again, and comes last."""
        warm = self._warm[execution_id]
        warm.children -= 1
        self.children -= 1
        if warm.children:
            return
        del self._warm[execution_id]
        self._move(execution_id, to_warm=False)

    def _move(self, execution_id: int, *, to_warm: bool) -> None:
        for level in self._levels.values():
            here, there = (level.cold, level.warm) if to_warm else (level.warm, level.cold)
            if line := here.pop(execution_id, None):
                there[execution_id] = line

    def _begin(self, execution_id: int, priority: int, now: float) -> None:
        warm = self._warm.get(execution_id)
        if warm is None:
            warm = self._warm[execution_id] = _Warm(priority)
            self._move(execution_id, to_warm=True)
            self._begun = now
        warm.priority, warm.over = priority, False
        warm.running += 1
        if warm.running > warm.children:
            warm.children += 1
            self.children += 1

    def _end(self, execution_id: int, warm: _Warm) -> None:
        self.children -= warm.children - warm.running
        warm.children = warm.running
        if not warm.running:
            del self._warm[execution_id]
            self._move(execution_id, to_warm=False)

    def _pop(self, priority: int, execution_id: int) -> T:
        level = self._levels[priority]
        lines = level.warm if execution_id in level.warm else level.cold
        line = lines[execution_id]
        item = line.items.popleft()
        lines.move_to_end(execution_id)
        self._forget_empty(priority, execution_id, line)
        return item

    def _forget_empty(self, priority: int, execution_id: int, line: _Line[T]) -> None:
        """Remove ``line`` if the item taken from it was its last."""
        self.ready -= 1
        level = self._levels[priority]
        if not line.items:
            level.warm.pop(execution_id, None)
            level.cold.pop(execution_id, None)
        if not level.warm and not level.cold:
            del self._levels[priority]
