"""How long executions rest: every store adds it up by its own clock."""

from __future__ import annotations

import math

import pytest

from tests.contract.builders import EID


def rested(harness) -> float:
    return harness.store.info(EID).rested


def test_a_rest_counts_until_the_next_commit(harness, make):
    harness.store.commit([make.change(rests_until=math.inf)])
    start = harness.store.load([]).now
    harness.sleep(40)
    assert rested(harness) == pytest.approx(harness.store.load([]).now - start, abs=1)
    harness.store.commit([make.change(1)])
    after = rested(harness)
    assert after == pytest.approx(40, abs=1)
    harness.sleep(50)
    assert rested(harness) == after
    harness.store.commit([make.change(2, rests_until=math.inf)])
    harness.sleep(10)
    harness.store.commit([make.change(3, status="completed", end=True)])
    harness.sleep(10)
    assert rested(harness) == pytest.approx(50, abs=1)


def test_a_rest_that_has_an_end_counts_no_further(harness, make):
    now = harness.store.load([]).now
    harness.store.commit([make.change(rests_until=now + 20)])
    harness.sleep(60)
    assert rested(harness) == pytest.approx(20, abs=1)
    harness.store.commit([make.change(1, rests_until=now - 100)])
    harness.sleep(60)
    assert rested(harness) == pytest.approx(20, abs=1), "what is over already is no rest"


def test_a_commit_of_several_executions_knows_which_of_them_rest(harness, make):
    changes = [make.change(), make.change(execution_id=EID + 1, rests_until=math.inf)]
    harness.store.commit(changes)
    harness.sleep(30)
    found = harness.store.executions(limit=2)
    assert [round(one.rested / 10) for one in found] == [3, 0]
    ended = harness.store.endings([EID, EID + 1])
    assert [round(ended[one].info.rested / 10) for one in (EID, EID + 1)] == [0, 3]
