"""An execution whose state cannot be read, beside others that can."""

from __future__ import annotations

import msgspec
import pytest

from noetl.ports.executions.answers import ExecutionFilter
from noetl.services.history.replay import replay
from tests.unit.api.ground import GATED


@pytest.mark.parametrize("damage", [b"[]", b"{}", b"", b'{"tokens":{"x":{}}}', b'{"v":"two"}'])
def test_it_is_listed_and_shown_and_its_state_is_asked_for_in_vain(ground, damage):
    before, bad, after = (ground.run() for _ in range(3))
    ground.store._tables.executions[int(bad)].state = damage
    listed = ground.ask("GET", "/api/executions").json["executions"]
    unreadable = {one["execution_id"]: one["unreadable"] is not None for one in listed}
    assert unreadable == {before: False, bad: True, after: False}
    view = ground.ask("GET", f"/api/executions/{bad}").json
    assert view["unreadable"][0].startswith("the state of execution")
    told = ground.ask("GET", f"/api/executions/{bad}/status").json
    assert told["status"] == "completed" and told["unreadable"]
    refused = ground.ask("POST", f"/api/executions/{bad}/redrive", {})
    assert (refused.status, refused.json["code"]) == (409, "unreadable_row")
    assert ground.ask("GET", f"/api/executions/{bad}/events").status == 200


CHANGES = {
    "pause": ("POST", "pause", {}),
    "resume": ("POST", "resume", {}),
    "patch": ("PATCH", "ctx", {"patch": {"approved": True}}),
    "token": ("POST", "tokens", {"step": "gate"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_needs_the_state_is_refused_by_the_row(ground, change):
    bad = ground.run(GATED)
    method, door, body = CHANGES[change]
    with ground.store.tables() as tables:
        tables.executions[int(bad)].state = b"[]"
    refused = ground.ask(method, f"/api/executions/{bad}/{door}", body)
    assert (refused.status, refused.json["code"]) == (409, "unreadable_row")
    assert f"the state of execution {bad} cannot be read" in refused.json["detail"]
    if door in ("pause", "resume"):
        (told,) = ground.ask("POST", f"/api/executions/{door}", {"filter": {"ids": [bad]}}).json["executions"]
        assert (told["outcome"], told["code"]) == ("refused", "unreadable_row")
    refused = ground.ask("POST", f"/api/vars/{bad}", {"variables": {"n": 1}})
    assert (refused.status, refused.json["code"]) == (409, "unreadable_row")
    assert ground.store.open_work(int(bad))["outbox"] == 0


PARENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: demo/parent}
workflow:
  - {step: start, tool: {kind: double, value: 1}, next: {arcs: [{step: child}]}}
  - {step: child, tool: {kind: playbook, path: demo/gated}}
"""
HISTORY = {"whole": None, "damaged": "[7]"}


def family(ground) -> tuple[str, str, str]:
    """(grandparent, parent, child): each waits for the next one."""
    ground.register(GATED)
    ground.register(PARENT)
    top = ground.run(PARENT.replace("parent", "top").replace("gated", "parent"))
    middle = child_of(ground, top)
    return top, middle, child_of(ground, middle)


def child_of(ground, parent: str) -> str:
    (info,) = ground.store.executions(limit=5, wanted=ExecutionFilter(parent=int(parent)))
    return str(info.execution_id)


@pytest.mark.parametrize("history", HISTORY)
def test_it_can_be_cancelled_with_its_children_and_its_parent_is_told(ground, history):
    top, bad, child = family(ground)
    with ground.store.tables() as tables:
        tables.executions[int(bad)].state = b"{}"
        rows = tables.work[int(bad)].history
        if HISTORY[history]:
            last = max(rows.values(), key=lambda row: row.seq)
            rows[last.event_id] = msgspec.structs.replace(last, facts=HISTORY[history].encode())
    assert ground.ask("POST", f"/api/executions/{bad}/cancel", {"reason": "it is lost"}).status == 202
    ground.settle()
    status = {
        one: ground.ask("GET", f"/api/executions/{one}/status").json["status"] for one in (top, bad, child)
    }
    assert status == {top: "failed", bad: "cancelled", child: "cancelled"}
    events = ground.ask("GET", f"/api/executions/{bad}/events").json["events"]
    (told,) = (one["payload"] for one in events if one["event_type"] == "execution.cancelled")
    assert told["reason"] == "it is lost"
    assert told["unreadable"] == f"the state of execution {bad} cannot be read: it is empty"
    assert ground.ask("GET", f"/api/executions/{bad}/status").json["unreadable"] is None
    redriven = ground.ask("POST", f"/api/executions/{bad}/redrive", {})
    if history == "whole":
        assert replay(ground.store, int(bad)).agrees
        assert redriven.status == 202, "what was under way is known"
    else:
        assert (redriven.status, redriven.json["code"]) == (409, "not_redrivable")
        assert "could not be read" in redriven.json["detail"]
