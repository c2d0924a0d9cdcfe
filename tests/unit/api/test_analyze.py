"""Why executions stand where they stand, over the API with the real engine behind it."""

from __future__ import annotations

import pytest

from tests.unit.api.ground import FAILING, GATED, HELLO, Ground

BRANCHING = HELLO.replace("demo/hello", "demo/branch") + (
    '    next: {arcs: [{step: end, when: "{{ start.nothing.at_all > 3 }}"}]}\n'
    "  - step: end\n    tool: {kind: double, value: 1}\n"
)


def analyze(ground: Ground, execution_id: str):
    reply = ground.ask("POST", f"/api/executions/{execution_id}/analyze")
    assert reply.status == 200, reply
    return reply.json


def test_what_goes_well_needs_nothing(ground):
    found = analyze(ground, ground.run())
    assert (found["status"], found["stuck"], found["findings"]) == ("completed", False, [])


def test_a_gate_is_told_with_what_would_open_it_and_who_tried(ground):
    waiting = ground.run(GATED)
    ground.ask("PATCH", f"/api/executions/{waiting}/ctx", {"patch": {"approved": False}, "reason": "not yet"})
    ground.settle()
    found = analyze(ground, waiting)
    (parked,) = found["findings"]
    assert (found["stuck"], parked["kind"], parked["step"]) == (True, "parked", "gate")
    assert "ctx.approved is false" in found["verdict"]
    assert parked["next"] == [f"`noetl ctx patch {waiting} --set approved=true`"]
    (change,) = found["changes"]
    assert (change["name"], change["reason"]) == ("ctx.patched", "not yet") and change["principal"]


@pytest.mark.parametrize(("text", "kind"), [(FAILING, "failed_step"), (BRANCHING, "failed_arc")])
def test_a_failure_is_the_steps_own_or_of_what_follows_it(ground, text, kind):
    found = analyze(ground, ground.run(text))
    assert (found["status"], found["stuck"]) == ("failed", False)
    (failure,) = found["findings"]
    assert (failure["kind"], failure["step"], failure["severity"]) == (kind, "start", "error")
    assert any("redrive" in one for one in failure["next"])


def test_what_has_not_begun_is_told(ground):
    ground.register()
    found = analyze(ground, ground.start())
    assert found["stuck"] and found["findings"][0]["kind"] == "not_started"


def test_a_command_is_orphaned_when_its_owner_is_gone_or_it_was_never_taken(ground):
    ground.register()
    execution_id = ground.start()
    ground.store.heartbeat(ground.runtime.owner, 1e9)
    ground.runtime._handle(ground.publisher.sent)
    ground.runtime.commands.clear()
    assert [one["kind"] for one in analyze(ground, execution_id)["findings"]] == ["running"]
    ground.database.now += 700
    ground.store.heartbeat(ground.runtime.owner, 10)
    assert [one["kind"] for one in analyze(ground, execution_id)["findings"]] == ["long_running"]
    ground.database.now += 11
    (orphan,) = analyze(ground, execution_id)["findings"]
    assert orphan["kind"] == "orphan_command" and ground.runtime.owner in orphan["message"]
    ground.store.release(ground.runtime.owner)
    found = analyze(ground, execution_id)
    assert found["stuck"] and found["findings"][0]["kind"] == "not_taken"


def test_a_token_without_its_command_is_an_error(ground):
    ground.register()
    execution_id = ground.start()
    ground.runtime._handle(ground.publisher.sent)
    ground.runtime.commands.clear()
    with ground.store.tables() as tables:
        tables.work[int(execution_id)].commands.clear()
    (orphan,) = analyze(ground, execution_id)["findings"]
    assert (orphan["kind"], orphan["severity"]) == ("orphan_token", "error")
