"""Who runs next, played in virtual time: threads, an engine that takes a while, and the children that are made on the way."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from noetl.domain.workers.process_need import Need
from noetl.services.worker.ready_commands import PATIENCE, Turns

STEP, NEW_CHILD, ENGINE = 0.002, 0.010, 0.020
"""Seconds that a command takes, that a child takes to be made, and after which the engine gives what comes next."""
ENDLESS = [1] * 100_000


@dataclass(frozen=True)
class Work:
    """An execution: commands in stages, each of which begins when the one before it has ended. ``pause``: seconds elsewhere in between,
    in which it is in ``need`` of its child."""

    stages: Sequence[int]
    at: float = 0.0
    seconds: float = STEP
    pause: float = 0.0
    need: Need = Need.ELSEWHERE
    priority: int = 0


class Machine:
    """Threads that run the commands of ``work`` until a moment, and a pool that keeps ``places`` idle children as the one of code does."""

    def __init__(
        self, work: Sequence[Work], threads: int = 2, places: int = 16, until: float = 3600.0
    ) -> None:
        self.work, self.places, self.now = work, places, 0.0
        self.need: dict[int, Need] = {}
        self.turns: Turns[tuple[int, int]] = Turns(places, lambda one: self.need.get(one, Need.NONE))
        self.made: Counter[int] = Counter()
        """Children by execution."""
        self.begun: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        """Execution → when which of its commands began."""
        self.came: dict[tuple[int, int], float] = {}
        self.most_children = 0
        self.longest_refusal = 0.0
        """Most seconds in which nothing was taken although something was ready and a thread was free."""
        self._refused_since: float | None = None
        self._free = threads
        self._idle: list[int] = []
        self._left = [list(reversed(one.stages)) for one in work]
        self._open: Counter[int] = Counter()
        self._happens: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        for place, one in enumerate(work):
            self._later(one.at, self._next_stage, place)
        while self._happens and self.now < until:
            self.now, _, happen = heapq.heappop(self._happens)
            happen()
            self._take()

    def _later(self, seconds: float, do: Callable[[int], None], place: int) -> None:
        heapq.heappush(self._happens, (self.now + seconds, next(self._numbers), lambda: do(place)))

    def _next_stage(self, place: int) -> None:
        self.need.pop(place, None)
        if not self._left[place]:
            self._idle = [one for one in self._idle if one != place]
            self.turns.end(place)
            return
        count = self._open[place] = self._left[place].pop()
        first = len(self.begun[place])
        for command in range(first, first + count):
            self.came[place, command] = self.now
            self.turns.add((place, command), place, self.work[place].priority, self.now)

    def _take(self) -> None:
        while self._free and (taken := self.turns.next(self.now)) is not None:
            self._refused_since = None
            self._begin(*taken)
        if self._free and self.turns:
            if self._refused_since is None:
                self._refused_since = self.now
                self._later(PATIENCE + 1e-6, lambda place: None, 0)
            self.longest_refusal = max(self.longest_refusal, self.now - self._refused_since)
        else:
            self._refused_since = None

    def _begin(self, place: int, command: int) -> None:
        self._free -= 1
        self.begun[place].append((self.now, command))
        self.most_children = max(self.most_children, self.turns.children)
        seconds = self.work[place].seconds
        if place in self._idle:
            self._idle.remove(place)
        else:
            self.made[place] += 1
            seconds += NEW_CHILD
        self._later(seconds, self._end, place)

    def _end(self, place: int) -> None:
        self._idle.append(place)
        if len(self._idle) > self.places:
            needs = [
                Need.NOW if self.turns.wants(one) else self.need.get(one, Need.NONE) for one in self._idle
            ]
            del self._idle[needs.index(min(needs))]
        self._open[place] -= 1
        if not self._open[place]:
            self.need[place] = Need.SOON
            self._later(ENGINE, self._decided, place)
        self.turns.done(place)
        self._free += 1

    def _decided(self, place: int) -> None:
        if self.work[place].pause and self._left[place]:
            self.need[place] = self.work[place].need
            self._later(self.work[place].pause, self._next_stage, place)
        else:
            self._next_stage(place)


def test_each_of_many_executions_gets_one_child():
    played = Machine([Work([1, 1, 1])] * 200)
    assert {place: len(begun) for place, begun in played.begun.items()} == dict.fromkeys(range(200), 3)
    assert played.made == dict.fromkeys(range(200), 1)
    starts = [played.begun[place][0][0] for place in range(200)]
    assert starts == sorted(starts), "in the order in which they came"


def test_a_slow_engine_does_not_cost_children():
    """Threads wait for executions that are about to go on, and begin no others that would take their children."""
    played = Machine([Work([1, 1, 1], seconds=STEP / 100)] * 100, threads=8)
    assert played.made == dict.fromkeys(range(100), 1)


def test_an_execution_begins_soon_although_others_never_end():
    """They hold all places, and always have something ready; a newcomer of one step costs one of them its child."""
    newcomers = [Work([1], at=1.0 + place) for place in range(5)]
    played = Machine([*[Work(ENDLESS)] * 16, *newcomers], until=7.0)
    for place, one in enumerate(newcomers, 16):
        assert played.begun[place][0][0] - one.at <= PATIENCE + 2 * (STEP + NEW_CHILD)
    assert sum(played.made[place] for place in range(16)) <= 16 + 5


def test_many_newcomers_do_not_starve_what_is_warm():
    """A loop has every second turn while executions of one step come and go."""
    played = Machine([Work([1000]), *[Work([1])] * 500], threads=1)
    at = [when for when, _ in played.begun[0]]
    before_last = max(played.begun[place][0][0] for place in range(1, 501))
    assert sum(when < before_last for when in at) >= 499


def test_two_large_loops_get_on_evenly():
    played = Machine([Work([10_000]), Work([10_000])], until=4.0)
    counts = [len(played.begun[place]) for place in (0, 1)]
    assert min(counts) > 1_900 and max(counts) - min(counts) <= 10
    assert sum(played.made.values()) <= 3, "a second one of the first, while it was alone"


def test_a_loop_that_is_alone_uses_all_threads():
    played = Machine([Work([100])], threads=4)
    assert played.made == {0: 4}
    assert played.begun[0][3][0] == 0.0


def test_more_loops_than_places_take_turns_in_having_children():
    """Each of 32 gets on, and what that costs is bounded by time, not by commands."""
    played = Machine([Work([1_000])] * 32, until=8.0)
    assert all(begun[-1][0] > 3.0 for begun in played.begun.values())
    assert sum(played.made.values()) <= 32 + 8 / PATIENCE


def test_who_waits_for_nothing_here_gives_way_at_once():
    """Sixteen wait for the outside: the next ones begin without a pause."""
    outside = Work([1, 1], pause=1e6, need=Need.NONE)
    played = Machine([*[outside] * 16, Work(ENDLESS, at=5.0), *[Work([1], at=5.0)] * 40], until=6.0)
    begun = [played.begun[place][0][0] - 5.0 for place in range(17, 57)]
    assert max(begun) <= 41 * (STEP + NEW_CHILD)


def test_an_item_that_did_not_begin_leaves_no_child_behind():
    turns: Turns[str] = Turns(2, lambda one: Need.SOON)
    for execution in range(3):
        turns.add("item", execution, 0, 0.0)
    assert [turns.next(0.0) for _ in range(3)] == ["item", "item", None]
    turns.undo(0)
    assert (turns.children, turns.running, turns.next(0.0)) == (1, 1, "item")
    turns.add("item", 1, 0, 0.0)
    turns.done(1)
    assert turns.next(0.0) == "item" and turns.children == 2, "its child has stayed"
    turns.undo(1)
    assert turns.children == 1 and not turns.wants(1)


def test_higher_priority_goes_first_and_takes_a_place():
    played = Machine([*[Work(ENDLESS)] * 16, Work([1, 1], at=1.0, priority=5)], until=3.0)
    first, second = (when for when, _ in played.begun[16])
    assert first - 1.0 <= STEP + NEW_CHILD
    assert second - first <= 2 * (STEP + NEW_CHILD) + ENGINE
    assert played.made[16] == 1


def test_without_places_executions_take_turns():
    turns: Turns[str] = Turns()
    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        turns.add(name, ord(name[0]), 0, 0.0)
    turns.add("urgent", 9, 1, 0.0)
    assert [turns.next(0.0) for _ in range(8)] == ["urgent", "a1", "b1", "c1", "a2", "b2", "a3", None]


def test_others_are_given_what_has_no_child_here():
    turns: Turns[str] = Turns(4)
    for name in ("a1", "a2", "a3", "b1", "c1", "c2"):
        turns.add(name, ord(name[0]), 0, 0.0)
    assert turns.next(0.0) == "a1"
    assert turns.take_one(ord("c"), "c2".__eq__) == ["c2"]
    assert turns.take_one(ord("c"), "c9".__eq__) == []
    assert turns.take(3) == ["b1", "c1", "a2"]
    assert (turns.ready, turns.running) == (1, 1)


def test_an_execution_that_is_redriven_while_a_command_of_it_runs():
    turns: Turns[str] = Turns(1)
    turns.add("old", 1, 0, 0.0)
    assert turns.next(0.0) == "old"
    turns.end(1)
    turns.add("new", 1, 0, 0.0)
    turns.add("other", 2, 0, 0.0)
    assert turns.next(0.0) is None, "the only child is at work"
    turns.done(1)
    assert turns.next(0.0) == "other"
    assert turns.next(1.0) is None, "again"
    turns.done(2)
    assert turns.next(1.0) == "new"
    turns.done(1)
    assert (turns.ready, turns.running, turns.children) == (0, 0, 1)


works = st.builds(
    Work,
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    at=st.sampled_from([0.0, 0.1]),
    seconds=st.sampled_from([0.0, STEP, 0.3]),
    pause=st.sampled_from([0.0, 0.05]),
    priority=st.sampled_from([0, 0, 0, 3]),
)


@given(st.lists(works, min_size=1, max_size=30), st.integers(1, 4), st.integers(4, 8))
@example(
    [
        Work([5, 2], seconds=0.0),
        Work([3, 2, 5], seconds=0.0),
        Work([4, 1, 1, 5], seconds=0.0),
        Work([4, 2, 3], seconds=0.3, pause=0.05, priority=3),
        Work([4, 2], seconds=0.0),
        Work([3, 2, 5, 5, 3, 4], seconds=0.0, pause=0.05),
        Work([3, 4, 4, 2], seconds=0.0, priority=3),
        Work([4, 4, 4, 1], seconds=0.3, priority=3),
    ],
    4,
    4,
)
def test_whatever_comes_all_of_it_runs_and_nobody_waits_for_ever(work, threads, places):
    played = Machine(work, threads, places)
    for place, one in enumerate(work):
        commands = [command for _, command in played.begun[place]]
        assert commands == list(range(sum(one.stages))), "each once, in order"
    assert (played.turns.ready, played.turns.running, played.turns.children) == (0, 0, 0)
    assert played.most_children <= places
    assert played.longest_refusal <= PATIENCE + 2e-6


def test_a_step_beside_a_long_one_begins_while_others_keep_coming():
    turns: Turns[tuple[int, int]] = Turns(16)
    turns.add((0, 0), 0, 0, 0.0)
    assert turns.next(0.0) == (0, 0)
    turns.add((0, 1), 0, 0, 0.0)
    for other in range(1, 20):
        now = other * STEP * 10
        turns.add((other, 0), other, 0, now)
        taken = turns.next(now)
        if taken == (0, 1):
            assert PATIENCE <= now < PATIENCE + 2 * STEP * 10
            return
        assert taken == (other, 0)
        turns.done(other)
        turns.end(other)
    raise AssertionError("the second step of the first execution is passed over for ever")
