"""A removal and a redrive of one tree meet in every order: one of them wins, and it wins whole.

Either the redrive is refused, and the tree goes; or it is accepted, and nothing of the tree goes before it has ended again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from noetl.domain.events import Redrive
from noetl.domain.results.retention import KeptResult
from noetl.domain.variables import VariableWrite
from noetl.ports.executions.execution_store import LoadRequest, VersionConflictError
from noetl.ports.executions.retention import Retention
from tests.contract.builders import EID
from tests.contract.test_lock_order import wait_for_locks
from tests.contract.test_retention import retention as retention
from tests.parts import repeated
from tests.virtual_time import DatabaseClock
from tests.waiting import PATIENCE

SHAPE = (None, 0, 1, 0)
"""Parents: a root, its child, that child's child, and another child of the root."""
LATER = 10_000.0
"""So far after everything that its end was before."""


@dataclass
class Tree:
    """A tree of executions that ended, and what is expected of it. ``told``: the redrive is accepted and has not ended again."""

    harness: Any
    make: Any
    retention: Retention
    first: int
    limit: int
    member: int
    told: bool = False
    refused: bool = False
    claimed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.members = [self.first + place for place in range(len(SHAPE))]
        self.harness.store.commit(
            [
                self.make.change(
                    execution_id=one,
                    created=self.make.created(
                        parent_execution_id=None if above is None else self.members[above]
                    ),
                    status="completed",
                    end=True,
                    slots={("ctx", "a"): 1},
                    variables=(VariableWrite("v", 1),),
                )
                for one, above in zip(self.members, SHAPE, strict=True)
            ]
        )
        self.redriven = self.members[self.member]
        self.before = self.harness.store.load([]).now + LATER

    def claim(self) -> None:
        self.claimed += self.retention.claim(self.before, self.limit)

    def redrive(self) -> None:
        event = Redrive(self.redriven, "again", "prog")
        posted = self.harness.store.post(event, "me")
        self.told, self.refused = posted.posted, posted.status is None
        assert self.told != self.refused

    def apply(self) -> None:
        if self.told:
            change = self.make.change(1, self.redriven, redriven=True, handled=("again",))
            self.harness.store.commit([change])

    def remove_events(self) -> None:
        self.retention.remove_events(self.claimed, 100)

    def remove(self) -> None:
        self.retention.remove(self.claimed)

    def end(self) -> None:
        if self.told:
            change = self.make.change(2, self.redriven, status="completed", end=True)
            self.harness.store.commit([change])
            self.told = False

    def sweep(self) -> None:
        """Another process removes what it finds, to the end."""
        while claimed := self.retention.claim(self.before, self.limit):
            self.retention.remove_events(claimed, 100)
            if not self.retention.remove(claimed).executions:
                break

    def check(self) -> None:
        """While somebody may need it, all of it is there."""
        if not self.told:
            return
        store = self.harness.store
        for one in self.members:
            assert store.info(one) is not None and store.slots(one) == {("ctx", "a"): 1}
            assert store.events(one), "history of a tree that lives is gone"
            assert _variables(self.harness, one) == 1

    def is_gone(self) -> bool:
        store = self.harness.store
        return all(store.info(one) is None and not _rows(self.harness, one) for one in self.members)


def _variables(harness: Any, execution_id: int) -> int:
    if harness.kind == "memory":
        return len(harness.store.variables(execution_id))
    from noetl.adapters.postgres.variables import PostgresVariables

    return len(PostgresVariables(harness.store.database).variables(execution_id))


def _rows(harness: Any, execution_id: int) -> list[Any]:
    if harness.kind == "memory":
        with harness.store.tables() as tables:
            work = tables.work.get(execution_id)
            return [] if work is None else [*work.history, *work.slots, *work.variables]
    store = harness.store
    return [*store.events(execution_id), *store.item_events(execution_id, -1), *store.slots(execution_id)]


STEPS = ("claim", "redrive", "apply", "remove_events", "remove")
ORDERS = [order for order in itertools.permutations(STEPS) if order.index("redrive") < order.index("apply")]
EVERY = repeated(gate=4, full=1)
"""On Postgres, of each member of the tree every fourth order, beginning with another one: together they are all."""


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("member", range(len(SHAPE)))
def test_a_removal_and_a_redrive_in_every_order(harness, make, retention, member, limit):
    every = 1 if harness.kind == "memory" else EVERY
    for place, order in enumerate(ORDERS[member % every :: every]):
        tree = Tree(harness, make, retention, EID + 10 * place, limit, member)
        for step in order:
            getattr(tree, step)()
            tree.check()
        assert tree.refused is (order.index("claim") < order.index("redrive")), order
        tree.sweep()
        tree.check()
        tree.end()
        tree.sweep()
        assert tree.is_gone(), order


@pytest.mark.parametrize("member", range(len(SHAPE)))
def test_a_redrive_that_waits_in_the_outbox_keeps_its_tree(harness, make, retention, member):
    tree = Tree(harness, make, retention, EID, 100, member)
    tree.redrive()
    tree.claim()
    assert tree.told and tree.claimed == []
    tree.sweep()
    tree.check()


def test_many_redrives_at_once_are_refused_and_accepted_one_by_one(harness, make, retention):
    leaving = Tree(harness, make, retention, EID, 1, member=2)
    harness.sleep(1)
    staying = Tree(harness, make, retention, EID + 10, 1, member=2)
    leaving.claim()
    asked = [Redrive(tree.redriven, "again", "prog") for tree in (leaving, staying)]
    posted = harness.store.post_all(asked, "me")
    assert set(posted) == {staying.redriven} and posted[staying.redriven].posted


def test_what_is_being_removed_is_moved_by_no_event_that_comes_again(harness, make, retention):
    tree = Tree(harness, make, retention, EID, 100, member=0)
    tree.claim()
    tree.remove_events()
    request = LoadRequest(tree.redriven, events=("again", "start:7"))
    found = harness.store.load([request]).executions[tree.redriven]
    assert found.applied == {"again"}, "every event counts as applied, but for a Start of another execution"
    with pytest.raises(VersionConflictError):
        harness.store.commit([make.change(1, tree.redriven)])
    harness.store.record_superseded([(tree.redriven, make.row("late"))])
    tree.remove()
    harness.store.record_superseded([(tree.redriven, make.row("later"))])
    assert tree.is_gone()


def test_a_removal_that_was_interrupted_is_taken_up_again_whatever_the_next_limit_is(
    harness, make, retention
):
    tree = Tree(harness, make, retention, EID, 2, member=0)
    tree.claim()
    tree.remove_events()
    assert retention.old(0.0, 10) == retention.claim(0.0, 10) and len(retention.old(0.0, 10)) == len(SHAPE)
    holder = EID + 100
    harness.store.commit([make.change(execution_id=holder, reaches=(tree.first,))])
    assert len(retention.claim(0.0, 10)) == len(SHAPE), "what is being removed is wanted too late"
    tree.before = 0.0
    tree.sweep()
    assert tree.is_gone()


def test_an_execution_that_is_redriven_wants_what_it_knows_of(harness, make, retention):
    tree = Tree(harness, make, retention, EID, 100, member=0)
    holder = Tree(harness, make, retention, EID + 100, 100, member=1)
    harness.store.commit([make.change(1, holder.first, status="completed", end=True, reaches=(tree.first,))])
    holder.redrive()
    tree.claim()
    assert tree.claimed == [], "the redrive waits, and may read a result of the other tree"
    holder.apply()
    tree.claim()
    assert tree.claimed == []


@pytest.fixture
def database(database_clock: DatabaseClock) -> str:
    """The database of the store under test, whose time a test moves."""
    return database_clock.dsn


@pytest.fixture
def raw(database: str) -> Iterator[Callable[..., Any]]:
    """Runs a named query in a transaction of its own that stays open until ``commit``."""
    import psycopg

    from noetl.adapters.postgres.queries import query

    with psycopg.connect(database, cursor_factory=psycopg.RawCursor) as connection:

        def run(name: str = "", **values: str) -> Any:
            if not name:
                connection.commit()
                return None
            found = query(name)
            return connection.execute(found.text, [values.get(one) for one in found.parameters]).fetchall()

        yield run


@pytest.mark.postgres
@pytest.mark.parametrize("harness", ["postgres"], indirect=True)
def test_a_claim_passes_by_a_tree_that_is_just_being_redriven(harness, make, retention, raw):
    tree = Tree(harness, make, retention, EID, 100, member=2)
    result = KeptResult(f"noetl://execution/{tree.first}/result/fetch/a", "memory", "fetch", 7, "step", 0.0)
    harness.store.commit([make.change(1, tree.first, status="completed", end=True, kept=(result,))])
    payload = '{"type": "execution.redriven"}'
    told = {"event_id": "again", "owner": "me", "payload": payload, "unborn": "f", "over": "t", "held": "{}"}
    (row,) = raw("post_event", execution_id=str(tree.redriven), **told)
    assert row[2] is True
    for _ in ("it is being posted", "it is posted"):
        tree.claim()
        assert tree.claimed == []
        assert retention.claim_expired(tree.before, 0, 10).results == ()
        raw()


@pytest.mark.postgres
@pytest.mark.parametrize("harness", ["postgres"], indirect=True)
@pytest.mark.parametrize("removed", [False, True])
def test_a_redrive_waits_for_a_claim_and_is_refused(harness, make, retention, raw, database_clock, removed):
    tree = Tree(harness, make, retention, EID, 1 if not removed else 100, member=3)
    claimed = raw("claim_old_executions", before=str(tree.before), limit=str(tree.limit))
    if removed:
        raw("remove_executions", ids=_array([row[0] for row in claimed]))
    thread = threading.Thread(target=tree.redrive)
    thread.start()
    wait_for_locks(database_clock.dsn, 1)
    raw()
    thread.join(PATIENCE)
    assert tree.refused and not tree.told


def _array(ids: Sequence[int]) -> str:
    return "{" + ",".join(map(str, ids)) + "}"
