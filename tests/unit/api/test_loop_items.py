"""The items of a loop over the API: pages, those that failed, and what is no loop."""

from __future__ import annotations

from tests.unit.api.ground import LOOPED


def page(ground, execution_id, run=1, status=200, **query):
    reply = ground.ask(
        "GET",
        f"/api/executions/{execution_id}/loops/{run}/items",
        query={name: str(value) for name, value in query.items()},
    )
    assert reply.status == status, reply
    return reply.json


def test_pages_follow_each_other_to_the_last_item(ground):
    execution_id = ground.run(LOOPED)
    found, after = [], {}
    while True:
        one = page(ground, execution_id, limit=3, **after)
        assert (one["execution_id"], one["run"]) == (execution_id, 1)
        found.append([item["index"] for item in one["items"]])
        if one["next"] is None:
            break
        after = {"after": one["next"]}
    assert found == [[0, 1, 2], [3, 4, 5], [6]]


def test_those_that_failed_are_pages_of_their_own(ground):
    execution_id = ground.run(LOOPED)
    first = page(ground, execution_id, limit=2, failed="true")
    assert [(item["index"], item["status"]) for item in first["items"]] == [(0, "failed"), (3, "failed")]
    assert all(item["error"]["message"] for item in first["items"])
    last = page(ground, execution_id, limit=2, failed="true", after=first["next"])
    assert ([item["index"] for item in last["items"]], last["next"]) == ([6], None)


def test_what_is_no_loop_or_no_cursor_is_refused(ground):
    execution_id = ground.run(LOOPED)
    for run in (2, 99, 0, "x", 2**63, "1.5"):
        assert page(ground, execution_id, run, status=404)["code"] == "loop_not_found"
    assert page(ground, 12345, status=404)["code"] != "loop_not_found"
    assert page(ground, execution_id, status=400, after="x")["code"] == "invalid_cursor"
    assert page(ground, execution_id, status=400, limit=501)["code"] == "invalid_parameter"
    assert page(ground, execution_id, status=400, failed="maybe")["code"] == "invalid_parameter"


def bands(ground, execution_id, run=1, status=200, **query):
    reply = ground.ask(
        "GET",
        f"/api/executions/{execution_id}/loops/{run}/bands",
        query={name: str(value) for name, value in query.items()},
    )
    assert reply.status == status, reply
    return reply.json


def test_a_loop_over_time_counts_every_item_once(ground):
    execution_id = ground.run(LOOPED)
    found = bands(ground, execution_id, bands=3)
    assert (found["total"], found["done"], found["failed"], found["running"]) == (7, 4, 3, 0)
    assert sum(one["done"] for one in found["bands"]) == 4
    assert sum(one["failed"] for one in found["bands"]) == 3
    assert 1 <= len(found["bands"]) <= 3
    assert bands(ground, execution_id)["execution_id"] == execution_id


def test_a_band_leads_to_its_items(ground):
    execution_id = ground.run(LOOPED)
    for one in bands(ground, execution_id, bands=4)["bands"]:
        cursor = {} if one["after"] is None else {"after": one["after"]}
        assert page(ground, execution_id, limit=1, **cursor)["items"][0]["index"] == one["first"]


def test_what_is_no_loop_has_no_bands(ground):
    execution_id = ground.run(LOOPED)
    for run in (2, 99, 0, "x", 2**63):
        assert bands(ground, execution_id, run, status=404)["code"] == "loop_not_found"
    for count in (0, 201, "x"):
        assert bands(ground, execution_id, status=400, bands=count)["code"] == "invalid_parameter"
