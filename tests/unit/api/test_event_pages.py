"""Pages of events: at most so many as were asked for, together the whole history, each event once."""

from __future__ import annotations

import pytest

from tests.unit.api.ground import GATED, Ground

CHAIN = (
    """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: chain, path: demo/chain }
workflow:
"""
    + "".join(
        f"  - {{ step: {'start' if n == 0 else f's{n}'}, tool: {{ kind: noop, args: {{ n: {n} }} }}, next: s{n + 1} }}\n"
        for n in range(20)
    )
    + "  - { step: s20, loop: { in: [1, 2, 3], iterator: i }, tool: { kind: noop, args: { n: 1 } } }\n"
)


def pages(ground: Ground, execution_id: str, limit: int, **query: str) -> list[dict]:
    found, after = [], dict(query)
    while True:
        page = ground.ask(
            "GET", f"/api/executions/{execution_id}/events", query={"limit": str(limit), **after}
        ).json
        found.append(page)
        if page["complete"] or not page["events"]:
            return found
        after = {**query, "after": page["next"]}


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_a_page_has_at_most_its_limit_and_no_event_comes_twice(ground, limit):
    execution_id = ground.run(CHAIN)
    (whole,) = pages(ground, execution_id, 1000)
    assert whole["complete"] and len(whole["events"]) > 80
    found = pages(ground, execution_id, limit)
    assert max(len(page["events"]) for page in found) <= limit
    ids = [event["event_id"] for page in found for event in page["events"]]
    assert ids == [event["event_id"] for event in whole["events"]] and len(set(ids)) == len(ids)
    assert [page["complete"] for page in found] == [*[False] * (len(found) - 1), True]


def test_what_happens_later_follows_the_last_cursor(ground):
    waiting = ground.run(GATED)
    found = pages(ground, waiting, 3)
    after = found[-1]["next"]
    assert not found[-1]["complete"]
    ground.ask("PATCH", f"/api/executions/{waiting}/ctx", {"patch": {"approved": True}})
    ground.settle()
    later = ground.ask("GET", f"/api/executions/{waiting}/events", query={"after": after}).json
    names = [event["event_type"] for event in later["events"]]
    assert later["complete"] and names[-1] == "playbook.completed" and "ctx.patched" in names


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_the_newest_events_come_first_without_those_of_items(ground, limit):
    execution_id = ground.run(CHAIN)
    (whole,) = pages(ground, execution_id, 1000)
    found = pages(ground, execution_id, limit, order="newest")
    events = [event for page in found for event in page["events"]]
    assert events == [event for event in whole["events"] if event["meta"]["lane"] == 0][::-1]
    assert max(len(page["events"]) for page in found) <= limit
    assert [page["complete"] for page in found] == [*[False] * (len(found) - 1), True]


def test_a_cursor_belongs_to_its_order(ground):
    execution_id = ground.run(CHAIN)
    path = f"/api/executions/{execution_id}/events"
    for order, other in (("newest", "oldest"), ("oldest", "newest")):
        cursor = ground.ask("GET", path, query={"order": order, "limit": "2"}).json["next"]
        refused = ground.ask("GET", path, query={"order": other, "after": cursor})
        assert (refused.status, refused.json["code"]) == (400, "invalid_cursor")
    assert ground.ask("GET", path, query={"order": "random"}).status == 400


@pytest.mark.parametrize("cursor", ["WzAsW10sLTFd", "WzAsW10sOTk5OTk5OTk5OTldX"])
def test_a_made_up_cursor_is_refused(ground, cursor):
    answer = ground.ask("GET", f"/api/executions/{ground.run()}/events", query={"after": cursor})
    assert answer.status == 400
