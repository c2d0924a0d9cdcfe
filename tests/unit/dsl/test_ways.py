"""The ways out of a step and into a join, as the compiler numbers them."""

from __future__ import annotations

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import Program, decode, encode, ways_of
from noetl.kinds.registry import default_registry

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\nworkflow:\n"


def compiled(workflow: str) -> Program:
    return compile_playbook(HEAD + workflow, source_name="t.yaml", kinds=default_registry()).program


def entry(then: str, when: str = "event.name == 'step.exit'") -> str:
    return f'      - {{ when: "{{{{ {when} }}}}", then: {{ next: {then} }} }}\n'


def playbook(cases: str, following: str = "") -> str:
    return (
        "  - { step: start, next: [a, b] }\n"
        "  - step: a\n    tool: { kind: noop }\n    case:\n"
        f"{cases}{following}"
        "  - { step: b, tool: { kind: noop }, next: end }\n"
        "  - { step: end, spec: { join: all }, tool: { kind: noop } }\n"
    )


@pytest.mark.parametrize(
    ("cases", "following", "ways"),
    [
        pytest.param(entry("end"), "", 1, id="one entry"),
        pytest.param(
            entry("end", "event.name == 'step.exit' and result") + entry("end"),
            "",
            1,
            id="two entries, one way",
        ),
        pytest.param(
            entry("end", "event.name == 'call.error'") + entry("end"),
            "",
            1,
            id="the worker's and the engine's",
        ),
        pytest.param(entry("[end, end]"), "", 2, id="the same step twice in one next"),
        pytest.param(
            entry("end", "event.name == 'step.exit' and result") + entry("[end, end]"),
            "",
            2,
            id="once, or twice",
        ),
        pytest.param(
            entry("end", "event.name == 'step.exit' and result"),
            "    next: end\n",
            1,
            id="the arc it replaces",
        ),
        pytest.param(
            entry("[end, end]", "event.name == 'step.exit' and result"),
            "    next: end\n",
            2,
            id="twice, or the arc",
        ),
        pytest.param(entry("end"), "    spec: { on_error: end }\n", 1, id="a way for failures is no arc"),
    ],
)
def test_a_join_counts_the_ways_over_which_tokens_can_come_at_once(cases, following, ways):
    program = compiled(playbook(cases, following))
    assert len(ways_of(program.step("a"))["end"]) == ways
    assert program.step("end").ways == ways + 1, "those of a, and the arc of b"


@pytest.mark.parametrize(("mode", "ways"), [("exclusive", 1), ("inclusive", 2)])
def test_arcs_of_an_exclusive_choice_to_one_step_are_one_way(mode, ways):
    arcs = '[{ step: end, when: "{{ a.x }}" }, { step: end, when: "{{ a.y }}" }]'
    program = compiled(
        f"  - {{ step: a, tool: {{ kind: noop, args: {{ x: 1, y: 1 }} }}, next: {{ spec: {{ mode: {mode} }}, arcs: {arcs} }} }}\n"
        "  - { step: end, tool: { kind: noop } }\n"
    )
    assert (program.step("end").ways, program.step("end").incoming) == (ways, 2)


def test_every_way_has_its_own_number_in_playbook_order_and_keeps_it_when_stored():
    cases = entry("[end, b]", "event.name == 'step.exit' and result") + entry("[start, end]")
    program = compiled(playbook(cases, "    spec: { on_error: end }\n"))
    arcs = {
        (step.name, arc.target): arc.index for step in program.steps for arc in step.arcs if not arc.fallback
    }
    routes = {(step.name, route.target): route.index for step in program.steps for route in step.routes}
    assert arcs == {("start", "a"): 0, ("start", "b"): 1, ("b", "end"): 5}
    assert routes == {("a", "end"): 2, ("a", "b"): 3, ("a", "start"): 4}
    assert [arc.index for step in program.steps for arc in step.arcs if arc.fallback] == [6]
    assert decode(encode(program)) == program
