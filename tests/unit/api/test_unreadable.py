"""An execution whose state cannot be read, beside others that can."""

from __future__ import annotations

import pytest


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
