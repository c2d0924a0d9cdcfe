"""``on_error``: which steps get a way out of it, and what kind of way that is."""

from __future__ import annotations

import pytest

STEPS = """
workflow:
  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: own }, { step: bare, when: "{{ event.name == 'step.failed' }}" }] } }
  - { step: own, spec: { on_error: fail }, tool: { kind: noop }, next: { arcs: [{ step: shared }] } }
  - { step: bare, tool: { kind: noop }, next: { arcs: [{ step: shared }] } }
  - { step: shared, tool: { kind: noop } }
  - { step: handler, tool: { kind: noop }, next: { arcs: [{ step: behind }] } }
  - { step: behind, tool: { kind: noop }, next: { arcs: [{ step: shared }] } }
  - { step: last, tool: { kind: noop } }
"""


def executor(on_error: str) -> str:
    return f"executor: {{ spec: {{ final_step: last, on_error: {on_error} }} }}" + STEPS


@pytest.mark.parametrize("on_error", ["handler", "{ step: handler, args: { why: '{{ error.message }}' } }"])
def test_the_default_spares_the_handler_what_only_it_leads_to_the_final_step_and_who_decided(
    program, on_error
) -> None:
    found = program(executor(on_error))

    diverted = {arc.target for step in found.steps for arc in step.arcs if arc.fallback}
    assert diverted == {"handler"}
    assert [step.name for step in found.steps if any(arc.fallback for arc in step.arcs)] == [
        "start",
        "bare",
        "shared",
    ]


def test_the_default_may_be_tolerance(program) -> None:
    found = program(
        """
executor: { spec: { final_step: last, on_error: continue } }
workflow:
  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: own }, { step: bare }] } }
  - { step: own, spec: { on_error: bare }, tool: { kind: noop } }
  - { step: bare, tool: { kind: noop } }
  - { step: last, tool: { kind: noop } }
"""
    )

    assert [step.name for step in found.steps if step.tolerant] == ["start", "bare"]


def test_a_way_of_on_error_is_for_failures_only_and_no_join_waits_for_it(program) -> None:
    arcs = [arc for step in program(executor("handler")).steps for arc in step.arcs]
    fallbacks = [arc for arc in arcs if arc.fallback]

    assert all(arc.on == ("failed",) and not arc.sync for arc in fallbacks)
    assert [arc.index for arc in fallbacks] == sorted(arc.index for arc in fallbacks)
    assert min(arc.index for arc in fallbacks) > max(arc.index for arc in arcs if not arc.fallback)
    assert program(executor("handler")).step("handler").incoming == 0
