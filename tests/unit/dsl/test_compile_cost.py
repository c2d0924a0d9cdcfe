"""What compiling costs: near-linear in the steps, counted in calls of functions, and nothing for what exceeds a limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import Diagnostics, InvalidPlaybookError
from noetl.dsl.yaml_text.loader import load
from noetl.kinds.registry import default_registry
from tests.parts import parted, repeated
from tests.work import calls

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: large, path: large }\n"
KINDS = default_registry()
STEPS = repeated(gate=100, full=200)


def chain(steps: int) -> str:
    return _workflow(steps, lambda place: [place + 1] if place + 1 < steps else [])


def cycle(steps: int) -> str:
    """One cycle with short cuts: every step reaches every step, and reads the one before it."""
    return _workflow(steps, lambda place: [(place + 1) % steps, (7 * place + 3) % steps])


def diamonds(steps: int) -> str:
    """Forks that join again, three steps each."""

    def following(place: int) -> list[int]:
        found = {0: [place + 1, place + 2], 1: [place + 2], 2: [place + 1]}[place % 3]
        return [one for one in found if one < steps]

    return _workflow(steps, following)


def misspelled(steps: int) -> str:
    """No arc leads to a step that there is."""
    return _workflow(steps, lambda place: [steps + place])


def _workflow(steps: int, following: Callable[[int], list[int]]) -> str:
    lines = [HEAD, "workflow:\n"]
    for place in range(steps):
        arcs = ", ".join(f"{{ step: s{one} }}" for one in following(place))
        lines.append(
            f"  - step: s{place}\n    args: {{ a: '{{{{ s{max(place - 1, 0)}.b | default(1) }}}}' }}\n"
            f"    set: {{ ctx.c{place}: 1 }}\n" + (f"    next: {{ arcs: [ {arcs} ] }}\n" if arcs else "")
        )
    return "".join(lines)


def compile_all(text: str) -> None:
    try:
        compile_playbook(text, kinds=KINDS)
    except InvalidPlaybookError as refused:
        assert any(found.code == "unknown-step" for found in refused.diagnostics), refused


@pytest.mark.parametrize(
    "shape",
    parted([chain, cycle, diamonds, misspelled], [diamonds, misspelled]),
    ids=lambda shape: shape.__name__,
)
def test_compiling_is_near_linear_in_the_steps(shape):
    """Four times the steps take about four times the calls."""
    compile_all(shape(10))
    few, many = (calls(lambda steps=steps: compile_all(shape(steps))) for steps in (STEPS, 4 * STEPS))
    assert many < 4.8 * few, (few, many)


def test_too_many_steps_are_refused_before_any_work_is_done_on_them():
    text = cycle(repeated(gate=1100, full=3000))
    reading = calls(lambda: load(text, Diagnostics()))

    def compile_it() -> None:
        with pytest.raises(InvalidPlaybookError) as refused:
            compile_playbook(text, kinds=KINDS)
        assert [found.code for found in refused.value.diagnostics] == ["too-many-steps"]

    assert calls(compile_it) < 1.1 * reading


def test_lints_of_code_share_its_tree():
    """Each of them walked through all of it, several times: more than 50 calls for each character."""
    code = "".join(
        f"        n_{at} = load.get('k_{at}', {{}}).get('x', [1])\n        total = n_{at} + 1\n"
        for at in range(100)
    )
    text = (
        f"{HEAD}workflow:\n  - step: start\n    tool: {{ kind: duckdb, query: SELECT 1 }}\n"
        "    next: { arcs: [{ step: use }] }\n"
        f'  - step: use\n    tool:\n      kind: python\n      input: {{ load: "{{{{ start }}}}" }}\n      code: |\n{code}'
    )
    compile_playbook(text.replace("n_", "m_"), kinds=KINDS)
    assert calls(lambda: compile_playbook(text, kinds=KINDS)) < 25 * len(text)
