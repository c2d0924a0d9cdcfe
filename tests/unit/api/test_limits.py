"""Limits over the API: what operators say, what is refused, and what waiting executions are told."""

from __future__ import annotations

from tests.parts import over
from tests.unit.api.ground import Ground

ONE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: one, path: demo/{name} }}
executor: {{ spec: {{ concurrency: {{ limit: 1, on_excess: {excess} }}, priority: 4 }} }}
workflow:
  - step: start
    spec: {{ limits: [{{ key: "a/b", concurrent: 1 }}] }}
    tool: {{ kind: double, value: 1 }}
"""


def begin(ground: Ground, name: str, excess: str, **body):
    text = ONE.format(name=name, excess=excess)
    ground.ask("POST", "/api/catalog/register", {"content": text, "source_name": f"{name}.yaml"})
    return ground.ask("POST", "/api/executions", {"path": f"demo/{name}", **body})


def test_one_too_many_is_queued_with_its_reason_and_begins_when_there_is_room(ground: Ground):
    first = begin(ground, "queue", "queue").json["execution_id"]
    ground.decide()
    second = begin(ground, "queue", "queue", priority=7).json["execution_id"]
    ground.decide()
    shown = ground.ask("GET", f"/api/executions/{second}").json
    assert shown["status"] == "queued"
    assert ground.ask("GET", f"/api/executions/{second}/status").json["status"] == "queued"
    listed = ground.ask("GET", "/api/executions", query={"status": "queued"}).json["executions"]
    assert [one["execution_id"] for one in listed] == [second]
    (wait,) = shown["waits"]
    assert wait["reason"] == f"waits for key 'execution:demo/queue': 1 of 1 in use by {first}, position 1"
    found = ground.ask("POST", f"/api/executions/{second}/analyze").json
    assert [one["kind"] for one in found["findings"]] == ["waits_for_limit"]
    (key,) = [
        one for one in ground.ask("GET", "/api/limits").json["limits"] if one["key"] == "execution:demo/queue"
    ]
    assert (key["in_use"], key["waiting"], key["first"][0]["priority"]) == (1, 1, 7)
    assert ground.ask("POST", f"/api/executions/{first}/cancel", {}).status == 202
    ground.decide()
    assert ground.ask("GET", f"/api/executions/{second}").json["status"] == "running"


def test_a_playbook_that_refuses_answers_409_with_who_runs(ground: Ground):
    first = begin(ground, "refuse", "refuse").json["execution_id"]
    ground.decide()
    refused = begin(ground, "refuse", "refuse")
    assert (refused.status, refused.json["code"]) == (409, "concurrency_limit")
    assert refused.json["details"] == {"key": "execution:demo/refuse", "limit": 1, "holders": [first]}
    ground.ask("PUT", "/api/limits/execution:demo/refuse", {"concurrent": 2})
    assert begin(ground, "refuse", "refuse").status == 201


def test_the_oldest_makes_room_where_that_is_asked(ground: Ground):
    first = begin(ground, "newest", "cancel_oldest").json["execution_id"]
    ground.decide()
    second = begin(ground, "newest", "cancel_oldest").json["execution_id"]
    ground.decide()
    shown = ground.ask("GET", f"/api/executions/{first}").json
    assert shown["status"] == "cancelled" and f"execution {second} takes its place" in shown["reason"]
    assert ground.ask("GET", f"/api/executions/{second}").json["status"] == "running"


@over(
    ("body", "status"),
    [
        ({}, 422),
        ({"concurrent": -1}, 422),
        ({"rate": 0}, 422),
        ({"rate": 1, "burst": 0}, 422),
        ({"concurrent": "many"}, 422),
        ({"concurrent": 10**3999}, 422),
        ({"concurrent": -(10**3999)}, 422),
        ({"most": 1}, 422),
    ],
    ground=Ground,
)
def test_what_bounds_nothing_is_refused(ground: Ground, body, status):
    assert ground.ask("PUT", "/api/limits/x", body).status == status
    assert ground.ask("PUT", f"/api/limits/{'x' * 300}", {"concurrent": 1}).status == 422
    assert ground.ask("DELETE", "/api/limits/x").json["code"] == "limit_not_found"
    for hostile in ("a%0Ab", "%1B%5B31m", "%E2%80%AEkey"):
        refused = ground.ask("PUT", f"/api/limits/{hostile}", {"concurrent": 1})
        assert (refused.status, refused.json["code"]) == (422, "invalid_limit"), hostile
        assert ground.ask("DELETE", f"/api/limits/{hostile}").json["code"] == "limit_not_found"


def test_a_priority_has_its_bounds(ground: Ground):
    assert begin(ground, "queue", "queue", priority=1001).status == 422
