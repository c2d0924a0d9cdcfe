"""Triggers over the API: made, fired by hand and by their own address, changed, refused, deleted."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from dataclasses import replace

import pytest

from noetl.adapters.embedded.trigger_sources import LocalTriggerSources
from noetl.domain.automations.trigger_queues import QueueRights
from tests.doubles.trigger_sources import MemoryTriggerSources
from tests.unit.api.ground import GATED, HELLO, Ground

ORDERS = {
    "name": "orders",
    "path": "demo/hello",
    "source": {"type": "webhook"},
    "payload": {"n": "{{ event.body.amount }}", "from": "{{ event.headers['x-shop'] | default('?') }}"},
    "event_id": "{{ event.body.id | default('') }}",
}


@pytest.fixture
def ground():
    made = Ground()
    made.register()
    return made


def put(ground, **over):
    return ground.ask("POST", "/api/triggers", {**ORDERS, **over})


def outcome(ground, reply):
    ground.settle()
    return ground.ask("GET", f"/api/executions/{reply.json['execution_id']}/result").json["result"]


def test_a_webhook_is_fired_by_its_address_and_the_same_happening_starts_once(ground):
    made = put(ground)
    assert (made.status, made.json["type"], made.json["fired"]) == (201, "webhook", 0)
    hook = made.json["hook"]
    fired = ground.ask("POST", hook, {"id": "o-1", "amount": 4}, authorizer={}, headers={"x-shop": "north"})
    assert (fired.status, fired.json["status"], fired.json["trigger"]) == (202, "started", "orders")
    assert outcome(ground, fired) == 8
    slots = ground.store.slots(int(fired.json["execution_id"]))
    assert slots[("workload", "from")] == "north"
    again = ground.ask("POST", hook, {"id": "o-1", "amount": 5}, authorizer={})
    assert again.json == {**fired.json, "status": "existing"}
    other = ground.ask("POST", "/api/triggers/orders/fire", {"id": "o-2", "amount": 5})
    assert outcome(ground, other) == 10
    shown = ground.ask("GET", "/api/triggers/orders").json
    assert (shown["fired"], shown["failed"], shown["last_execution_id"]) == (2, 0, other.json["execution_id"])
    (principal,) = {one.created.principal for one in entries(ground)}
    assert principal == "orders"


def entries(ground):
    with ground.store.tables() as tables:
        return list(tables.executions.values())


KNOWN = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
"""What GitHub's documentation says about the body `Hello, World!` and the secret below."""
SECRET = "It's a Secret to Everybody"


def signature(secret: str, body: bytes) -> bytes:
    return hmac.new(secret.encode(), body, hashlib.sha256).digest()


def test_the_name_of_a_deleted_trigger_starts_its_new_playbook(ground):
    """By its address: the former trigger was told of the same happening. One that is changed knows what it was told."""
    ground.register(GATED)

    def fire():
        hook = ground.ask("GET", "/api/triggers/orders").json["hook"]
        found = [ground.ask("POST", hook, {"id": "7"}, authorizer={}).json["execution_id"] for _ in range(2)]
        assert found[0] == found[1], "the same happening"
        return found[0], ground.ask("GET", f"/api/executions/{found[0]}").json["path"]

    put(ground, payload=None)
    first, path = fire()
    assert path == "demo/hello"
    put(ground, path="demo/gated", payload=None)
    assert fire()[0] == first
    ground.ask("DELETE", "/api/triggers/orders")
    ground.database.now += 1
    put(ground, path="demo/gated", payload=None)
    assert fire()[1] == "demo/gated"


def test_what_is_not_signed_starts_nothing(ground):
    body, known, secret = b"Hello, World!", KNOWN, SECRET
    assert signature(secret, body).hex() == known
    signed = {"source": {"type": "webhook", "credential": "hub"}, "payload": {"n": 4}, "event_id": ""}
    refused = put(ground, **signed)
    assert (refused.status, refused.json["code"]) == (422, "invalid_trigger") and "hub" not in refused.text
    keep = {"name": "hub", "type": "generic", "data": {"secret": "short"}}
    assert ground.ask("POST", "/api/credentials", keep).status == 201
    assert "at least 16" in put(ground, **signed).json["detail"]
    ground.ask("POST", "/api/credentials", {**keep, "data": {"secret": secret}})
    made = put(ground, **signed)
    assert made.json["source"] == signed["source"], "only what is not usual is shown"

    def call(body: bytes, name: str = "x-hub-signature-256", value: str = "", base64: bool = False):
        headers = {"content-type": "text/plain"} | ({name: value} if value else {})
        text = b64encode(body).decode() if base64 else body.decode()
        return ground.ask("POST", made.json["hook"], text, authorizer={}, headers=headers, base64=base64)

    digest = signature(secret, b"\xff\x00 raw")
    for fine in (f"sha256={digest.hex()}", digest.hex().upper(), b64encode(digest).decode()):
        assert call(b"\xff\x00 raw", value=fine, base64=True).status == 202, fine
    assert outcome(ground, call(body, value=f"sha256={known}")) == 8
    wrong = ("", "sha256=", known[:-1], "0" * 64, f"sha1={known}", "\u00e9" * 64, "sha256=" + "z" * 64)
    for value in wrong:
        reply = call(body, value=value)
        assert (reply.status, reply.json["code"]) == (403, "signature_invalid"), value
    assert call(body + b" ", value=known).status == 403
    assert call(body, name="x-signature", value=known).status == 403
    shown = ground.ask("GET", "/api/triggers/orders").json
    assert (shown["fired"], shown["failed"]) == (4, len(wrong) + 2) and "signature_invalid" in shown[
        "last_error"
    ]
    other = {"type": "webhook", "credential": "hub", "header": "X-Signature"}
    made = put(ground, **{**signed, "source": other})
    assert call(body, name="x-signature", value=known).status == 202
    assert ground.ask("POST", "/api/triggers/orders/fire", {}).status == 202, (
        "whoever may start needs no signature"
    )
    ground.ask("DELETE", "/api/credentials/hub")
    gone = call(body, name="x-signature", value=known)
    assert (gone.status, gone.json["code"]) == (409, "hook_unverifiable") and "hub" not in gone.text


def test_without_an_id_the_delivery_counts_and_without_one_every_request(ground):
    hook = put(ground, event_id="").json["hook"]
    ids = [
        ground.ask("POST", hook, {"amount": 1}, headers=headers).json["execution_id"]
        for headers in (
            {},
            {},
            {"x-github-delivery": "d"},
            {"x-github-delivery": "d"},
            {"idempotency-key": "d"},
        )
    ]
    assert len(set(ids)) == 3, ids


def test_an_address_is_good_until_it_is_rotated(ground):
    old = put(ground).json["hook"]
    new = ground.ask("PATCH", "/api/triggers/orders", {"rotate": True}).json["hook"]
    assert old != new and put(ground).json["hook"] == new, "making it again does not change its address"
    body = {"id": "1", "amount": 1}
    for bad in (old, new[:-1], new + "x", "/api/hooks/x", "/api/hooks/a.b.c", "/api/hooks/" + "é" * 9):
        refused = ground.ask("POST", bad, body, authorizer={})
        assert (refused.status, refused.json["code"]) == (404, "hook_unknown"), bad
    assert ground.ask("POST", new, body, authorizer={}).status == 202
    assert ground.ask("DELETE", "/api/triggers/orders").status == 200
    assert ground.ask("POST", new, body).status == 404


def test_only_who_may_change_a_trigger_sees_its_address():
    ground = Ground("jwt")
    scopes = {"jwt": {"claims": {"sub": "a", "scope": "write execute"}}}
    ground.register = lambda: ground.ask(  # type: ignore[method-assign]
        "POST", "/api/catalog/register", {"content": HELLO}, authorizer=scopes
    )
    ground.register()
    assert ground.ask("POST", "/api/triggers", ORDERS, authorizer=scopes).json["hook"]
    reader = {"jwt": {"claims": {"sub": "b", "scope": "read"}}}
    (listed,) = ground.ask("GET", "/api/triggers", authorizer=reader).json["triggers"]
    assert listed["hook"] is None
    assert ground.ask("POST", "/api/triggers/orders/fire", {}, authorizer=reader).status == 403


def test_what_starts_nothing_is_counted_with_its_reason(ground):
    hook = put(ground, payload={"n": "{{ event.body.lines[0].n }}"}).json["hook"]
    refused = ground.ask("POST", hook, {"id": "1"})
    assert (refused.status, refused.json["code"]) == (422, "trigger_template")
    assert "payload.n of the trigger orders" in refused.json["detail"]
    shown = ground.ask("GET", "/api/triggers/orders").json
    assert (shown["fired"], shown["failed"]) == (0, 1) and "trigger_template" in shown["last_error"]
    assert not ground.store.executions(limit=5)
    assert ground.ask("POST", "/api/triggers/orders/disable").json["enabled"] is False
    off = ground.ask("POST", hook, {"id": "1"})
    assert (off.status, off.json["code"]) == (409, "trigger_disabled")
    assert ground.ask("POST", "/api/triggers/orders/enable").json["enabled"] is True


@pytest.mark.parametrize(
    ("body", "content_type", "seen"),
    [
        ('{"a": 1}', "application/json", {"a": 1}),
        ('{"a": 1}', "", {"a": 1}),
        ("a=1&b=2", "application/x-www-form-urlencoded", "a=1&b=2"),
        ("{no json", "text/plain", "{no json"),
        ("", "", None),
        ("12", "text/plain", "12"),
    ],
)
def test_a_body_is_json_or_text(ground, body, content_type, seen):
    hook = put(ground, payload=None, event_id="").json["hook"]
    headers = {"content-type": content_type, "authorization": "Bearer canary", "cookie": "canary"}
    fired = ground.ask("POST", hook, body, headers=headers, query={"q": "1"})
    event = ground.publisher.sent[-1].payload["event"]
    assert fired.status == 202 and (event["body"], event["query"]) == (seen, {"q": "1"})
    assert "canary" not in str(event)
    for nonsense in ("{no", "[" * 100_000):
        refused = ground.ask("POST", hook, nonsense, headers={"content-type": "application/json"})
        assert (refused.status, refused.json["code"]) == (400, "body_not_json")


@pytest.mark.parametrize(
    ("over", "code", "told"),
    [
        ({"name": "a b"}, "invalid_trigger_name", "'a b'"),
        ({"name": "x" * 49}, "invalid_trigger_name", "more than 48"),
        ({"path": "demo/helo"}, "playbook_not_found", "demo/hello"),
        ({"source": {"type": "ftp"}}, "body_invalid", "ftp"),
        ({"source": {"type": "s3", "bucket": "No"}}, "invalid_trigger", "source.bucket"),
        ({"source": {"type": "s3", "bucket": "good", "x": 1}}, "body_invalid", "x"),
        ({"source": {"type": "eventbridge", "pattern": {}}}, "invalid_trigger", "source.pattern"),
        (
            {"source": {"type": "eventbridge", "pattern": {"a": {"b": 1}}}},
            "invalid_trigger",
            "source.pattern.a.b",
        ),
        ({"source": {"type": "file", "folder": "in"}}, "invalid_trigger", "absolute"),
        (
            {"source": {"type": "file", "folder": "/in", "pattern": "a/*"}},
            "invalid_trigger",
            "source.pattern",
        ),
        ({"source": {"type": "sqs", "queue": "q"}}, "trigger_source_unavailable", "triggers.queues"),
        ({"source": {"type": "sqs", "queue": "q", "batch": 11}}, "invalid_trigger", "source.batch is 11"),
        ({"payload": {"a": "{{ event. }}"}}, "trigger_template", "payload.a"),
        ({"event_id": "{% for x in y %}"}, "trigger_template", "event_id"),
        ({"event_id": "x" * 5000}, "invalid_trigger", "4096"),
    ],
)
def test_what_cannot_be_is_refused_and_not_kept(ground, over, code, told):
    refused = put(ground, **over)
    assert refused.status in (404, 422) and refused.json["code"] == code
    assert told in refused.json["detail"] + str(refused.json.get("hint"))
    assert ground.ask("GET", "/api/triggers").json["triggers"] == []


def test_one_name_is_one_kind_and_what_is_watched_follows(ground):
    source = {"type": "s3", "bucket": "uploads", "prefix": "raw/"}
    assert put(ground, name="s", source=source).status == 201
    watched = ground.deps.triggers.sources.watched
    assert watched["s"].source.prefix == "raw/"
    assert put(ground, name="s", source={**source, "prefix": "b/"}).status == 200
    assert watched["s"].source.prefix == "b/"
    other = put(ground, name="s")
    assert (other.status, other.json["code"]) == (409, "trigger_exists")
    rotated = ground.ask("PATCH", "/api/triggers/s", {"rotate": True})
    assert (rotated.status, rotated.json["code"]) == (422, "invalid_trigger")
    ground.ask("POST", "/api/triggers/s/disable")
    assert watched["s"].enabled is False
    assert ground.ask("PATCH", "/api/triggers/s", {"version": 9}).status == 404
    ground.ask("DELETE", "/api/triggers/s")
    assert watched == {}
    missing = ground.ask("GET", "/api/triggers/oders")
    put(ground)
    near = ground.ask("GET", "/api/triggers/oders")
    assert missing.status == near.status == 404 and "did you mean 'orders'?" in near.json["hint"]


def test_a_queue_is_read_for_one_trigger_and_let_go_with_it(ground):
    arn = "arn:aws:sqs:eu-central-1:123456789012:in-"
    rights = QueueRights("arn:aws:lambda:eu-central-1:123456789012:function:f", ("in-*",))
    sources = MemoryTriggerSources(rights, {arn + "orders", arn + "b"})
    ground.deps = replace(ground.deps, triggers=replace(ground.deps.triggers, sources=sources))

    def read(queue: str, **over):
        return put(ground, source={"type": "sqs", "queue": queue}, **over)

    assert read("in-nowhere").json["code"] == "trigger_source_missing"
    made = read("in-orders")
    assert (made.status, made.json["source"]["queue"]) == (201, arn + "orders")
    for taken in (read("in-orders", name="second"), read(arn + "orders", name="second", enabled=False)):
        assert (taken.status, taken.json["code"]) == (422, "trigger_source_taken")
        assert "for the trigger orders already" in taken.json["detail"]
    assert read("in-b").status == 200 and sources.watched["orders"].source.queue == arn + "b"
    assert ground.ask("PATCH", "/api/triggers/orders", {"enabled": False}).status == 200
    assert sources.watched["orders"].enabled is False
    away = MemoryTriggerSources(QueueRights(rights.reader), ())
    away.watched = sources.watched
    ground.deps = replace(ground.deps, triggers=replace(ground.deps.triggers, sources=away))
    refused = ground.ask("POST", "/api/triggers/orders/enable").json
    assert refused["code"] == "trigger_source_unavailable" and "allows none" in refused["detail"]
    assert ground.ask("POST", "/api/triggers/orders/disable").status == 200 and away.watched == {}
    assert ground.ask("DELETE", "/api/triggers/orders").status == 200


def test_on_one_machine_what_nobody_watches_is_kept_but_not_enabled(ground):
    ground.deps = replace(ground.deps, triggers=replace(ground.deps.triggers, sources=LocalTriggerSources()))
    source = {"type": "s3", "bucket": "uploads"}
    refused = put(ground, source=source)
    assert (refused.status, refused.json["code"]) == (422, "trigger_source_unavailable")
    assert "enabled: false (--disabled)" in refused.json["hint"]
    assert put(ground, source=source, enabled=False).status == 201
    assert ground.ask("POST", "/api/triggers/orders/enable").json["code"] == "trigger_source_unavailable"
    assert ground.ask("PATCH", "/api/triggers/orders", {"payload": None}).status == 200
    assert ground.ask("DELETE", "/api/triggers/orders").status == 200
