"""Figures about many executions: endings over time, failures by playbook and code, open callbacks, filters of lists."""

from __future__ import annotations

import pytest

from noetl.domain import ids
from noetl.domain.callbacks import SCOPE
from noetl.ports.executions.answers import ExecutionFilter
from noetl.ports.executions.figures import EndedWindow, Looked

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
BROKEN = b'{"v":1,"seq":1,"error":{"message":"\\u0000 \\ud800","code":"order_broken"}}'
NAMELESS = b'{"v":1,"seq":1,"error":{"message":"no","kind":"timeout"}}'


def end(
    store, make, number: int, status: str, path: str = "demo/hello", state: bytes = BROKEN, **created
) -> int:
    """Make an execution and end it."""
    about = make.created(path=path, **created)
    store.commit([make.change(execution_id=EID + number, created=about)])
    store.commit([make.change(1, execution_id=EID + number, status=status, end=True, state=state)])
    return EID + number


@pytest.fixture
def window(store) -> EndedWindow:
    now = store.load([]).now
    return EndedWindow(now - 3600, now + 3600, 100)


def test_endings_are_counted_by_time_with_durations(harness, make):
    store = harness.store
    store.commit([make.change(execution_id=EID + 1)])
    harness.sleep(40)
    store.commit([make.change(1, execution_id=EID + 1, status="completed", end=True)])
    for number, status in ((2, "completed"), (3, "failed"), (4, "cancelled"), (5, "completed")):
        end(store, make, number, status, path="demo/other" if number == 5 else "demo/hello")
    end(store, make, 6, "failed", parent_execution_id=EID + 1)
    store.commit([make.change(execution_id=EID + 7)])
    now = store.load([]).now
    looked, buckets = store.ended_buckets(EndedWindow(now - 3600, now + 3600, 100, "demo/hello"), 86_400)
    assert looked.count == 5 and looked.earliest == pytest.approx(now, abs=60)
    assert sum(one.completed for one in buckets) == 2
    assert [sum(getattr(one, status) for one in buckets) for status in ("failed", "cancelled")] == [1, 1]
    assert all(one.at % 86_400 == 0 for one in buckets)
    longest = max(buckets, key=lambda one: one.p95)
    assert (longest.p50 < 40 <= longest.p95) or len(buckets) == 2
    assert store.ended_buckets(EndedWindow(now + 60, now + 3600, 100), 60)[1] == []


def test_no_more_executions_are_looked_at_than_allowed(store, make, window):
    for number in range(5):
        end(store, make, number, "failed")
    looked, groups = store.failure_groups(EndedWindow(window.since, window.until, 3), 10)
    assert (looked.count, [one.count for one in groups]) == (3, [3])
    assert store.ended_buckets(EndedWindow(window.since, window.until, 3), 60)[0] == looked


def test_endings_of_many_playbooks_are_counted_at_once(store, make, window):
    for number, (path, status) in enumerate(
        [("b", "completed"), ("b", "failed"), ("a", "cancelled"), ("c", "failed"), ("ä", "failed")], 1
    ):
        end(store, make, number, status, path=path)
    end(store, make, 6, "failed", path="b", parent_execution_id=EID + 1)
    store.commit([make.change(execution_id=EID + 7, created=make.created(path="b"))])
    looked, found = store.ended_by_path(window, ["ä", "b", "a", "unknown"], 86_400)
    counted = {path: [0, 0] for path in ("a", "b", "ä")}
    for one in found:
        assert one.at % 86_400 == 0
        counted[one.path] = [counted[one.path][0] + one.ended, counted[one.path][1] + one.failed]
    assert counted == {"a": [1, 0], "b": [2, 1], "ä": [1, 1]} and looked.count == 5
    assert [(one.path, one.at) for one in found] == sorted((one.path, one.at) for one in found)
    few, _ = store.ended_by_path(EndedWindow(window.since, window.until, 3), ["a"], 3600)
    assert few.count == 3
    nothing = EndedWindow(window.until, window.until + 60, 100)
    assert store.ended_by_path(nothing, ["a"], 3600) == (Looked(), [])


def test_failures_are_grouped_by_playbook_and_code(store, make, window):
    end(store, make, 1, "failed")
    end(store, make, 2, "failed", state=NAMELESS)
    last = end(store, make, 3, "failed")
    end(store, make, 4, "failed", path="demo/other", state=b'{"v":1,"seq":1}')
    end(store, make, 5, "completed")
    _, groups = store.failure_groups(window, 10)
    assert [(one.path, one.code, one.count) for one in groups] == [
        ("demo/hello", "order_broken", 2),
        ("demo/hello", "timeout", 1),
        ("demo/other", "unknown", 1),
    ]
    assert groups[0].latest == last and groups[0].first_at <= groups[0].last_at
    assert len(store.failure_groups(window, 2)[1]) == 2
    only = EndedWindow(window.since, window.until, 100, "demo/other")
    assert [one.path for one in store.failure_groups(only, 10)[1]] == ["demo/other"]


def test_lists_are_filtered_by_person_code_and_text(store, make):
    end(store, make, 1, "failed", principal="token:ada")
    end(store, make, 2, "failed", path="sales/orders_50%", state=NAMELESS)

    store.create(make.start(EID + 3), make.created(name="third", labels={"team": "Data"}))

    def found(**wanted) -> list[int]:
        return [
            info.execution_id - EID for info in store.executions(limit=9, wanted=ExecutionFilter(**wanted))
        ]

    assert found(principal="token:ada") == [1]
    assert (found(error_code="order_broken"), found(error_code="timeout")) == ([1], [2])
    assert (found(text="ORDERS_50%"), found(text="team=data"), found(text="s_0")) == ([2], [3], [])
    assert found(text="hello", error_code="timeout") == [2]


def test_executions_that_wait_for_callbacks_are_found_in_order(store, make):
    for number, places in ((1, ("1",)), (2, ()), (3, ("2.0.i0", "2.0.i1")), (4, ("1",))):
        slots = {(SCOPE, place): {"number": number} for place in places}
        store.commit([make.change(execution_id=EID + number, slots={**slots, ("step", "other"): 1})])
    store.commit([make.change(1, execution_id=EID + 4, status="cancelled", end=True)])
    assert store.asking(0, 10) == [EID + 1, EID + 3]
    assert (store.asking(0, 1), store.asking(EID + 1, 9)) == ([EID + 1], [EID + 3])
    found = store.callbacks_of_many([EID + 1, EID + 2, EID + 3], 1)
    assert {one: list(slots) for one, slots in found.items()} == {EID + 1: ["1"], EID + 3: ["2.0.i0"]}
