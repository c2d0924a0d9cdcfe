"""Two executions side by side, over the API."""

from __future__ import annotations

from tests.unit.api.ground import GATED, HELLO

BRANCH = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: branch, path: demo/branch }
workload: { amount: 1 }
workflow:
  - step: start
    tool: { kind: noop, args: { amount: "{{ workload.amount }}" } }
    set: { ctx.amount: "{{ workload.amount }}" }
    next:
      arcs:
        - { step: small, when: "{{ workload.amount < 10 }}" }
        - { step: large, when: "{{ workload.amount >= 10 }}" }
  - step: small
    tool: { kind: noop, args: { size: small } }
    next: report
  - step: large
    tool: { kind: noop, args: { size: large } }
    next: report
  - step: report
    tool: { kind: noop, args: { amount: "{{ ctx.amount }}" } }
"""


CALLS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: calls, path: demo/calls }
workload: { elapsed: 0.1, date: Mon, rate: 1 }
workflow:
  - step: start
    tool:
      kind: noop
      args:
        url: http://rates.example
        status_code: 200
        elapsed: "{{ workload.elapsed }}"
        headers: { date: "{{ workload.date }}", x-request-id: "{{ execution_id }}", content-type: text/plain }
        data: { date: Mon, execution_id: "{{ execution_id }}" }
    next: report
  - step: report
    tool: { kind: noop, args: { rate: "{{ workload.rate }}", key: "rates/{{ execution_id }}" } }
"""


def started(ground, path, **payload):
    execution_id = ground.start(path, payload=payload)
    ground.settle()
    return execution_id


def compare(ground, a, b):
    return ground.ask("GET", "/api/compare", query={"a": a, "b": b})


def test_the_first_run_that_differs_is_found_and_what_differs_is_named(ground):
    ground.register(BRANCH)
    a, b = started(ground, "demo/branch", amount=3), started(ground, "demo/branch", amount=30)
    found = compare(ground, a, b).json
    assert (found["same_program"], found["diff"]) == (True, [])
    assert [(one["path"], one["before"], one["after"]) for one in found["input"]] == [("amount", 3, 30)]
    assert [(one["path"], one["before"], one["after"]) for one in found["context"]] == [("amount", 3, 30)]
    steps = {one["step"]: one for one in found["steps"]}
    assert [one["step"] for one in found["steps"]] == ["start", "small", "large", "report"]
    assert found["divergence"] == 0
    assert steps["start"]["differs"] == ["result", "route"]
    assert (steps["start"]["a"]["next"], steps["start"]["b"]["next"]) == (["small"], ["large"])
    assert [(one["path"], one["before"], one["after"]) for one in steps["start"]["changes"]] == [
        ("result.amount", 3, 30)
    ]
    assert (steps["small"]["b"], steps["large"]["a"]) == (None, None)
    assert steps["report"]["differs"] == ["result"]
    assert [one["path"] for one in found["result"]] == ["result.amount"]


def test_what_differs_in_each_call_is_no_place_where_executions_part(ground):
    ground.register(CALLS)
    a = started(ground, "demo/calls", elapsed=0.1, date="Mon", rate=1)
    found = compare(ground, a, started(ground, "demo/calls", elapsed=0.2, date="Tue", rate=1)).json
    assert found["divergence"] is None
    assert {one["path"]: one["by_nature"] for one in found["steps"][0]["changes"]} == {
        "result.elapsed": "the time that the call took",
        "result.headers.date": "the moment of the answer",
        "result.headers.x-request-id": "a name that each call has",
        "result.data.execution_id": "the id of an execution",
    }
    assert {one["path"]: one["by_nature"] for one in found["result"]} == {
        "result.key": "the id of an execution"
    }


def test_what_differs_by_nature_comes_after_what_really_differs(ground):
    ground.register(CALLS)
    a = started(ground, "demo/calls", elapsed=0.1, rate=1)
    found = compare(ground, a, started(ground, "demo/calls", elapsed=0.2, rate=2)).json
    assert found["steps"][found["divergence"]]["step"] == "report"
    assert [(one["path"], one["by_nature"]) for one in found["steps"][found["divergence"]]["changes"]] == [
        ("result.rate", None),
        ("result.key", "the id of an execution"),
    ]


def test_equal_executions_have_no_divergence(ground):
    ground.register(BRANCH)
    a, b = started(ground, "demo/branch"), started(ground, "demo/branch")
    found = compare(ground, a, b).json
    assert (found["divergence"], found["input"], found["context"], found["result"]) == (None, [], [], [])
    assert found["a"]["execution_id"] != found["b"]["execution_id"]


def test_versions_are_told_apart_by_their_text_and_statuses_by_their_runs(ground):
    a = ground.run(HELLO)
    b = ground.run(HELLO.replace("{n: 21}", "{n: 22}"))
    found = compare(ground, a, b).json
    assert "-workload: {n: 21}" in found["diff"] and "+workload: {n: 22}" in found["diff"]
    assert (found["a"]["version"], found["b"]["version"]) == (1, 2)
    gated = compare(ground, a, ground.run(GATED)).json
    assert [one["differs"] for one in gated["steps"] if one["step"] == "gate"] == [["presence"]]


def test_both_executions_have_to_be_named_and_to_exist(ground):
    a = ground.run()
    assert ground.ask("GET", "/api/compare", query={"a": a}).json["code"] == "invalid_parameter"
    assert compare(ground, a, "1").json["code"] == "execution_not_found"
    assert compare(ground, a, "x").json["code"] == "invalid_execution_id"
