"""What ended long ago goes as a whole, and nothing that somebody may still need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl.domain.events import Redrive
from noetl.domain.variables import VariableWrite
from noetl.ports.executions.execution_store import IdempotencyKey
from noetl.ports.executions.retention import Removed, Retention
from tests.contract.builders import EID


@pytest.fixture
def retention(harness: Any) -> Iterator[Retention]:
    if harness.kind == "memory":
        from tests.doubles.retention import MemoryRetention
        from tests.doubles.schedule_store import MemoryScheduleStore

        yield MemoryRetention(harness.store, MemoryScheduleStore())
        return
    from noetl.adapters.postgres.executions.retention import PostgresRetention

    yield PostgresRetention(harness.store.database)


@pytest.fixture
def run(harness: Any, make: Any) -> Any:
    """Makes an execution that has ended, or runs."""

    def made(
        execution_id: int = EID, *, parent: int | None = None, status: str = "completed", **more: Any
    ) -> int:
        change = make.change(
            execution_id=execution_id,
            created=make.created(parent_execution_id=parent),
            status=status,
            end=status != "running",
            slots={("ctx", "a"): 1},
            variables=(VariableWrite("v", 1),),
            **more,
        )
        harness.store.commit([change])
        return execution_id

    return made


def now(harness: Any) -> float:
    """A moment after everything that happened so far."""
    harness.sleep(0.01)
    return float(harness.store.load([]).now)


def test_an_execution_goes_with_everything_that_is_its_own(harness, make, retention, run):
    store = harness.store
    store.commit(
        [make.change(expected=0, execution_id=EID, created=make.created(), status="failed", end=True)]
    )
    before = now(harness)
    late = run(EID + 2)
    assert retention.old(before, 10) == [EID] and store.info(EID) is not None
    assert retention.claim(before, 10) == [EID]
    assert store.post(Redrive(EID, "r", "prog")).status is None, "what is being removed is redriven no more"
    assert retention.remove_events([EID, late], 10) == 1, "history of others is not touched"
    assert retention.remove([EID, late]) == Removed(1, 0, 0)
    assert store.info(EID) is None and store.events(EID) == [] and store.slots(EID) == {}
    assert store.info(late) is not None and store.slots(late) == {("ctx", "a"): 1}
    assert retention.claim(before, 10) == []


def test_a_key_goes_with_its_execution(harness, make, retention):
    store, key = harness.store, IdempotencyKey("k", "f")
    store.create(make.start(), make.created(), key=key)
    assert store.undelivered("me", 10)
    assert retention.claim(now(harness), 10) == [], "it has not even begun"
    store.commit([make.change(created=None, expected=0, status="completed", end=True, handled=("start",))])
    ids = retention.claim(now(harness), 10)
    assert ids == [EID] and retention.remove(ids).executions == 1
    assert store.keyed(key) is None


def test_a_tree_goes_whole_and_its_leaves_first(harness, retention, run):
    root, child, grandchild, other = (
        run(EID + n, parent=p) for n, p in ((0, None), (1, EID), (2, EID + 1), (3, EID))
    )
    before = now(harness)
    assert retention.old(before, 10) == [grandchild, child, other, root]
    assert retention.claim(before, 2) == [grandchild, child]
    assert retention.remove([child]).executions == 0, "it has started something that is still there"
    assert retention.remove([grandchild, child]) == Removed(2, 2, 2)
    assert retention.claim(before, 10) == [other, root]
    assert retention.remove([other, root]).executions == 2
    assert harness.store.executions(limit=10) == []


@pytest.mark.parametrize("live", ["child", "grandchild", "late", "told"])
def test_nothing_goes_that_a_relative_may_need(harness, make, retention, run, live):
    root = run(EID)
    child = run(EID + 1, parent=root, status="running" if live == "child" else "completed")
    run(EID + 2, parent=child, status="running" if live == "grandchild" else "completed")
    if live == "told":
        event = Redrive(child, "again", "prog")
        assert harness.store.post(event, "me").posted
    before = now(harness)
    if live == "late":
        run(EID + 3, parent=child)
    assert retention.claim(before, 10) == [] and retention.old(before, 10) == []
    assert retention.remove([root, child, EID + 2]) == Removed(), "nobody claimed them"


def test_variables_may_go_before_their_execution(harness, retention, run):
    old, before = run(EID), now(harness)
    live, young = run(EID + 1, status="running"), run(EID + 2)
    variables = harness.store
    if harness.kind == "postgres":
        from noetl.adapters.postgres.variables import PostgresVariables

        variables = PostgresVariables(harness.store.database)
    assert retention.remove_variables(before, 10) == 1 and retention.remove_variables(before, 10) == 0
    assert [len(variables.variables(one)) for one in (old, live, young)] == [0, 1, 1]
    assert harness.store.info(old) is not None


@pytest.mark.postgres
def test_no_table_is_forgotten(database):
    """Whatever belongs to an execution goes with it: a new table with its id is either removed here, or goes by a foreign key.

    The record of who read which credential outlives executions, and so do moments of schedules: both go by their age."""
    import psycopg

    from noetl.adapters.postgres.queries import query

    with psycopg.connect(database) as connection:
        having = connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'execution_id'"
            " WHERE c.relnamespace = 'noetl'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        ).fetchall()
        cascading = connection.execute(
            "SELECT conrelid::regclass::text FROM pg_constraint"
            " WHERE confrelid = 'noetl.execution'::regclass AND confdeltype = 'c'"
        ).fetchall()
    removed = query("remove_executions").text.decode()
    own = {name for (name,) in having} - {"schedule_moment", "credential_access"}
    own -= {name.removeprefix("noetl.") for (name,) in cascading}
    assert own and [name for name in sorted(own) if f"DELETE FROM noetl.{name} " not in removed] == []


def test_executions_are_related_through_the_one_that_a_client_started(harness, run):
    root, other = run(EID), run(EID + 10)
    children = [run(EID + 1, parent=root), run(EID + 2, parent=root)]
    below = run(EID + 3, parent=children[1])
    assert all(
        harness.store.are_related(one, two) for one in (root, *children, below) for two in (root, below)
    )
    assert not any(harness.store.are_related(one, other) for one in (root, below))
    assert not harness.store.are_related(root, EID + 99) and not harness.store.are_related(EID + 99, EID + 99)
