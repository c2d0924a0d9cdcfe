"""Both forms are one language: a playbook, rewritten into the other form, does the same and leaves the same history."""

from __future__ import annotations

import re
from typing import Any

import pytest

from noetl.formatting.format import Formatted, canonical_text, format_text
from noetl.kinds.registry import default_registry
from noetl.testing.playing import Observed
from tests.conformance.cases import Case, compact, find_cases, load_history, play, sources_of
from tests.conformance.conftest import MemoryBackend
from tests.conformance.test_conformance import check_flow, check_outcome, check_tools

CASES = {case.name: case for case in find_cases()}
TWINS = [name for name, case in CASES.items() if case.twin.exists()]
FULLY_CONVERTED = 0
"""Steps of the cases that the canonical form says exactly as the event form did. May only rise."""
SAID_IN_BOTH_FORMS = 0
"""Cases with a playbook in each form. May only rise."""
_FIXED = re.compile(r"\d+:\d+|[0-9]{15,}")


def canonical(case: Case) -> dict[str, Formatted]:
    return {
        name: canonical_text(text, source_name=name, kinds=default_registry())
        for name, text in sources_of(case).items()
    }


@pytest.mark.parametrize("name", CASES)
def test_the_newest_form_does_the_same(name: str, backend: Any, worker: Any, request: Any) -> None:
    case = CASES[name]
    if not isinstance(backend, MemoryBackend) and hash(name) % 8:
        pytest.skip("a sample is played on Postgres")
    rewritten = {file: made.text for file, made in canonical(case).items()}
    same(case, rewritten, backend, worker)


def same(case: Case, sources: dict[str, str], backend: Any, worker: Any) -> None:
    """The case with other playbooks: what it expects, and what the playbooks as they are written do, to the last value."""
    told = play(case, backend, worker, sources=sources)
    check_tools(told, case)
    error = {
        key: wanted
        for key, wanted in case.expect.get("error", {}).items()
        if key not in ("position", "message")
    }
    check_outcome(told, {**case.expect, **({"error": error} if error else {})})
    check_flow(told, case.expect, backend.tolerance)
    assert {name: compact(steps) for name, steps in told.histories.items()} == load_history(case)
    assert seen_of(told) == seen_of(play(case, MemoryBackend(), worker))


def seen_of(seen: Observed) -> dict[str, Any]:
    """What is compared: everything but places in the text, ids, and labels that only one of the forms has."""
    error = dict(seen.error or {})
    error.pop("position", None)
    error["message"] = (
        str(error.get("message", "")).split(" in {{")[0].replace("outcome.result", "output.data")
    )
    error.pop("details", None)
    return {
        "status": seen.status,
        "result": seen.result,
        "error": {key: _FIXED.sub("…", str(value)) for key, value in error.items()},
        "ctx": seen.ctx,
        "vars": seen.vars,
        "executions": seen.executions,
        "calls": {key: calls for key, calls in seen.tools.calls.items() if not key.endswith("_sink")},
    }


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_does_the_same(name: str, backend: Any, worker: Any) -> None:
    case = CASES[name]
    same(case, {"playbook.yaml": case.twin.read_text()}, backend, worker)


@pytest.mark.parametrize("name", CASES)
def test_formatting_twice_changes_nothing(name: str) -> None:
    for file, text in sources_of(CASES[name]).items():
        once = format_text(text, source_name=file).text
        assert format_text(once, source_name=file).text == once
        assert comments(once) == comments(text)
    for file, made in canonical(CASES[name]).items():
        again = canonical_text(made.text, source_name=file, kinds=default_registry())
        assert (again.text, again.converted) == (made.text, ())


def comments(text: str) -> list[str]:
    return sorted(found.strip() for found in re.findall(r"(?:^|\s)(#[^\n\"']*)$", text, re.MULTILINE))


def test_how_much_is_said_in_both_forms() -> None:
    converted = sum(len(made.converted) for case in CASES.values() for made in canonical(case).values())
    assert converted >= FULLY_CONVERTED
    assert len(TWINS) >= SAID_IN_BOTH_FORMS
