"""A commit that begins a child and a commit that pauses its parent: they do not wait for each other in a circle, or one gives way."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Start
from noetl.ports.executions.execution_store import ChildrenWord, Committed, VersionConflictError
from tests.contract.builders import EID
from tests.contract.test_lock_order import barrier as barrier
from tests.contract.test_lock_order import database as database
from tests.contract.test_lock_order import meet, wait_for_locks
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.postgres, pytest.mark.parametrize("harness", ["postgres"], indirect=True)]

PARENT = EID + 2


class Family:
    """A parent whose child has not begun. ``held_back``: the child has a row, which a pause made."""

    def __init__(self, store: Any, make: Any, child: int, *, held_back: bool) -> None:
        self.store, self.make, self.child = store, make, child
        self.version = 3 if held_back else 1
        start = Start(child, "start:x", "prog", path="demo/child")
        store.commit([make.change(execution_id=EID), make.change(execution_id=PARENT, outbox=(start,))])
        if held_back:
            words = (ChildrenWord("pause", "pause:0", 1),)
            store.commit([make.change(1, PARENT, status="paused", words=words)])
            store.commit([make.change(2, PARENT, release=True)])

    def begin(self) -> Committed:
        """One commit moves the parent and another execution on, and begins the child."""
        created = self.make.created(parent_execution_id=PARENT, start="start:x")
        row = self.make.row("start:x")
        child = self.make.change(
            execution_id=self.child, created=created, events=(row,), handled=("start:x",)
        )
        changes = [self.make.change(1, EID), self.make.change(self.version, PARENT), child]
        return self.store.commit(changes, "me")

    def pause(self) -> Committed:
        words = (ChildrenWord("pause", "pause:1", 1),)
        return self.store.commit([self.make.change(self.version, PARENT, status="paused", words=words)], "me")


@pytest.mark.parametrize("held_back", [False, True])
def test_a_commit_takes_the_row_of_a_parent_before_it_makes_that_of_a_child(
    harness, make, database, barrier, held_back
):
    """The commit waits for the row of another execution when the pause comes: it keeps nothing that the pause needs."""
    family = Family(harness.store, make, EID + 3, held_back=held_back)
    barrier.execute("SELECT FROM noetl.execution WHERE execution_id = %s FOR UPDATE", (EID,))
    begun: list[Exception] = []

    def begin() -> None:
        with pytest.raises(VersionConflictError) as refused:
            family.begin()
        begun.append(refused.value)

    thread = threading.Thread(target=begin)
    thread.start()
    wait_for_locks(database, 1)
    try:
        family.pause()
    finally:
        barrier.rollback()
        thread.join(PATIENCE)
    assert len(begun) == 1 and harness.store.info(PARENT).status == "paused"


def test_who_gives_way_in_a_deadlock_is_told_that_nothing_was_done(harness, make, database, barrier):
    """The id of this child is below its parent's, as it can be within a millisecond: no order of rows serves both commits."""
    family = Family(harness.store, make, EID - 1, held_back=True)
    barrier.execute("SELECT FROM noetl.execution WHERE execution_id = %s FOR UPDATE", (EID,))
    found = meet(database, barrier, family.begin, family.pause)
    (refused,) = [one for one in found if isinstance(one, Exception)]
    assert isinstance(refused, InfrastructureError) and refused.retryable
    assert refused.code == "database_contention", "the database is there, and no answer was lost"


@pytest.mark.parametrize("word", ["pause", "release"])
@pytest.mark.parametrize("first", ["begins", "word"])
def test_words_to_children_lock_them_in_the_order_of_a_commit_that_begins_them(
    harness, make, database, barrier, word, first
):
    """The younger child's row was written first, so that a scan of the table comes upon it first; the older one is held by a third party."""
    store, older, younger = harness.store, EID + 3, EID + 4
    store.commit([make.change(execution_id=PARENT)])
    for child in (younger, older):
        barrier.execute(
            "INSERT INTO noetl.execution (execution_id, path, name, parent_execution_id, program, status)"
            " VALUES (%s, 'demo/child', '', %s, 'prog', %s)",
            (child, PARENT, "running" if word == "pause" else "paused"),
        )
    barrier.commit()
    barrier.execute("SELECT FROM noetl.execution WHERE execution_id = %s FOR UPDATE", (older,))

    def begin() -> object:
        changes = [
            make.change(execution_id=child, created=None, expected=0, events=(make.row("start:x"),))
            for child in (older, younger)
        ]
        return store.commit(changes, "me")

    def say() -> object:
        if word == "pause":
            words = (ChildrenWord("pause", "pause:1", 1),)
            return store.commit([make.change(1, PARENT, status="paused", words=words)], "you")
        return store.commit([make.change(1, PARENT, release=True)], "you")

    found = meet(database, barrier, *((begin, say) if first == "begins" else (say, begin)))
    assert not any(isinstance(one, InfrastructureError) for one in found), found
