"""Limits of documents at every door of the API, and at those that fire by themselves: one below, at, and one above each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from noetl.domain import codec
from noetl.domain.capability_tokens import grant
from noetl.domain.errors import InvalidInputError
from noetl.domain.outcomes.outcomes import Outcome, Patch
from noetl.domain.sizes.table import (
    CORRELATION_ID,
    DOCUMENT_BYTES,
    DOCUMENT_DEPTH,
    DOCUMENT_KEYS,
    IDENTIFIER,
    INTEGER_DIGITS,
    NAME,
    REASON,
    SCHEMA_NESTING,
    SCHEMA_OPERATIONS,
    Size,
)
from noetl.dsl.json_schema.check import misfits
from noetl.dsl.json_schema.effort import Effort
from noetl.services.automations.fire_schedule import fire_schedule
from noetl.services.executions.start_playbook import StartDeps
from tests.parts import ABOUT_A_LIMIT, over
from tests.unit.api.ground import GATED, HELLO, Ground
from tests.unit.api.test_callbacks import FREE
from tests.unit.api.test_events_in import deliver, message

Told = tuple[int, dict[str, Any]]
"""Status (below 300: it was accepted) and the problem."""


def document(text: str, place: str, around: dict[str, Any]) -> str:
    """``around`` as JSON with ``text``, which is JSON already, at ``"place"``: Python itself writes no number of 5,000 digits."""
    return json.dumps(around).replace(f'"{place}"', text)


def asked(ground: Ground, method: str, path: str, text: str, around: dict[str, Any]) -> Told:
    reply = ground.ask(method, path, document(text, "DOCUMENT", around))
    return reply.status, reply.json


def live(ground: Ground) -> str:
    """An execution that waits for its context."""
    ground.register(GATED)
    execution_id = ground.start("demo/gated")
    ground.settle()
    return execution_id


def start(ground: Ground, text: str) -> Told:
    ground.register()
    return asked(ground, "POST", "/api/executions", text, {"path": "demo/hello", "payload": "DOCUMENT"})


def schedule(ground: Ground, text: str) -> Told:
    ground.register()
    wish = {"path": "demo/hello", "name": "hourly", "rate": "1 hour", "payload": "DOCUMENT"}
    return asked(ground, "POST", "/api/schedules", text, wish)


def trigger(ground: Ground, text: str) -> Told:
    ground.register()
    wish = {"name": "orders", "path": "demo/hello", "source": {"type": "webhook"}, "payload": "DOCUMENT"}
    return asked(ground, "POST", "/api/triggers", text, wish)


def merge_patch(ground: Ground, text: str) -> Told:
    return asked(ground, "PATCH", f"/api/executions/{live(ground)}/ctx", text, {"patch": "DOCUMENT"})


def variables(ground: Ground, text: str) -> Told:
    return asked(ground, "POST", f"/api/vars/{live(ground)}", text, {"variables": "DOCUMENT"})


def token(ground: Ground, text: str) -> Told:
    around = {"step": "start", "args": "DOCUMENT"}
    return asked(ground, "POST", f"/api/executions/{live(ground)}/tokens", text, around)


def fired_schedule(ground: Ground, text: str) -> Told:
    """A schedule that was kept before there was a limit: it fires, and says why nothing starts."""
    from msgspec.structs import replace

    ground.register()
    wish = {"path": "demo/hello", "name": "hourly", "rate": "1 hour"}
    assert ground.ask("POST", "/api/schedules", wish).status == 201
    store = ground.database.schedules
    row = store.get("hourly")
    store.put(replace(row, payload=json.loads(text)))
    fired = fire_schedule("hourly", ground.database.now + 3600, store, deps_of(ground))
    told = store.get("hourly").last_error
    return (200, {}) if fired.execution_id is not None else (422, {"code": told.partition(":")[0]})


def deps_of(ground: Ground) -> StartDeps:
    return StartDeps(
        ground.store,
        ground.database.catalog,
        ground.database.programs,
        "",
        lambda: ground.database.now,
        lambda: 5,
    )


Door = Callable[[Ground, str], Told]
NAMING: tuple[Door, ...] = (start, schedule, trigger, merge_patch, variables, fired_schedule)
"""Doors whose document's keys become names."""
DOORS: tuple[Door, ...] = (*NAMING, token)


def keyed(length: int) -> str:
    return json.dumps({"k" * length: 1})


def keys(count: int) -> str:
    return json.dumps({f"k{number}": 1 for number in range(count)})


def nested(levels: int) -> str:
    """A document whose innermost value stands ``levels`` deep."""
    return '{"a": ' + "[" * (levels - 1) + "1" + "]" * (levels - 1) + "}"


def digits(count: int) -> str:
    return '{"a": -' + "9" * count + "}"


def sized(count: int) -> str:
    """A document of ``count`` bytes as it is kept. It is shorter as it is sent, or no request could hold it and what is around it."""
    numbers = 1_000
    kept = len(codec.encode({"a": [1e15] * numbers, "b": ""}))
    return '{"a": [' + ",".join(["1e15"] * numbers) + '], "b": "' + "x" * (count - kept) + '"}'


CASES = [
    *((door, DOCUMENT_BYTES, sized) for door in DOORS),
    *((door, NAME, keyed) for door in NAMING),
    *((door, DOCUMENT_KEYS, keys) for door in NAMING),
    *((door, DOCUMENT_DEPTH, nested) for door in DOORS),
    *((door, INTEGER_DIGITS, digits) for door in DOORS),
]


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize(
    ("door", "size", "make"), CASES, ids=[f"{door.__name__}-{size.name}" for door, size, _ in CASES]
)
def test_a_document_at_its_limit(ground, door, size, make, over):
    status, problem = door(ground, make(size.value + over))
    if over <= 0:
        assert status < 300, problem
        return
    assert (status, problem["code"]) == (422, "size_limit"), problem
    if "details" in problem:
        assert problem["details"]["limit"] == size.name
        assert problem["details"]["most"] == size.value
        assert "place" in problem["details"] and problem["hint"] and str(size.value) in problem["detail"]
    ground.settle()


@over("door", DOORS, ids=lambda door: door.__name__)
@over("count", [4200, 4301, 5000], ground=Ground)
def test_digits_that_no_reader_reads_are_told_as_any_other_limit(ground, door, count):
    if door is fired_schedule and count > 4300:
        return
    status, problem = door(ground, digits(count))
    assert (status, problem["code"]) == (422, "size_limit"), problem


@over("door", DOORS, ids=lambda door: door.__name__)
@over("key", ["a\0b", "\0", "\ud800", "x\udfffy", "\\u0000", "\u202e"], ground=Ground)
def test_any_text_is_a_key_at_every_door(ground, door, key):
    status, problem = door(ground, json.dumps({key: {key: key}}))
    assert status < 300, problem
    ground.settle()
    with ground.store.tables() as tables:
        assert all(info.status in ("completed", "running") for info in tables.executions.values())


@pytest.mark.parametrize("key", ["a\0b", "\ud800"])
def test_a_key_of_any_text_comes_out_as_it_went_in(ground, key):
    ground.register()
    execution_id = ground.start(payload={key: key})
    ground.settle()
    assert ground.store.slots(int(execution_id))[("workload", key)] == key


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize(("op", "value"), [("add", 1), ("remove", None), ("copy", None)])
def test_the_names_in_a_json_patch(ground, op, value, over):
    name = "k" * (NAME.value + over)
    one = {"op": op, "path": f"/{name}"} | ({"value": value} if op == "add" else {})
    one |= {"from": "/a"} if op == "copy" else {}
    reply = ground.ask("PATCH", f"/api/executions/{live(ground)}/ctx", {"patch": [one]})
    assert (reply.status, reply.json.get("code")) == ((422, "size_limit") if over > 0 else (202, None))


def test_a_pointer_leads_no_deeper_than_a_document(ground):
    execution_id = live(ground)
    for depth, status in ((DOCUMENT_DEPTH.value, 202), (DOCUMENT_DEPTH.value + 1, 422)):
        patch = [{"op": "test", "path": "/a" * depth, "value": 1}]
        assert ground.ask("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": patch}).status == status


def test_patches_one_by_one_make_the_context_no_deeper_than_a_document(ground):
    execution_id = live(ground)
    for first in range(0, 3 * DOCUMENT_DEPTH.value // 2, 50):
        patch = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/a", "value": {}}]
        patch += [{"op": "move", "from": "/b", "path": "/a/x"}]
        start = [] if first else [{"op": "add", "path": "/a", "value": {}}]
        assert (
            ground.ask(
                "PATCH", f"/api/executions/{execution_id}/ctx", {"patch": [*start, *(patch * 50)]}
            ).status
            == 202
        )
        ground.settle()
    depth, value = 0, ground.store.slots(int(execution_id))[("ctx", "a")]
    while isinstance(value, dict) and value:
        depth, value = depth + 1, value["x"]
    assert 100 <= depth < DOCUMENT_DEPTH.value


def test_copies_of_copies_do_not_fill_the_memory(ground):
    execution_id = live(ground)
    patch = [{"op": "add", "path": "/a", "value": {"text": "x" * 1000}}]
    patch += [{"op": "copy", "from": "/a", "path": f"/a/c{number}"} for number in range(60)]
    assert ground.ask("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": patch}).status == 202
    ground.settle()
    assert ("ctx", "a") not in ground.store.slots(int(execution_id))


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_texts_of_a_change(ground, over):
    execution_id = live(ground)
    wanted = 422 if over > 0 else None
    patch = {"patch": {"a": 1}}
    for field, size in (("reason", REASON), ("correlation_id", CORRELATION_ID)):
        text = "r" * (size.value + over)
        for method, path, body in (
            ("PATCH", "ctx", patch),
            ("POST", "tokens", {"step": "start"}),
        ):
            reply = ground.ask(method, f"/api/executions/{execution_id}/{path}", {**body, field: text})
            assert reply.status == (wanted or 202), reply
            if wanted:
                assert reply.json["details"]["limit"] == size.name
    source = {"variables": {"a": 1}, "source_step": "s" * (IDENTIFIER.value + over)}
    assert ground.ask("POST", f"/api/vars/{execution_id}", source).status == (wanted or 200)
    cancel = {"reason": "r" * (REASON.value + over)}
    assert ground.ask("POST", f"/api/executions/{execution_id}/cancel", cancel).status == (wanted or 202)


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_a_webhook_takes_what_its_payload_may_be(ground, over):
    """The body stands two levels deep in ``event``."""
    made = ground.register() and ground.ask(
        "POST", "/api/triggers", {"name": "orders", "path": "demo/hello", "source": {"type": "webhook"}}
    )
    for text in (nested(DOCUMENT_DEPTH.value - 2 + over), digits(INTEGER_DIGITS.value + over)):
        reply = ground.ask("POST", made.json["hook"], text, authorizer={})
        assert (reply.status, reply.json.get("code")) == ((422, "size_limit") if over > 0 else (202, None)), (
            reply
        )


def test_two_happenings_whose_ids_differ_at_their_end_are_two(ground):
    ground.register()
    wish = {
        "name": "orders",
        "path": "demo/hello",
        "source": {"type": "webhook"},
        "event_id": "{{ event.body.id }}",
    }
    hook = ground.ask("POST", "/api/triggers", wish).json["hook"]
    replies = [ground.ask("POST", hook, {"id": "o" * 2000 + end}, authorizer={}) for end in ("1", "2", "1")]
    assert [reply.json["status"] for reply in replies] == ["started", "started", "existing"]


@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
def test_a_worker_that_writes_a_name_fails_its_own_step(ground, over):
    command = ground.issued(HELLO)
    patches = [Patch("ctx", "k" * (NAME.value + over), 1)]
    body = message(command, grant(command, ground.keys), outcome=Outcome("ok", result=1, patches=patches))
    assert ground.ask("POST", "/api/events", body).status == 202
    deliver(ground)
    shown = ground.ask("GET", f"/api/executions/{command.execution_id}").json
    assert shown["status"] == ("failed" if over > 0 else "completed")
    if over > 0:
        assert (shown["error"]["code"], shown["error"]["details"]["limit"]) == ("size_limit", "name")
        assert shown["error"]["position"].endswith(":6:5")


@over("event_id", ["start", "x" * 6000, "cancel:7", "a\0", "\ud800"], ground=Ground)
def test_an_outcome_has_no_id_but_its_own(ground, event_id):
    """A key of history that a worker could choose would drop the event that the key belongs to."""
    command = ground.issued(HELLO)
    body = message(command, grant(command, ground.keys), event_id=event_id)
    assert ground.ask("POST", "/api/events", body).status == 403
    assert not ground.forwarded


Schema = dict[str, Any]
SCHEMAS: dict[Size, tuple[Schema, Callable[[int], Any]]] = {
    SCHEMA_OPERATIONS: ({"properties": {"a": {"items": {}}}}, lambda count: [0] * count),
    SCHEMA_NESTING: (
        {
            "properties": {"a": {"$ref": "#/$defs/lists"}},
            "$defs": {"lists": {"items": {"$ref": "#/$defs/lists"}}},
        },
        lambda levels: json.loads("[" * levels + "]" * levels),
    ),
}
"""A schema that costs more with each item, or level, of ``a``."""
MOST: dict[Size, int] = {}
"""How many of them fit: searched for once."""


@pytest.fixture
def costly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Schema, Any]:
    """A schema, and the documents that are one below, at, and one above what may be held against it: operations are a hundredth."""
    schema, make = SCHEMAS[request.param]
    lookup, whole = Effort.__init__.__defaults__ or ()
    monkeypatch.setattr(Effort.__init__, "__defaults__", (lookup, whole // 100))

    def fits(count: int) -> bool:
        try:
            return misfits(schema, {"a": make(count)}) == []
        except InvalidInputError:
            return False

    if request.param not in MOST:
        low, high = 1, DOCUMENT_DEPTH.value - 2 if request.param is SCHEMA_NESTING else whole // 50
        assert fits(low) and not fits(high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        MOST[request.param] = low
    return schema, [{"a": make(MOST[request.param] + over)} for over in (-1, 0, 1)]


def start_checked(ground: Ground, schema: Schema) -> str:
    ground.register(HELLO.replace("workflow:", f"input: {json.dumps(schema)}\nworkflow:"))
    return "/api/executions"


def answer_checked(ground: Ground, schema: Schema) -> str:
    ground.run(FREE.replace("callback: true", f"callback: true, schema: {json.dumps(schema)}"))
    (execution,) = ground.ask("GET", "/api/executions").json["executions"][:1]
    found = ground.ask("GET", f"/api/executions/{execution['execution_id']}/callbacks").json["callbacks"]
    return f"/api/callbacks/{found[0]['token']}"


@pytest.mark.parametrize("costly", SCHEMAS, ids=lambda size: size.name, indirect=True)
@pytest.mark.parametrize("over", ABOUT_A_LIMIT)
@pytest.mark.parametrize("door", [start_checked, answer_checked])
def test_what_is_held_against_a_schema_at_its_limit(ground, request, costly, door, over):
    schema, documents = costly
    path = door(ground, schema)
    document = documents[over + 1]
    body = {"path": "demo/hello", "payload": document} if door is start_checked else document
    reply = ground.ask("POST", path, body)
    assert (reply.status < 300) == (over <= 0), reply
    if over > 0:
        size = request.node.callspec.params["costly"]
        assert (reply.status, reply.json["code"]) == (422, "schema_limit"), reply
        assert reply.json["details"] == {"limit": size.name, "most": size.value} and reply.json["hint"]


def sizes_under_test() -> set[Size]:
    """Limits that have a case here, for the test that every limit has one."""
    return {size for _, size, _ in CASES} | SCHEMAS.keys()
