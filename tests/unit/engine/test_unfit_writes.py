"""Writes of one run that cannot be folded into one fail their step; the engine goes on."""

from __future__ import annotations

import sys

import pytest

from tests.unit.engine.stepping import Stepping, compiled

REFERENCE = "{ kind: result_ref, ref: 'noetl://execution/1/result/load/9', size: 100000 }"
WORKFLOW = """
  - step: start
    tool:
      - first: {{ kind: noop, spec: {{ policy: {{ rules: [{{ else: {{ then: {{ do: continue, set: {{ ctx.p: {0} }} }} }} }}] }} }} }}
      - second: {{ kind: noop, spec: {{ policy: {{ rules: [{{ else: {{ then: {{ do: continue, set: {{ ctx.p: {1} }} }} }} }}] }} }} }}
"""


@pytest.fixture(autouse=True)
def ends() -> object:
    """A run that goes round for ever is a failure, not a hang: count the calls of functions."""
    calls = 0

    def counted(frame: object, what: str, _: object) -> None:
        nonlocal calls
        calls += what == "call"
        if calls > 3_000_000:
            sys.setprofile(None)
            pytest.fail("the engine goes round for ever")

    sys.setprofile(counted)
    yield
    sys.setprofile(None)


@pytest.mark.parametrize("change", ["{ append: 1 }", "{ extend: [1] }"])
def test_growing_a_list_behind_a_reference_that_is_gone_fails_the_step(change: str) -> None:
    one = Stepping(compiled(WORKFLOW.format(REFERENCE, change)))
    one.start()
    assert one.state.status == "failed"
    assert one.slots["step", "start"]["error"]["code"] == "REFERENCE_NOT_AVAILABLE"


def test_a_sum_of_too_many_digits_fails_the_step() -> None:
    add = "{ add: " + "9" * 4000 + " }"
    one = Stepping(compiled(WORKFLOW.format(add, add)))
    one.start()
    assert one.state.status == "failed" and one.slots["step", "start"]["error"]["code"] == "size_limit"


@pytest.mark.parametrize(
    "following", ["{ arcs: [{ step: end, input: '{{ [1] }}' }] }", "[{ step: end, args: '{{ [1] }}' }]"]
)
def test_arguments_that_are_no_mapping_fail_the_step(following: str) -> None:
    workflow = f"\n  - {{ step: start, next: {following} }}\n  - {{ step: end, tool: {{ kind: noop }} }}\n"
    one = Stepping(compiled(workflow))
    one.start()
    assert one.state.status == "failed"
    assert one.state.error is not None and one.state.error.code == "template_type"
