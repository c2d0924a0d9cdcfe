"""What an execution cost, by step, over the API."""

from __future__ import annotations

import pytest

from tests.unit.api.ground import GATED, HELLO, LOOPED

PAID = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: paid, path: demo/paid }
executor: { spec: { budget: { cost: 100 } } }
workflow:
  - step: start
    tool: { kind: noop, args: { a: 1 } }
    next: { spec: { mode: inclusive }, arcs: [{ step: ask, args: { n: 1 } }, { step: ask, args: { n: 2 } }] }
  - step: ask
    spec: { join: each }
    tool:
      - first: { kind: double, value: "{{ args.n }}", set: { ctx.cost: { add: 0.25 } } }
      - rest: { kind: noop, args: { b: 1 } }
      - second: { kind: double, value: 7, set: { ctx.cost: { add: 1 } } }
    next: { arcs: [{ step: huge, when: "{{ args.n == 2 }}" }] }
  - step: huge
    tool: { kind: boom }
"""


def cost_of(ground, text: str) -> dict:
    execution_id = ground.run(text)
    ground.settle()
    return ground.ask("GET", f"/api/executions/{execution_id}/cost").json


def test_calls_and_costs_are_those_of_all_runs_of_a_step(ground):
    found = cost_of(ground, PAID)
    steps = {one["step"]: one for one in found["steps"]}
    assert list(steps) == ["start", "ask", "huge"]
    assert (steps["start"]["runs"], steps["start"]["calls"], steps["start"]["cost"]) == (1, 0, None)
    assert (steps["ask"]["runs"], steps["ask"]["calls"], steps["ask"]["cost"]) == (2, 4, 2.5)
    assert (steps["huge"]["runs"], steps["huge"]["cost"]) == (1, None) and steps["huge"]["calls"] >= 1
    assert found["calls"] == sum(one["calls"] for one in found["steps"]) and found["cost"] == 2.5
    assert found["complete"] is True


def test_items_of_a_loop_count_for_its_step(ground):
    found = cost_of(ground, LOOPED)
    start, end = found["steps"]
    assert (start["step"], start["items"], start["calls"]) == ("start", 7, 7)
    assert (end["step"], end["items"], end["calls"]) == ("end", 0, 1)
    assert found["tool_ms"] == pytest.approx(start["tool_ms"] + end["tool_ms"])


def test_a_running_execution_shows_what_it_cost_until_now(ground):
    found = cost_of(ground, GATED)
    assert [(one["step"], one["calls"]) for one in found["steps"]] == [("start", 1)]


def test_more_items_than_one_request_adds_up_are_said(ground, monkeypatch):
    monkeypatch.setattr("noetl.services.queries.step_costs.MOST_ITEMS", 3)
    found = cost_of(ground, LOOPED)
    assert (found["steps"][0]["items"], found["complete"]) == (3, False)


PARENT = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: demo/parent }
workflow:
  - step: start
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool: { kind: playbook, path: demo/hello, payload: { n: "{{ iter.n }}" } }
    next: { arcs: [{ step: nested }] }
  - step: nested
    tool: { kind: playbook, path: demo/paid }
    spec: { on_error: continue }
"""


def test_sub_executions_are_added_up_where_that_is_asked_for(ground, monkeypatch):
    ground.register(HELLO)
    ground.register(PAID)
    execution_id = ground.run(PARENT)
    path = f"/api/executions/{execution_id}/cost"
    alone = ground.ask("GET", path).json
    assert (alone["calls"], alone["family"]) == (0, None)
    assert [(one["step"], one["items"], one["calls"]) for one in alone["steps"]] == [
        ("start", 3, 0),
        ("nested", 0, 0),
    ]
    family = ground.ask("GET", path, query={"family": "true"}).json["family"]
    playbooks = {one["path"]: one for one in family["playbooks"]}
    assert (playbooks["demo/hello"]["executions"], playbooks["demo/hello"]["calls"]) == (3, 3)
    assert (playbooks["demo/paid"]["executions"], playbooks["demo/paid"]["cost"]) == (1, 2.5)
    assert family["calls"] == 3 + playbooks["demo/paid"]["calls"] and family["cost"] == 2.5
    monkeypatch.setattr("noetl.services.queries.step_costs.MOST_EXECUTIONS", 2)
    found = ground.ask("GET", path, query={"family": "true"}).json
    assert (sum(one["executions"] for one in found["family"]["playbooks"]), found["complete"]) == (2, False)
