"""What two readers would read differently is refused at every door alike: a key that is there twice, a key of requests beyond ASCII."""

from __future__ import annotations

import pytest

from noetl.api.table import ROUTES
from tests.parts import over
from tests.unit.api.ground import HELLO, Ground
from tests.unit.api.test_callbacks import FREE, answer, asked

TWICE = '{"path": "demo/hello", "payload": {"n": [{"a": 1, "a": 2}]}}'
READ = [route for route in ROUTES if route.body is not None]


@over("route", READ, ids=lambda route: f"{route.method} {route.path}", ground=Ground)
def test_every_door_that_reads_json_refuses_a_key_twice(ground: Ground, route):
    begun = ground.run()
    path = "/".join(begun if part.startswith("{") else part for part in route.path.split("/"))
    shown = {"content-type": "application/json", **ground.headers_for(route, begun)}
    found = ground.ask(route.method, path, TWICE, headers=shown)
    assert (found.status, found.json["code"]) == (400, "duplicate_key"), found.text
    assert "the key 'a' is there twice" in found.json["detail"]
    assert [one["execution_id"] for one in ground.ask("GET", "/api/executions").json["executions"]] == [begun]


def test_an_answer_with_a_key_twice_is_refused_and_the_callback_stays_open(ground: Ground):
    _, path = asked(ground, FREE)
    refused = answer(ground, path, '{"approved": false, "approved": true}')
    assert (refused.status, refused.json["code"]) == (400, "duplicate_key")
    assert answer(ground, path, {"approved": False}).status == 202


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_a_webhook_with_a_key_twice_starts_nothing(ground: Ground, kind: str):
    ground.register()
    wish = {"name": "orders", "path": "demo/hello", "source": {"type": "webhook"}}
    hook = ground.ask("POST", "/api/triggers", wish).json["hook"]
    refused = ground.ask("POST", hook, '{"n": 1, "n": 2}', headers={"content-type": kind}, authorizer={})
    assert (refused.status, refused.json["code"]) == (400, "duplicate_key")
    assert ground.ask("GET", "/api/executions").json["executions"] == []


@over("key", ["schlüssel", "ключ", "caf\u00e9", "a\u00a0b"], ground=Ground)
def test_a_key_of_requests_beyond_ascii_is_refused(ground: Ground, key: str):
    ground.register(HELLO)
    refused = ground.ask("POST", "/api/executions", {"path": "demo/hello"}, headers={"idempotency-key": key})
    assert (refused.status, refused.json["code"]) == (400, "invalid_parameter")
    assert "printable characters of ASCII" in refused.json["detail"]
    quoted = {"idempotency-key": '"8e03978e 40d5-43e8"'}
    assert ground.ask("POST", "/api/executions", {"path": "demo/hello"}, headers=quoted).status == 201
