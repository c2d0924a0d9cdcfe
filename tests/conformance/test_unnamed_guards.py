"""Entries of a ``case`` that name no event: they mean the event that the case names, and meant every event before."""

from __future__ import annotations

import re

import pytest

from tests.conformance.cases import find_cases, play, sources_of
from tests.conformance.earlier import play_with_meaning
from tests.conformance.memory import in_memory
from tests.parts import over

CASES = {case.name: case for case in find_cases()}
NAMED = [name for name, case in CASES.items() if "named" in case.spec]
BEFORE = [case.name for case in find_cases() if "before" in case.spec]
_GUARD = re.compile(r'- when: "\{\{ (?P<guard>.*) \}\}"')


def _named(event: str, guard: str) -> str:
    return f"""- when: "{{{{ event.name == '{event}' and ({guard}) }}}}\""""


def test_every_combination_of_a_step_and_an_action_is_played() -> None:
    shapes = {(shape, action) for shape in ("tool", "loop") for action in ("set", "sink", "retry", "next")}
    shapes |= {("routing", action) for action in ("set", "sink", "next")}
    assert {f"guards/{shape}-{action}" for shape, action in shapes} <= set(NAMED) & set(BEFORE)


@pytest.mark.parametrize("name", NAMED)
def test_naming_the_event_changes_nothing(name: str, memory_backend, worker) -> None:
    case = CASES[name]
    event = case.spec["named"]
    text = sources_of(case)["playbook.yaml"]
    named = _GUARD.sub(lambda found: _named(event, found["guard"]), text)
    assert named != text
    seen = play(case, memory_backend, worker, sources={"playbook.yaml": named})
    _, unnamed = in_memory(name)
    assert (seen.status, seen.result) == (unnamed.status, unnamed.result)
    assert seen.histories == unnamed.histories
    assert seen.tools.calls == unnamed.tools.calls


@over("name", BEFORE)
def test_a_program_that_was_compiled_before_keeps_its_meaning(name: str) -> None:
    before = CASES[name].spec["before"]
    seen = play_with_meaning(CASES[name], before.get("meaning", 1))
    assert seen.status == before["status"]
    for step in before.get("uncalled", ()):
        assert step not in seen.tools.calls
    if "result" in before:
        assert seen.result == before["result"]
