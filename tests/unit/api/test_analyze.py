"""Why executions stand where they stand, over the API with the real engine behind it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from noetl.cli.app import app
from noetl.domain.events import LoopAlert
from noetl.ports.deliveries import DeadLetter
from noetl.services.queries import analyze as analyze_module
from noetl.services.queries import command_findings, diagnosis, queue_findings
from tests.unit.api.ground import FAILING, GATED, HELLO, Ground
from tests.unit.cli.fake_runtime import Boom

BRANCHING = HELLO.replace("demo/hello", "demo/branch") + (
    '    next: {arcs: [{step: end, when: "{{ (1 / 0) > 3 }}"}]}\n'
    "  - step: end\n    tool: {kind: double, value: 1}\n"
)

LOOPING = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: loops, path: demo/loops}\nworkflow:\n  - step: start\n"
    "    loop: {in: [1, 2], iterator: item, mode: parallel}\n    tool: {kind: double, value: 1}\n"
)


def analyze(ground: Ground, execution_id: str):
    reply = ground.ask("POST", f"/api/executions/{execution_id}/analyze")
    assert reply.status == 200, reply
    return reply.json


def test_what_goes_well_needs_nothing(ground):
    found = analyze(ground, ground.run())
    assert (found["status"], found["stuck"], found["findings"]) == ("completed", False, [])
    assert found["verdict"] == "nothing is wrong: it has ended"


def test_a_paused_execution_is_told_what_lifts_the_pause(ground):
    waiting = ground.run(GATED)
    ground.ask("POST", f"/api/executions/{waiting}/pause", {})
    ground.settle()
    (paused,) = [one for one in analyze(ground, waiting)["findings"] if one["kind"] == "paused"]
    assert paused["next"] == [f"`noetl unpause {waiting}` continues it"]


class DeadLetters:
    """Queues that hold a dead letter of every execution."""

    def dead_letters(self, execution_id):
        return [DeadLetter("events", "m", 1.8e9, "no such value", [str(execution_id)])]

    def tries(self, execution_id, command_id, attempt, turn):
        return None

    def gauges(self):
        return []


def test_a_dead_letter_comes_before_what_the_execution_waits_for(ground):
    waiting = ground.run(GATED)
    ground.deps = replace(ground.deps, deliveries=DeadLetters())
    found = analyze(ground, waiting)
    assert (found["findings"][0]["kind"], found["stuck"]) == ("dead_letter", True)
    assert "no such value" in found["verdict"]


def test_a_command_that_a_process_died_of_is_told(ground):
    ground.register()
    execution_id = ground.start()
    ground.runtime._handle(ground.publisher.sent)
    (command,) = ground.runtime.commands
    ground.runtime.commands.clear()
    ground.store.record_lost([(command.execution_id, command.command_id, command.turn)])
    (died,) = [one for one in analyze(ground, execution_id)["findings"] if one["kind"] == "processes_died"]
    assert died["message"].startswith("a command was under way in a process that died; one that 3 processes")


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
    execution_id = ground.start()
    (young,) = analyze(ground, execution_id)["findings"]
    assert (young["kind"], young["severity"]) == ("not_started", "info") and "for 0 s:" in young["message"]
    ground.database.now += diagnosis.DELIVERY_SECONDS + 1
    found = analyze(ground, execution_id)
    assert found["stuck"] and found["verdict"].startswith("it has not begun for 121 s: no engine has taken")


def test_a_start_that_no_outbox_holds_ages_from_the_beginning_of_its_execution(ground):
    ground.register()
    execution_id = ground.start()
    with ground.store.tables() as tables:
        tables.outbox.clear()
    assert not analyze(ground, execution_id)["stuck"]
    ground.database.now += diagnosis.DELIVERY_SECONDS + 1
    found = analyze(ground, execution_id)
    assert found["stuck"] and found["verdict"].endswith("its start is with the queue of the engine")


def test_an_event_that_was_written_a_moment_ago_makes_no_execution_stuck(ground):
    ground.register()
    execution_id = ground.start()
    ground.runtime._handle(ground.publisher.sent)
    ground.publisher.sent.clear()
    ground.store.heartbeat(ground.runtime.owner, 1e9)
    assert ground.ask("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": {"a": 1}}).status < 300

    def looked(later: float):
        ground.database.now += later
        found = analyze(ground, execution_id)
        (event,) = [one for one in found["findings"] if one["kind"] == "undelivered"]
        return found["stuck"], event["severity"], event["message"]

    assert looked(0) == (False, "info", "1 event is on the way to the engine, for 0 s")
    assert looked(diagnosis.DELIVERY_SECONDS)[:2] == (False, "info")
    assert looked(1) == (True, "warning", "1 event is on the way to the engine, for 121 s")
    ground.ask("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": {"a": 2}})
    assert looked(4)[2] == "2 events are on the way to the engine, the oldest for 125 s"


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


def test_a_loop_without_commands_is_an_error_unless_its_alert_is_on_the_way(ground):
    """A loop that told of its failure gives nothing out until the engine has said what becomes of it."""
    ground.register(LOOPING)
    execution_id = ground.start("demo/loops")
    ground.runtime._handle(ground.publisher.sent)
    ground.publisher.sent.clear()
    ground.runtime.commands.clear()
    with ground.store.tables() as tables:
        work = tables.work[int(execution_id)]
        ((run, round_),) = work.loops
        work.commands.clear()
        (orphan,) = analyze(ground, execution_id)["findings"]
        assert (orphan["kind"], orphan["severity"]) == ("orphan_loop", "error")
        alert = LoopAlert(
            int(execution_id), "alert", work.loops[run, round_].row.program, run, round_, "start", 0, "failed"
        )
        tables.post([alert], int(execution_id), None)
    assert [one["kind"] for one in analyze(ground, execution_id)["findings"]] == ["undelivered"]


def test_a_pause_is_told_with_who_asked_for_it_and_what_ends_it(ground):
    waiting = ground.run(GATED)
    ground.ask("POST", f"/api/executions/{waiting}/pause", {"reason": "lunch"})
    ground.settle()
    paused = analyze(ground, waiting)["findings"][0]
    assert paused["kind"] == "paused" and re.fullmatch(
        r"the execution was paused by \S+ \(reason: lunch\); the engine begins nothing new", paused["message"]
    )
    assert paused["next"] == [f"`noetl unpause {waiting}` continues it"]


PARENT = (
    GATED.replace("demo/gated", "demo/parent")
    .replace("    tool: {kind: double, value: 4}", "    tool: {kind: playbook, path: demo/gated}")
    .replace("{{ ctx.approved | default(false) }}", "{{ true }}")
)


def test_a_pause_of_the_parent_is_told_as_such(ground):
    ground.register(GATED)
    parent = ground.run(PARENT)
    (child,) = [
        one["execution_id"]
        for one in ground.ask("GET", "/api/executions").json["executions"]
        if one["parent_execution_id"] == parent
    ]
    ground.ask("POST", f"/api/executions/{parent}/pause", {})
    ground.settle()
    paused = analyze(ground, child)["findings"][0]
    assert paused["message"].startswith(f"the execution was paused with execution {parent}, which started it")
    assert paused["next"] == [f"`noetl unpause {parent}` continues it"]


UNDOING = HELLO.replace("demo/hello", "demo/undoing") + (
    "    spec: {compensate: {kind: wait, callback: true}}\n    next: {arcs: [{step: bad}]}\n"
    "  - step: bad\n    tool: {kind: boom}\n"
)


def test_what_is_being_undone_is_told_with_the_failure(ground):
    found = analyze(ground, ground.run(UNDOING))
    assert [one["kind"] for one in found["findings"]] == ["compensating", "waits_for_callback"]
    assert found["verdict"].startswith(
        "step bad failed (the pipe burst); what was done before is being undone"
    )


def test_a_failure_of_no_step_is_the_executions(ground):
    late = HELLO.replace("demo/hello", "demo/late").replace(
        "workload:", "executor: {spec: {timeout: 60}}\nworkload:"
    )
    ground.register(late)
    execution_id = ground.start("demo/late")
    ground.decide()
    ground.runtime.commands.clear()
    ground.database.now += 61
    fired, _ = ground.store.due_timers(ground.runtime.owner, 10)
    ground.runtime._handle(fired)
    (failure,) = analyze(ground, execution_id)["findings"]
    assert failure["message"].startswith("the execution failed: the execution took longer than its timeout")


def names_of(group):
    found = group.registered_commands
    return {one.name or one.callback.__name__.rstrip("_").replace("_", "-") for one in found}


def test_failed_items_count_until_a_redrive_repeats_them(ground, monkeypatch):
    monkeypatch.setattr(Boom, "calls", 0)
    tolerant = LOOPING.replace(
        "- step: start\n", "- step: start\n    spec: {policy: {failure: {mode: best_effort}}}\n"
    )
    execution_id = ground.run(tolerant.replace("kind: double, value: 1", "kind: boom, times: 2"))
    (failed,) = analyze(ground, execution_id)["findings"]
    assert failed["kind"] == "items_failed" and failed["message"].startswith(
        "2 of 2 items of step start failed"
    )
    (again,) = failed["next"]
    assert again.startswith(f'`noetl redrive {execution_id} --from "start[failed]"`')
    reply = ground.ask("POST", f"/api/executions/{execution_id}/redrive", {"from": "start[failed]"})
    assert reply.status < 300, reply
    ground.settle()
    assert analyze(ground, execution_id)["findings"] == []


def test_every_command_that_is_recommended_exists():
    """`noetl resume ID` was, and starts an engine instead of ending a pause."""
    recommended = set()
    for module in (analyze_module, diagnosis, command_findings, queue_findings):
        recommended |= set(
            re.findall(r"`noetl ([a-z-]+)(?: (\{|[a-z-]+))?", Path(module.__file__).read_text())
        )
    commands, groups = (
        names_of(app),
        {one.name: names_of(one.typer_instance) for one in app.registered_groups},
    )
    assert len(recommended) > 5
    for name, second in recommended:
        assert name in commands or second in groups[name], f"noetl {name} {second}"
    assert ("resume", "{") not in recommended, "it takes no execution"
