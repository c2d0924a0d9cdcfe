"""A dry run of a redrive names the steps that run again, as the engine then runs them; it changes nothing."""

from __future__ import annotations

import pytest

from noetl.services.history.history_pages import history
from tests.unit.api.ground import HELLO, LOOPED, Ground

BRANCHED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: branched, path: demo/branched}
workflow:
  - step: start
    tool: {kind: double, value: 1}
    next: {spec: {mode: inclusive}, arcs: [{step: good}, {step: bad}]}
  - step: good
    tool: {kind: double, value: 2}
    next: {arcs: [{step: both}]}
  - step: bad
    tool: {kind: boom}
    next: {arcs: [{step: both}]}
  - step: both
    tool: {kind: double, value: 3}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: double, value: 4}
"""


def preview(ground: Ground, execution_id: str, status: int = 200, **body):
    reply = ground.ask("POST", f"/api/executions/{execution_id}/redrive", {"dry_run": True, **body})
    assert reply.status == status, reply
    return reply.json


def begins(found) -> list[tuple[str, str, str | None, int]]:
    return [(one["step"], one["action"], one["items"], one["count"]) for one in found["begins"]]


def test_from_the_failure_it_names_what_runs_what_waits_and_what_stays(ground: Ground) -> None:
    execution_id = ground.run(BRANCHED)
    before = [one.event_type for one in history(ground.store, int(execution_id))]
    found = preview(ground, execution_id)
    assert sorted(begins(found)) == [("bad", "run", None, 1), ("both", "join", None, 1)]
    assert found["follows"] == ["last"] and found["kept"] == ["start", "good"]
    assert [one.event_type for one in history(ground.store, int(execution_id))] == before
    assert ground.ask("GET", f"/api/executions/{execution_id}/status").json["status"] == "failed"


def test_the_redrive_then_enters_the_steps_that_were_named(ground: Ground) -> None:
    execution_id = ground.run(BRANCHED)
    named = {one["step"] for one in preview(ground, execution_id, **{"from": "good"})["begins"]}
    known = len(list(history(ground.store, int(execution_id))))
    ground.ask("POST", f"/api/executions/{execution_id}/redrive", {"from": "good"})
    ground.settle()
    later = list(history(ground.store, int(execution_id)))[known:]
    entered = [one.payload["step"] for one in later if one.event_type == "step.enter"]
    assert named == {"good"} and entered[0] == "good" and set(entered) <= {"good", "both", "last"}


def test_a_step_and_items_of_its_loop_are_named(ground: Ground) -> None:
    execution_id = ground.run(LOOPED)
    for place, items in (("start", "all"), ("start[failed]", "failed"), ("start[3]", "3")):
        found = preview(ground, execution_id, **{"from": place})
        assert begins(found) == [("start", "run", items, 1)] and found["follows"] == ["end"], place
    found = preview(ground, execution_id, **{"from": "end", "output": 7})
    assert begins(found) == [("end", "leave", None, 1)] and found["kept"] == ["start"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 409, "not_redrivable"),
        ({"from": "nowhere"}, 422, "unknown_step"),
        ({"from": "start", "args": {"x": 1}}, 422, "unread_argument"),
        ({"version": 9}, 404, "playbook_not_found"),
    ],
)
def test_it_is_refused_as_the_redrive_is(ground: Ground, body, status, code) -> None:
    execution_id = ground.run(HELLO)
    assert preview(ground, execution_id, status, **body)["code"] == code
    assert ground.ask("POST", f"/api/executions/{execution_id}/redrive", body).json["code"] == code
