"""Whatever grows, ends, is redriven, tells others of results and lets time pass: nothing is collected that somebody who lives can reach.

The machine keeps its own books of who was told of what, follows them from everything that lives, and compares after every collection.
"""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from noetl.adapters.memory import MemoryExecutionStore, MemoryResultStore
from noetl.domain.events import Redrive
from noetl.domain.results.references import ref_uri
from noetl.domain.results.retention import KeptResult, mentioned
from noetl.services.results.collect_results import collect
from noetl.services.results.prune import PruneDeps, RetentionDays, keep_to
from tests.contract.builders import Make
from tests.doubles.retention import MemoryRetention
from tests.doubles.schedule_store import MemoryScheduleStore
from tests.doubles.task_logs import MemoryTaskLogs

DAY = 86_400.0
NUMBERS = st.integers(0, 12)


class Book(msgspec.Struct):
    """One execution as the machine knows it. ``made``: its results; ``knows``: results of others it was told of."""

    parent: int | None
    live: bool = True
    made: list[str] = []
    knows: set[str] = set()


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000.0
        self.results = MemoryResultStore()
        self.store = MemoryExecutionStore(lambda: self.now)
        self.retention = MemoryRetention(self.store, MemoryScheduleStore())
        self.make = Make()
        self.books: dict[int, Book] = {}
        self.inside: dict[str, set[str]] = {}
        """Result → results that its bytes mention."""
        self.gone: set[str] = set()
        self.next = 10**15

    # --- what executions do ---

    @initialize()
    def some(self) -> None:
        """Three trees: the second was told of a result of the first, and the third of one of the second that has it inside."""
        for number in range(3):
            self.begin(0, child=False)
            self.keep(number, 0.0 if number == 0 else None, 0, nested=False)
        self.tell(0, 1, 0)
        first, second, third = sorted(self.books)
        for place in range(2):
            self.keep(1, None, place, nested=True)
        for uri in self.books[second].made:
            if self.inside[uri] & set(self.books[first].made):
                self._told(third, uri)

    @rule(parent=NUMBERS, child=st.booleans())
    def begin(self, parent: int, child: bool) -> None:
        above = self._pick(parent, live=True) if child else None
        self.next += 1
        self.books[self.next] = Book(above, made=[], knows=set())
        created = self.make.created(parent_execution_id=above)
        self.store.commit([self.make.change(execution_id=self.next, created=created)])

    @rule(who=NUMBERS, ttl=st.sampled_from([None, 0.0, 3600.0, 10 * DAY]), told=NUMBERS, nested=st.booleans())
    def keep(self, who: int, ttl: float | None, told: int, nested: bool) -> None:
        """A result, perhaps with a ttl, perhaps with another result inside that its maker knows."""
        execution = self._pick(who, live=True)
        if execution is None:
            return
        book = self.books[execution]
        uri = ref_uri(execution, "s", str(len(book.made)))
        known = sorted(book.knows | set(book.made))
        inner = {known[told % len(known)]} if nested and known else set()
        data = msgspec.json.encode(sorted(inner))
        self.results.put(uri, data)
        self.inside[uri] = inner
        book.made.append(uri)
        kept = () if ttl is None else (KeptResult(uri, "memory", "s", 2, "execution", ttl),)
        self._commit(execution, kept=kept, reaches=tuple(mentioned(data, execution)))

    @rule(giver=NUMBERS, taker=NUMBERS, which=NUMBERS)
    def tell(self, giver: int, taker: int, which: int) -> None:
        """Somebody is given a reference that still leads somewhere, of whomever."""
        source, target = self._pick(giver, live=None), self._pick(taker, live=True)
        if source is None or target is None:
            return
        known = [uri for uri in sorted(self._reachable(source)) if uri not in self.gone]
        if known:
            self._told(target, known[which % len(known)])

    @rule(who=NUMBERS)
    def end(self, who: int) -> None:
        execution = self._pick(who, live=True)
        if execution is not None:
            self.books[execution].live = False
            self._commit(execution, status="completed", end=True)

    @rule(who=NUMBERS)
    def only_one_goes_on(self, who: int) -> None:
        left = self._pick(who, live=True)
        for execution, book in self.books.items():
            if book.live and execution != left:
                book.live = False
                self._commit(execution, status="completed", end=True)
        self.expire()

    @rule(who=NUMBERS)
    def redrive(self, who: int) -> None:
        execution = self._pick(who, live=False)
        if execution is not None and self.store.post(Redrive(execution, f"r{self.now}", "prog"), "me").posted:
            self.books[execution].live = True
            self._commit(execution, handled=(f"r{self.now}",))

    # --- what time and the keeper do ---

    @rule(seconds=st.sampled_from([1.0, 4000.0, 3 * DAY, 40 * DAY]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def expire(self) -> None:
        self.now += 0.001
        collect(self.retention, self.results, self.now, lambda: True)
        self._take_note()

    @rule()
    def prune(self) -> None:
        self.now += 0.001
        deps = PruneDeps(
            self.retention, self.results, MemoryTaskLogs(), lambda: self.now, RetentionDays(executions=30)
        )
        keep_to(deps, lambda: True)
        self._take_note()
        self.books = {one: book for one, book in self.books.items() if self.store.info(one) is not None}

    @invariant()
    def what_lives_finds_what_it_was_told_of(self) -> None:
        for execution, book in self.books.items():
            if book.live:
                assert self.store.info(execution) is not None

    @precondition(lambda self: not any(book.live for book in self.books.values()))
    @rule()
    def after_all_has_ended_everything_goes(self) -> None:
        self.now += 50 * DAY
        self.prune()
        assert not self.books, "nothing is left that nobody needs"

    # --- the books ---

    def _told(self, execution: int, uri: str) -> None:
        self.books[execution].knows.add(uri)
        self._commit(execution, reaches=tuple(mentioned(uri.encode(), execution)))

    def _commit(self, execution: int, **more: object) -> None:
        info = self.store.info(execution)
        assert info is not None
        self.now += 0.001
        self.store.commit(
            [self.make.change(execution_id=execution, expected=info.version, created=None, **more)]
        )

    def _pick(self, number: int, live: bool | None) -> int | None:
        found = [one for one, book in sorted(self.books.items()) if live is None or book.live == live]
        return found[number % len(found)] if found else None

    def _reachable(self, execution: int) -> set[str]:
        """What it can read: all results of its tree, what members were told of, and what is inside of any of these."""
        root = execution
        while (above := self.books[root].parent) is not None:
            root = above
        found: set[str] = set()
        pending = [uri for one in self._tree(root) for uri in (*self.books[one].made, *self.books[one].knows)]
        while pending:
            uri = pending.pop()
            if uri not in found:
                found.add(uri)
                pending += self.inside.get(uri, ())
        return found

    def _tree(self, root: int) -> list[int]:
        below = [one for one, book in self.books.items() if book.parent == root]
        return [root, *(member for one in below for member in self._tree(one))]

    def _take_note(self) -> None:
        """What is missing now went in this collection: nobody who lives may have been able to reach it."""
        held = {
            uri for execution, book in self.books.items() if book.live for uri in self._reachable(execution)
        }
        there = {uri for objects in self.results._objects.values() for uri in objects}
        fresh = set(self.inside) - there - self.gone
        assert not fresh & held, "it was collected under somebody's hands"
        self.gone |= fresh


Lives.TestCase.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)
test_nothing_goes_that_somebody_can_reach = Lives.TestCase


def test_what_is_held_through_others_stays_until_nobody_holds_it() -> None:
    """The one path that a random walk may miss: first and second have ended, and the third reaches the first through the second."""
    world = Lives()
    world.some()
    world.only_one_goes_on(2)
    world.wait(40 * DAY)
    world.prune()
    assert len(world.books) == 3 and not world.gone
    world.end(0)
    world.expire()
    assert len(world.gone) == 1, "that with a ttl"
    world.after_all_has_ended_everything_goes()
