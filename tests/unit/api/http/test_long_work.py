"""Requests that compute for long: one allowance for all of a request, and few of them at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noetl.api.http.long_work import LongWork
from noetl.domain.errors import OverloadedError
from noetl.domain.long_work import begin_long_work
from tests.unit.api.ground import GATED, Ground

COUNTING = "{% for a in range(60000) %}{% set b = a %}{% endfor %}"
DEEP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: deep, path: demo/deep }
input:
  $ref: "#/$defs/a"
  $defs:
    a: { anyOf: [ { properties: { a: { $ref: "#/$defs/a" } } }, { properties: { a: { $ref: "#/$defs/a" } } } ], minProperties: 2 }
workflow: [ { step: start } ]
"""


def nested(levels: int) -> dict[str, object]:
    return {"a": nested(levels - 1)} if levels else {}


def large(characters: int) -> str:
    """Write a playbook of so many characters, most of them in a comment: its length is what a request is looked at for."""
    return (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: large, path: demo/large }\n"
        "workflow: [ { step: start } ]\n#"
    ).ljust(characters, "x")


def render(ground: Ground, template: object):
    body = {"execution_id": ground.run(GATED), "template": template}
    return ground.ask("POST", "/api/context/render", body)


def test_the_templates_of_a_request_share_what_one_may_use(ground):
    alone = render(ground, [COUNTING]).json
    assert (alone["status"], alone["rendered"]) == ("ok", [""])
    many = render(ground, [COUNTING] * 50).json
    assert many["status"] == "partial"
    assert {error["code"] for error in many["errors"]} == {"template_limit"}


def test_what_was_only_read_counts_as_well(ground):
    execution = ground.run(GATED)
    template = [f"{{{{ {' + '.join(['1'] * 3000)} + {n} }}}}" for n in range(50)]
    found = ground.ask("POST", "/api/context/render", {"execution_id": execution, "template": template}).json
    assert {error["code"] for error in found["errors"]} == {"template_limit"}


def test_a_request_that_computes_for_long_needs_a_place(ground: Ground):
    places = LongWork(1)
    ground.deps = replace(ground.deps, long_work=places)
    text = large(20_000)
    asked = {
        "render": lambda: render(ground, COUNTING),
        "register": lambda: ground.ask(
            "POST", "/api/catalog/register", {"content": text, "source_name": "l"}
        ),
        "check": lambda: ground.ask("POST", "/api/executions", {"path": "demo/deep", "payload": nested(40)}),
    }
    ground.ask("POST", "/api/catalog/register", {"content": DEEP, "source_name": "deep.yaml"})
    with places.request():
        begin_long_work()
        for what, ask in asked.items():
            refused = ask()
            assert (refused.status, refused.json["code"]) == (429, "too_much_computing"), what
            assert refused.json["retryable"] and refused.headers["Retry-After"] == "2", what
        assert render(ground, "{{ start * 2 }}").json["rendered"] == 4
        assert ground.ask("GET", "/api/executions").status == 200
    for what, ask in asked.items():
        assert ask().status != 429, what
        assert ask().status != 429, what


def test_a_place_is_taken_once_and_given_back_whatever_happens():
    places, refused = LongWork(1), []
    places._refused = refused.append
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), places.request():
            begin_long_work()
            begin_long_work()
            raise ZeroDivisionError
    with places.request():
        begin_long_work()
        with places.request(), pytest.raises(OverloadedError):
            begin_long_work()
    assert refused == ["too_much_computing"]
    begin_long_work()
