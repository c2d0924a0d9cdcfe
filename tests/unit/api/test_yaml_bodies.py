"""Starts of executions whose request is in YAML, as the specification lets a client send it."""

from __future__ import annotations

import pytest

from tests.parts import over
from tests.unit.api.ground import HELLO, Ground, Reply

YAML = {"content-type": "application/yaml; charset=utf-8"}


def start(ground: Ground, text: str, route: str = "/api/execute", **headers: str) -> Reply:
    return ground.ask("POST", route, text, headers={**YAML, **headers})


@pytest.mark.parametrize("route", ["/api/execute", "/api/executions"])
def test_a_request_in_yaml_starts_what_its_json_does(ground, route):
    ground.register(HELLO)
    text = "# nightly\npath: demo/hello\npayload:\n  n: 21\n  when: 2026-11-29\n  on: no\nlabels: { team: data }\n"
    begun = start(ground, text, route)
    assert begun.status == 201, begun
    same = {
        "path": "demo/hello",
        "payload": {"n": 21, "when": "2026-11-29", "on": "no"},
        "labels": {"team": "data"},
    }
    as_json = ground.ask("POST", route, same)
    ground.settle()
    ids = [int(one.json["execution_id"]) for one in (begun, as_json)]
    one, other = (
        {
            name: value
            for (scope, name), value in ground.store.slots(execution_id).items()
            if scope == "workload"
        }
        for execution_id in ids
    )
    assert one == other and one["when"] == "2026-11-29" and one["on"] == "no"


def test_a_repeat_in_the_other_language_is_the_same_request(ground):
    ground.register(HELLO)
    key = {"idempotency-key": "order-1"}
    first = start(ground, "path: demo/hello\npayload: { n: 1 }\n", **key)
    again = ground.ask("POST", "/api/execute", {"path": "demo/hello", "payload": {"n": 1}}, headers=key)
    assert (first.status, again.json["execution_id"]) == (201, first.json["execution_id"]), again


@over(
    ("text", "status", "code", "words"),
    [
        ("path: [demo/hello\n", 400, "body_not_yaml", "line"),
        ("path: demo/hello\npath: demo/other\n", 400, "body_not_yaml", "line 2, column 1"),
        ("- path: demo/hello\n", 400, "body_not_yaml", "line 1"),
        ("", 400, "body_not_yaml", "empty"),
        ("path: demo/hello\npayload: { n: .nan }\n", 400, "body_not_yaml", "line 2, column 15"),
        (f"path: demo/hello\npayload: {{ n: {'9' * 5000} }}\n", 400, "body_not_yaml", "digits"),
        ("path: demo/hello\npayloads: {}\n", 422, "body_invalid", "payloads"),
        ("path: demo/hello\npayload: { n: {{ workload.n }} }\n", 400, "body_not_yaml", "line 2"),
        (
            f"path: demo/hello\npayload: {{ a: &a {'x' * 20_000}, b: [{'*a, ' * 300}] }}\n",
            413,
            "body_too_large",
            "aliases",
        ),
        (
            f"path: demo/hello\npayload: {{ a: &a {{ {', '.join(f'{n:0900}: 1' for n in range(20))} }}, b: [{'*a, ' * 400}] }}\n",
            413,
            "body_too_large",
            "aliases",
        ),
        ("path: !!python/object:os.system x\n", 400, "body_not_yaml", "line 1"),
    ],
    ground=Ground,
)
def test_what_cannot_be_read_is_refused_with_its_place(ground, text, status, code, words):
    ground.register(HELLO)
    reply = start(ground, text)
    assert (reply.status, reply.json["code"]) == (status, code)
    assert words in reply.json["detail"]
