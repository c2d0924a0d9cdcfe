"""Events from outside: which are let in, what they come to, and that what is hostile does no harm."""

from __future__ import annotations

import json

import msgspec
import pytest

from noetl.adapters.http_credentials import PAUSES
from noetl.adapters.http_work import HttpEvents
from noetl.domain.capability_tokens import KeyRing, grant
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Cancel, CommandDone, encode_event
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.workers.command_token import HEADER
from noetl.ports.queue import Outgoing
from noetl.services.orchestrator.ingest_worker_events import resume_batches
from tests.parts import over
from tests.unit.api.ground import HELLO, Ground

LOOP = HELLO.replace("demo/hello", "demo/loop").replace(
    "  - step: start\n", "  - step: start\n    loop: {in: [1, 2], iterator: x}\n"
)
WORKER = {"jwt": {"claims": {"sub": "w", "scope": "worker"}}}
NOBODY = {"jwt": {"claims": {"sub": "n", "scope": "read"}}}


def body_of(ground: Ground, command, name: str = "call.done", **payload):
    return {
        "execution_id": str(command.execution_id),
        "step": command.step,
        "name": name,
        "payload": payload or {"result": 42},
        "command": ground.capability(command).header(),
    }


def message(command, token: str, **changes):
    event = CommandDone(
        command.execution_id,
        f"cmd:{command.command_id}:{command.turn}",
        command.program,
        command.command_id,
        command.attempt,
        command.turn,
        command.run,
        command.step,
        Outcome("ok", result=42),
    )
    changed = msgspec.structs.replace(event, **changes)
    return {"v": 1, "token": token, "event": json.loads(encode_event(changed))}


def deliver(ground: Ground) -> None:
    """What was forwarded reaches the engine."""
    ground.runtime.events += ground.forwarded
    ground.forwarded.clear()
    ground.settle()


def beside(ground: Ground, execution_id: int) -> list[str]:
    """Names of the rows beside a history."""
    with ground.store.tables() as tables:
        rows = tables.work[execution_id].history.values()
        return [fact["name"] for row in rows if row.lane == -1 for fact in json.loads(row.facts)]


@over("how", ["name", "event_type", "header", "message", "worker.done"], ground=Ground)
def test_an_outcome_moves_its_execution_on(ground, how):
    command = ground.issued()
    body, headers = body_of(ground, command), {}
    if how == "event_type":
        body["event_type"] = body.pop("name")
    elif how == "header":
        headers = {"noetl-command": body.pop("command")}
    elif how == "message":
        body = message(command, grant(command, ground.keys))
    elif how == "worker.done":
        body |= {"name": "worker.done", "payload": {"response": 42}}
    reply = ground.ask("POST", "/api/events", body, headers=headers)
    assert (reply.status, reply.json["event_id"]) == (202, f"cmd:{command.command_id}:0"), reply
    deliver(ground)
    found = ground.ask("GET", f"/api/executions/{command.execution_id}/result").json
    assert found["result"] == 42
    assert ground.ask("POST", "/api/events", body, headers=headers).status == 202, "a repeat is no error"
    deliver(ground)
    assert ground.ask("GET", f"/api/executions/{command.execution_id}/status").json["status"] == "completed"


@pytest.mark.parametrize(
    ("error", "told"),
    [("no water", "no water"), ({"message": "dry", "code": "drought"}, "dry"), (None, "failed")],
)
def test_a_failure_is_reported_with_its_error(ground, error, told):
    command = ground.issued()
    payload = {} if error is None else {"error": error}
    body = {**body_of(ground, command, "call.error"), "payload": payload}
    assert ground.ask("POST", "/api/events", body).status == 202
    deliver(ground)
    found = ground.ask("GET", f"/api/executions/{command.execution_id}").json
    assert (found["status"], found["error"]["message"]) == ("failed", told)


def test_a_sign_of_life_changes_nothing(ground):
    command = ground.issued()
    assert ground.ask("POST", "/api/events", body_of(ground, command, "command.heartbeat")).status == 202
    bare = message(command, grant(command, ground.keys), outcome=Outcome("suspended"))
    assert ground.ask("POST", "/api/events", bare).status == 202
    assert ground.signs == [(command.execution_id, command.command_id, 1, 0)] * 2 and not ground.forwarded


@over(
    "change",
    [
        {"command_id": "2"}, {"attempt": 2}, {"turn": 1}, {"run": 9}, {"step": "other"}, {"program": "x"}, {"stage": "case"},
        {"execution_id": 7},
    ], ground=Ground,
)  # fmt: skip
def test_a_token_speaks_for_nothing_but_its_command(ground, change):
    command = ground.issued()
    reply = ground.ask("POST", "/api/events", message(command, grant(command, ground.keys), **change))
    assert (reply.status, reply.json["code"]) == (403, "forbidden"), reply
    assert not ground.forwarded and ground.refusals == ["event_refused"]
    if "execution_id" not in change:
        assert beside(ground, command.execution_id) == ["command.superseded"]
    assert ground.ask("GET", f"/api/executions/{command.execution_id}/status").json["status"] == "running"


def test_what_only_the_engine_may_say_is_refused(ground):
    command = ground.issued()
    unknown = grant(command, KeyRing.of(["another key's secret"]))
    for token, status in (("", 403), (grant(command, ground.keys), 403), (unknown, 503)):
        event = json.loads(encode_event(Cancel(command.execution_id, "x", command.program)))
        assert ground.ask("POST", "/api/events", {"v": 1, "token": token, "event": event}).status == status
    assert not ground.forwarded


@over(
    ("body", "code"),
    [
        ({}, "body_invalid"),
        ({"name": "step.exit"}, "event_invalid"),
        ({"name": "call.done"}, "event_invalid"),
        ({"name": "call.done", "command": "x"}, "capability_invalid"),
        ({"name": "call.done", "payload": []}, "body_invalid"),
        ({"event": {"type": "nothing"}}, "forbidden"),
        ({"event": {"type": "command"}, "v": 99}, "forbidden"),
    ],
    ground=Ground,
)
def test_what_is_no_event_is_told(ground, body, code):
    reply = ground.ask("POST", "/api/events", body)
    assert (reply.status, reply.json["code"]) == (403 if code == "forbidden" else 422, code), reply


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"execution_id": "5"}, "another execution"),
        ({"payload": {"result": "x" * 40_000}}, "bytes"),
        ({"name": "call.error", "payload": {"error": 5}}, "does not fit"),
    ],
)
def test_reports_that_do_not_fit_are_refused(ground, change, part):
    reply = ground.ask("POST", "/api/events", {**body_of(ground, ground.issued()), **change})
    assert (reply.status, reply.json["code"]) == (422, "event_invalid") and part in reply.json["detail"]


def test_items_are_reported_one_by_one(ground):
    reply = ground.ask("POST", "/api/events", body_of(ground, ground.issued(LOOP)))
    assert reply.status == 422 and "items" in reply.json["detail"]


def test_the_token_of_a_command_is_enough_and_a_forged_one_is_not():
    ground = Ground("jwt")
    ground.database.programs.register(HELLO, source_name="hello.yaml")
    everything = {"jwt": {"claims": {"sub": "a", "scope": "admin worker"}}}
    started = ground.ask("POST", "/api/executions", {"path": "demo/hello"}, authorizer=everything)
    assert started.status == 201, started
    ground.store.heartbeat(ground.runtime.owner, 1e9)
    ground.runtime._handle(ground.publisher.sent)
    command = ground.runtime.commands.pop()
    body = body_of(ground, command)
    good = ground.capability(command)
    forged = msgspec.structs.replace(good, attempt=2)
    for shown, status in (("", 422), ("xx", 422), (forged.header(), 403), (good.header(), 202)):
        reply = ground.ask("POST", "/api/events", body, authorizer=NOBODY, headers={"noetl-command": shown})
        assert reply.status == status, reply
    assert ground.ask("POST", "/api/events", body, authorizer=NOBODY).status == 403
    assert ground.ask("POST", "/api/events", body, authorizer=WORKER).status == 202
    assert ground.refusals == ["capability_invalid", "capability_invalid", "capability_refused"]


# --- after a rotation of the token key: the sender has a key that this process has not read yet -----------

ROTATED = KeyRing.of(["the key after a rotation", "a key of this test"])


def signed_anew(ground: Ground, command) -> dict:
    """What a worker sends whose command was signed after the rotation."""
    return message(command, grant(command, ROTATED))


def test_an_outcome_of_a_key_that_is_not_known_yet_is_asked_for_again(ground):
    command = ground.issued()
    body = signed_anew(ground, command)
    reply = ground.ask("POST", "/api/events", body)
    assert (reply.status, reply.json["code"], reply.json["retryable"]) == (503, "key_unknown", True), reply
    assert "Retry-After" in reply.headers and not ground.refusals and not beside(ground, command.execution_id)
    ground.keys = ROTATED
    assert ground.ask("POST", "/api/events", body).status == 202
    deliver(ground)
    assert ground.ask("GET", f"/api/executions/{command.execution_id}/status").json["status"] == "completed"


def test_so_is_a_command_that_alone_opens_the_door():
    ground = Ground("jwt")
    ground.database.programs.register(HELLO, source_name="hello.yaml")
    everything = {"jwt": {"claims": {"sub": "a", "scope": "admin worker"}}}
    assert ground.ask("POST", "/api/executions", {"path": "demo/hello"}, authorizer=everything).status == 201
    ground.store.heartbeat(ground.runtime.owner, 1e9)
    ground.runtime._handle(ground.publisher.sent)
    command = ground.runtime.commands.pop()
    shown = msgspec.structs.replace(ground.capability(command), token=grant(command, ROTATED)).header()
    body = {**body_of(ground, command), "command": shown}
    for keys, status in ((ground.keys, 503), (ROTATED, 202)):
        ground.keys = keys
        reply = ground.ask("POST", "/api/events", body, authorizer=NOBODY, headers={"noetl-command": shown})
        assert reply.status == status, reply
        given = ground.ask("POST", "/api/commands/give-back", {"command": shown}, authorizer=WORKER)
        assert given.status == (503 if status == 503 else 200), given
    assert not ground.refusals


@pytest.mark.parametrize("reread", [True, False])
def test_a_worker_repeats_such_an_outcome_and_never_its_task(ground, reread):
    body, slept = json.dumps(signed_anew(ground, ground.issued())), []

    def exchange(method, path, sent, headers):
        reply = ground.ask(method, path, json.loads(sent))
        return reply.status, json.dumps(reply.json).encode()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if reread and len(slept) == len(PAUSES):
            ground.keys = ROTATED

    events = HttpEvents(exchange, ground.logs.append, sleep=sleep)
    if reread:
        assert events.send([Outgoing(body, "", "")]) == [] and len(ground.forwarded) == 1
    else:
        with pytest.raises(InfrastructureError, match=r"the token's key \w+ is none of"):
            events.send([Outgoing(body, "", "")])
        assert list(events.send([Outgoing(body, "", "")] * 2)) == [0, 1]
        assert len(slept) == 2 * len(PAUSES), "the pauses are one call's, not each message's"
        slept = slept[: len(PAUSES)]
    assert slept == list(PAUSES)


@pytest.mark.parametrize("reread", [True, False])
def test_a_batch_waits_for_such_a_key_and_not_for_ever(ground, reread):
    one, other = ground.issued(), ground.issued()
    events = [body_of(ground, one), signed_anew(ground, other)]
    reply = ground.ask("POST", "/api/events/batch", {"events": events})
    assert (reply.status, reply.json["status"]) == (202, "processing"), reply
    assert len(ground.forwarded) == 1 and not ground.refusals, "the good event waits for nobody"
    if reread:
        ground.keys = ROTATED
    for seconds, status in (
        (120, "completed" if reread else "processing"),
        (700, "completed" if reread else "failed"),
    ):
        ground.database.now += seconds
        assert ground.ask("GET", reply.headers["Location"]).json["status"] == status
    deliver(ground)
    found = [
        ground.ask("GET", f"/api/executions/{c.execution_id}/status").json["status"] for c in (one, other)
    ]
    assert found == ["completed", "completed" if reread else "running"]
    assert ground.refusals == ([] if reread else ["event_refused"])


# --- many at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "kept"),
    [
        ("POST", "/api/executions/{id}/logs", {"lines": []}, 202),
        ("PUT", "/api/result/{id}/start/x", "[1]", 200),
        ("PUT", "/api/result/0/start/x", "[1]", 200),
    ],
)
def test_a_worker_keeps_things_only_for_executions_of_its_commands(ground, method, path, body, kept):
    """The scope alone would let it replace what any execution has kept."""
    command, other = ground.issued(), ground.start()
    own = ground.capability(command)
    forged = msgspec.structs.replace(own, run=own.run + 1).header()
    place = path.replace("{id}", str(command.execution_id))

    def ask(place: str, **headers: str):
        return ground.ask(method, place, body, headers=headers)

    for shown in ({}, {HEADER: forged}):
        reply = ask(place, **shown)
        assert (reply.status, reply.json["code"]) == (403, "command_refused"), shown
    assert ask(place, **{HEADER: own.header()}).status == kept
    if "{id}" in path:
        reply = ask(path.replace("{id}", other), **{HEADER: own.header()})
        assert (reply.status, reply.json["code"]) == (403, "command_refused")
    assert ask(place, **{HEADER: "x"}).status == 422


CALLER = HELLO.replace("demo/hello", "demo/caller").partition("workflow:")[0] + (
    "workflow:\n  - { step: start, tool: { kind: playbook, path: demo/hello } }\n"
)


def test_a_worker_reads_results_of_the_executions_that_belong_to_its_command(ground):
    """The scope alone would let it read what any execution has kept."""
    ground.register()
    parent = ground.run(CALLER)
    (child,) = [
        str(one.execution_id)
        for one in ground.store.executions(limit=9)
        if str(one.parent_execution_id) == parent
    ]
    other = ground.run()
    for owner in (parent, child, other, "0"):
        kept = ground.ask(
            "PUT",
            f"/api/result/{owner}/start/x",
            "[1]",
            headers=ground.shown(other if owner == "0" else owner),
        )
        assert kept.status == 200, kept

    def read(owner: str, headers: dict[str, str]):
        ref = f"noetl://execution/{owner}/result/start/x"
        reply = ground.ask("GET", "/api/result/resolve", query={"ref": ref}, headers=headers)
        return reply.status, None if reply.status == 200 else reply.json["code"]

    refused = (403, "command_refused")
    assert {owner: read(owner, ground.shown(child)) for owner in (parent, child, "0", other)} == {
        parent: (200, None), child: (200, None), "0": (200, None), other: refused,
    }  # fmt: skip
    assert read(child, ground.shown(parent)) == (200, None)
    assert read(parent, ground.shown(other)) == refused
    assert read(str(2**63 - 1), ground.shown(child)) == refused
    forged = {HEADER: ground.shown(child)[HEADER][:-4] + "AAAA"}
    assert all(read(owner, headers)[0] in (403, 422) for owner in (child, "0") for headers in ({}, forged))


def test_a_batch_is_accepted_once_and_told_event_by_event(ground):
    one, other = ground.issued(), ground.issued()
    forged = message(other, grant(one, ground.keys))
    batch = {"events": [body_of(ground, one), forged, body_of(ground, one, "command.heartbeat")]}
    reply = ground.ask("POST", "/api/events/batch", batch, headers={"idempotency-key": "k"})
    assert (reply.status, reply.json["status"], reply.json["duplicate"]) == (202, "failed", False), reply
    status = ground.ask("GET", reply.headers["Location"]).json
    assert (status["events"], status["taken"], status["refused"]) == (3, 2, 1)
    assert [event.get("code", "") for event in status["told"]] == ["", "event_refused", ""]
    assert len(ground.forwarded) == 1
    again = ground.ask("POST", "/api/events/batch", batch, headers={"idempotency-key": "k"})
    assert (again.json["request_id"], again.json["duplicate"]) == (reply.json["request_id"], True)
    assert len(ground.forwarded) == 1
    changed = {"events": batch["events"][:1]}
    reply = ground.ask("POST", "/api/events/batch", changed, headers={"idempotency-key": "k"})
    assert (reply.status, reply.json["code"]) == (409, "idempotency_conflict")
    deliver(ground)
    assert ground.ask("GET", f"/api/executions/{one.execution_id}/status").json["status"] == "completed"
    assert ground.ask("GET", f"/api/executions/{other.execution_id}/status").json["status"] == "running"
    assert beside(ground, one.execution_id) == ["batch.accepted", "batch.processing", "batch.failed"]


def test_a_batch_of_good_events_completes(ground):
    command = ground.issued()
    reply = ground.ask("POST", "/api/events/batch", {"events": [body_of(ground, command)]})
    assert reply.json["status"] == "completed"
    assert beside(ground, command.execution_id) == ["batch.accepted", "batch.processing", "batch.completed"]


def test_what_was_accepted_survives_an_engine_that_is_away(ground):
    from dataclasses import replace

    from noetl.domain.errors import InfrastructureError

    def away(found):
        raise InfrastructureError("the queue is away")

    command, there = ground.issued(), ground.deps
    ground.deps = replace(there, events=replace(there.events, forward=away))
    reply = ground.ask("POST", "/api/events/batch", {"events": [body_of(ground, command)]})
    assert (reply.status, reply.json["status"]) == (202, "accepted")
    assert ground.ask("POST", "/api/events", body_of(ground, command)).status == 503
    ground.deps = there
    assert ground.ask("GET", reply.headers["Location"]).json["status"] == "processing", (
        "somebody may be at it"
    )
    ground.database.now += 120
    assert ground.ask("GET", reply.headers["Location"]).json["status"] == "completed"
    assert len(ground.forwarded) == 1


def test_a_batch_that_breaks_its_handler_ends_where_its_sender_sees_it(ground):
    from dataclasses import replace

    def broken(found):
        raise ValueError("a defect")

    there = ground.deps
    ground.deps = replace(there, events=replace(there.events, forward=broken))
    command = ground.issued()
    reply = ground.ask("POST", "/api/events/batch", {"events": [body_of(ground, command)] * 2})
    assert reply.status == 202, "it is durable"
    where = reply.headers["Location"]
    for seconds, status in ((120, "processing"), (700, "failed")):
        ground.database.now += seconds
        resume_batches(ground.deps.events)
        assert ground.ask("GET", where).json["status"] == status
    assert [one["code"] for one in ground.ask("GET", where).json["told"]] == ["batch_broken"] * 2


@over(
    ("events", "status", "code"),
    [
        ([], 422, "batch_size"),
        ([{"event": {}}] * 257, 422, "batch_size"),
        ([{"event": {"x": "y" * 2_200_000}}], 413, "body_too_large"),
        ([{"name": "nothing"}], 422, "event_invalid"),
        ([5], 422, "body_invalid"),
    ],
    ground=Ground,
)
def test_batches_that_are_none_are_refused_whole(ground, events, status, code):
    reply = ground.ask("POST", "/api/events/batch", {"events": events})
    assert (reply.status, reply.json["code"]) == (status, code), reply


def test_an_unknown_batch_is_not_found(ground):
    assert ground.ask("GET", "/api/events/batch/77/status").json["code"] == "batch_not_found"
    assert ground.ask("GET", "/api/events/batch/x/status").status == 400
