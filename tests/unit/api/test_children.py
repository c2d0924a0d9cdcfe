"""A step run names the sub-execution that it started, also when both have ended."""

from __future__ import annotations

from tests.unit.api.ground import HELLO

PARENT = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: demo/parent }
workflow:
  - step: start
    loop: { in: [1, 2], iterator: n }
    tool: { kind: playbook, path: demo/hello, payload: { n: "{{ iter.n }}" } }
    next: { arcs: [{ step: one }] }
  - step: one
    tool: { kind: playbook, path: demo/hello }
    next: { arcs: [{ step: last }] }
  - { step: last, tool: { kind: noop } }
"""


def test_the_child_of_a_step_is_known_after_its_end(ground):
    ground.register(HELLO)
    execution_id = ground.run(PARENT)
    listed = ground.ask("GET", "/api/executions", query={"parent": str(execution_id)}).json["executions"]
    steps = {
        one["step"]: one for one in ground.ask("GET", f"/api/executions/{execution_id}/steps").json["steps"]
    }
    assert steps["one"]["status"] == "done"
    assert steps["one"]["child_execution_id"] in {one["execution_id"] for one in listed}
    # A loop starts one for each item; none of them is the loop's.
    assert "child_execution_id" not in steps["start"] and "child_execution_id" not in steps["last"]
