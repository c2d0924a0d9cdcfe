"""Pages of events: at most so many as were asked for, together the whole history, each event once."""

from __future__ import annotations

import msgspec
import pytest

from noetl.api.history import event_pages
from noetl.domain import codec
from noetl.ports.executions.execution_store import EventRow
from tests.contract.builders import EID, Make
from tests.unit.api.ground import GATED, LOOPED, Ground

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
        if page["complete"] or not (page["events"] or page["more"]):
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


def entered(step: str, run: int, *more: dict) -> bytes:
    return codec.encode([{"name": "step.enter", "run": run, "step": step}, *more])


def made(ground: Ground, *rows: EventRow) -> str:
    """Return an execution with these rows."""
    ground.store.commit([Make().change(events=rows)])
    return str(EID)


def add(ground: Ground, version: int, *rows: EventRow) -> None:
    ground.store.commit([Make().change(version, events=rows)])


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_rows_that_are_added_or_damaged_meanwhile_lose_and_repeat_no_older_event(ground, limit):
    """The cursor points into the newest row when the next one comes, and then into one that is damaged later."""
    make = Make()
    many = codec.encode([{"name": "step.enter", "run": run, "step": "a"} for run in range(5)])
    rows = [make.row(f"row{seq}", seq=seq, facts=many) for seq in (1, 2, 3)]
    execution_id = made(ground, *rows)
    history = ground.store._tables.work[EID].history
    path, query = f"/api/executions/{execution_id}/events", {"order": "newest", "limit": str(limit)}
    found: list[str] = []
    for version in range(1, 99):
        page = ground.ask("GET", path, query=query).json
        found += [event["event_id"] for event in page["events"]]
        query["after"] = page["next"]
        if page["complete"]:
            break
        add(ground, version, make.row(f"later{version}", seq=3 + version, facts=many))
        history["row1"] = msgspec.structs.replace(history["row1"], facts=b'{"not": "a list"}')
    assert found == [f"row{seq}:{place}" for seq in (3, 2) for place in range(4, -1, -1)] + ["row1:0"]


def test_a_row_that_comes_while_a_cursor_points_into_an_item_is_returned_whole(ground):
    """Rows of the main lane come before items: what was returned of the item was taken for a part of the row."""
    make = Make()
    loop = {"name": "loop.started", "run": 1, "step": "each", "round": 1, "total": 9}
    items = [
        make.row(f"item:1:1:{place}", seq=place, lane=1, type="call.done", facts=b'{"status": "ok"}')
        for place in range(3)
    ]
    execution_id = made(ground, make.row("begin", seq=1, facts=entered("each", 1, loop)), *items)
    whole = [event["event_id"] for page in pages(ground, execution_id, 1000) for event in page["events"]]
    found, query = [], {"limit": "1"}
    for version in range(1, 99):
        page = ground.ask("GET", f"/api/executions/{execution_id}/events", query=query).json
        if not page["events"]:
            break
        found += [event["event_id"] for event in page["events"]]
        query["after"] = page["next"]
        if version in (4, 9):
            row = make.row(f"later{version}", seq=version, facts=entered("other", version))
            add(ground, 1 if version == 4 else 2, row)
    assert [one for one in found if not one.startswith("later")] == whole
    assert [one for one in found if one.startswith("later")] == ["later4:0", "later9:0"]


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


@pytest.mark.parametrize("order", ["oldest", "newest"])
@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_a_filter_is_answered_page_by_page_although_a_page_may_be_empty(ground, monkeypatch, order, limit):
    monkeypatch.setattr(event_pages, "ROWS", 1)
    execution_id = ground.run(CHAIN)
    whole = [event for page in pages(ground, execution_id, 1000, order=order) for event in page["events"]]
    for query, fits in (
        ({"types": "step.exit,step.enter"}, lambda event: event["event_type"] in ("step.exit", "step.enter")),
        ({"step": "s20"}, lambda event: "s20" in (event["meta"].get("step"), event["payload"].get("step"))),
        ({"types": "step.exit", "step": "s7"}, lambda event: event["event_type"] == "step.exit" and event["entity_id"] == "s7"),
        ({"types": "step.failed"}, lambda event: False),
        ({"step": "nowhere"}, lambda event: False),
    ):  # fmt: skip
        found = pages(ground, execution_id, limit, order=order, **query)
        events = [event for page in found for event in page["events"]]
        assert events == [event for event in whole if fits(event)]
        assert max(len(page["events"]) for page in found) <= limit
        assert events or (len(found) > 1 and found[0]["scanned"] < len(whole)), (
            "each request looks at one row"
        )
        assert [page["complete"] for page in found] == [not page["more"] for page in found]
        assert found[-1]["complete"] and all(page["scanned_until"] for page in found if page["scanned"])


def test_a_request_of_a_filter_ends_when_its_time_is_over(ground, monkeypatch):
    monkeypatch.setattr(event_pages, "SECONDS", -1.0)
    execution_id = ground.run(CHAIN)
    path = f"/api/executions/{execution_id}/events"
    page = ground.ask("GET", path, query={"types": "step.failed"}).json
    assert (page["events"], page["more"], page["complete"]) == ([], True, False) and page["scanned"] > 0
    assert ground.ask("GET", path, query={"limit": "1000"}).json["complete"], "it bounds filters alone"


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_rows_of_other_loops_are_not_read(ground, monkeypatch, order):
    """Items that cannot have a wanted event are passed over, and of those that failed only their own rows are read."""
    execution_id = ground.run(LOOPED)
    for types, step in (("call.error", "start"), ("step.exit", ""), ("task.done", "end")):
        with monkeypatch.context() as patch:
            patch.setattr(type(ground.store), "item_events", None)
            query = {"types": types, "step": step, "order": order}
            events = ground.ask("GET", f"/api/executions/{execution_id}/events", query=query).json["events"]
        failed = [event for event in events if event["event_type"] == "call.error"]
        assert len(failed) == (3 if (types, order) == ("call.error", "oldest") else 0)


def test_what_happens_later_follows_the_cursor_of_a_filter(ground):
    waiting = ground.run(GATED)
    query = {"types": "step.exit,playbook.completed"}
    page = ground.ask("GET", f"/api/executions/{waiting}/events", query=query).json
    assert [event["entity_id"] for event in page["events"]] == ["start"]
    assert not page["more"] and not page["complete"]
    ground.ask("PATCH", f"/api/executions/{waiting}/ctx", {"patch": {"approved": True}})
    ground.settle()
    later = ground.ask(
        "GET", f"/api/executions/{waiting}/events", query={**query, "after": page["next"]}
    ).json
    names = [event["event_type"] for event in later["events"]]
    assert (names, later["complete"]) == (["step.exit", "playbook.completed"], True)


@pytest.mark.parametrize(
    ("types", "vocabulary", "near"),
    [
        ("step.fail", "stored", "step.failed"),
        ("call.done,step.exits", "stored", "step.exit"),
        ("step.exit", "formal", "step.finished"),
        ("x" * 5000, "stored", "noetl docs events"),
    ],
)
def test_an_unknown_type_is_refused_with_the_near_names(ground, types, vocabulary, near):
    path = f"/api/executions/{ground.run()}/events"
    refused = ground.ask("GET", path, query={"types": types, "vocabulary": vocabulary})
    assert (refused.status, refused.json["code"]) == (400, "invalid_parameter")
    assert near in refused.json["hint"]
    assert ground.ask("GET", path, query={"types": "row.unreadable", "vocabulary": vocabulary}).status == 200
