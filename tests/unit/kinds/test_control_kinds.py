"""Kinds that the engine answers itself."""

from __future__ import annotations

import pytest

from noetl.domain.kinds import TaskContext, TaskResult, TaskSettings
from noetl.domain.outcomes.outcomes import ChildRequest
from noetl.kinds.registry import default_registry
from tests.parts import over


def run(name, params, given):
    context = TaskContext(
        execution_id=1,
        step="s",
        task="t",
        attempt=1,
        idempotency_key="k",
        timeout=1.0,
        settings=TaskSettings(),
        credential=lambda name: pytest.fail(name),
        input=given,
    )
    return default_registry().run(name, params, context)


@pytest.mark.parametrize(("given", "result"), [({}, None), ({"a": [1]}, {"a": [1]})])
def test_noop_gives_its_input_back(given, result):
    assert run("noop", {}, given) == TaskResult(result)


@over(
    ("params", "given", "request_"),
    [
        ({"path": "a/b"}, {}, ChildRequest("a/b")),
        ({"path": "a", "version": "latest"}, {}, ChildRequest("a")),
        ({"path": "a", "version": "3", "wait": False}, {}, ChildRequest("a", 3, wait=False)),
        (
            {"path": "a", "payload": {"x": 1, "y": 1}, "return_step": "sum"},
            {"y": 2},
            ChildRequest("a", payload={"x": 1, "y": 2}, return_step="sum"),
        ),
        ({"path": "a", "args": {"x": 1}}, {}, ChildRequest("a", payload={"x": 1})),
    ],
)
def test_playbook_asks_for_a_child(params, given, request_):
    assert run("playbook", params, given) == request_
