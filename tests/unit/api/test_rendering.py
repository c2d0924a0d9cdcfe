"""Templates against an execution, over the API."""

from __future__ import annotations

import pytest

from tests.unit.api.ground import GATED


def render(ground, template, **more):
    body = {"execution_id": ground.run(GATED), "template": template, **more}
    return ground.ask("POST", "/api/context/render", body)


def test_types_are_kept_and_failures_are_told_beside_what_can_be_rendered(ground):
    reply = render(
        ground,
        {
            "n": "{{ start * 2 }}",
            "text": "n is {{ start }}",
            "list": [1, "{{ nobody }}", None],
            "own": "{{ x.y }}",
            "job": "{{ job.path }}",
        },
        extra_context={"x": {"y": [1]}},
    )
    assert reply.status == 200, reply
    found = reply.json
    assert found["rendered"] == {
        "n": 4,
        "text": "n is 2",
        "list": [1, None, None],
        "own": [1],
        "job": "demo/gated",
    }
    (error,) = found["errors"]
    assert (found["status"], error["path"], error["code"]) == ("partial", "list[1]", "undefined")
    assert {"start", "ctx", "workload", "x"} <= set(found["context_keys"])


def test_a_step_brings_its_arguments(ground):
    waiting = ground.run(GATED.replace("arcs: [{step: gate}]", "arcs: [{step: gate, args: {limit: 7}}]"))
    asked = {"execution_id": int(waiting), "template": "{{ limit }}"}
    assert ground.ask("POST", "/api/context/render", {**asked, "step": "gate"}).json["rendered"] == 7
    assert ground.ask("POST", "/api/context/render", asked).json["status"] == "partial"
    assert ground.ask("POST", "/api/context/render", {**asked, "step": "gat"}).json["code"] == "unknown_step"


ANSWERED = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: answered, path: demo/answered }
workflow:
  - step: ask
    tool: { kind: noop, args: { seat: b } }
    case:
      - { when: "{{ event.name == 'step.exit' }}", then: [{ answer: { kind: wait, callback: true } }] }
"""


def test_a_step_brings_what_its_run_gave_so_far(ground):
    asked = {"execution_id": int(ground.run(ANSWERED)), "template": "{{ ask.seat }}"}
    assert ground.ask("POST", "/api/context/render", {**asked, "step": "ask"}).json["rendered"] == "b"
    assert ground.ask("POST", "/api/context/render", asked).json["status"] == "partial"


@pytest.mark.parametrize(
    ("template", "more", "code"),
    [
        ("{{ nobody }}", {"strict": True}, "undefined"),
        ("{{ 1 + }}", {"strict": True}, "template_syntax"),
        ("{{ 'x' * 99999999 }}", {"strict": True}, "template_limit"),
        (["{{ 1 }}"] * 51, {}, "template_too_large"),
        (eval("[" * 90 + "1" + "]" * 90), {}, None),
        (eval("[" * 102 + "1" + "]" * 102), {}, "template_too_large"),
        ("{{ 'x' * 7000000 }}", {}, "rendered_too_large"),
        ("{{ 1 }}", {"extra_context": {"_results": 1}}, "invalid_name"),
        ("{{ a.__class__ }}", {"extra_context": {"a": 1}, "strict": True}, "undefined"),
    ],
)
def test_what_is_too_much_or_wrong_is_refused(ground, template, more, code):
    reply = render(ground, template, **more)
    assert (reply.status, reply.json.get("code")) == (422 if code else 200, code), reply


def test_an_execution_that_has_not_begun_has_nothing_to_render_against(ground):
    ground.register(GATED)
    body = {"execution_id": ground.start("demo/gated"), "template": "{{ 1 }}"}
    reply = ground.ask("POST", "/api/context/render", body)
    assert (reply.status, reply.json["code"]) == (409, "execution_not_started")
    assert ground.ask("POST", "/api/context/render", {**body, "execution_id": 12}).status == 404
    assert ground.ask("POST", "/api/context/render", {**body, "execution_id": "x"}).status == 400
