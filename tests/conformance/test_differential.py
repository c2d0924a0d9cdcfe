"""Both forms are one language: a playbook, rewritten into the other form, does the same and leaves the same history."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from noetl.formatting.format import Formatted, canonical_text, format_text
from noetl.kinds.registry import default_registry
from noetl.testing.memory import MemoryBackend
from noetl.testing.play_case import Observed
from tests.conformance.cases import Case, compact, load_history, play, played, sources_of
from tests.conformance.memory import CASES, in_memory
from tests.conformance.test_conformance import check_flow, check_outcome, check_tools
from tests.parts import parted, sampled

TWINS = [name for name, case in CASES.items() if case.twin.exists()]
FULLY_CONVERTED = 145
"""Steps of the cases that the canonical form says exactly as the event form did. May only rise."""
SAID_IN_BOTH_FORMS = 188
"""Cases with a playbook in each form. May only rise."""
_WORDS = re.compile(r"\b(?:(?:outcome|output)\.(?:result|data)|response|result)\b")
_PLACES = ("position", "message", "details")
"""Parts of an error that quote the text of the playbook, or say where it stands in it."""


def canonical(case: Case) -> dict[str, Formatted]:
    return {
        name: canonical_text(text, source_name=name, kinds=default_registry())
        for name, text in sources_of(case).items()
    }


def on_postgres(names: Collection[str]) -> list[str]:
    return [name for name in names if zlib.crc32(name.encode()) % 8 == 0]


@pytest.mark.parametrize(
    ("backend", "name"),
    played(CASES, on_postgres(CASES), in_memory=sampled(CASES)),
    indirect=["backend"],
)
def test_the_newest_form_does_the_same(name: str, backend: Any, worker: Any) -> None:
    case = CASES[name]
    rewritten = {file: made.text for file, made in canonical(case).items()}
    if isinstance(backend, MemoryBackend):
        check_that_nothing_is_left_to_rewrite(rewritten)
    same(case, rewritten, backend, worker)


def check_that_nothing_is_left_to_rewrite(rewritten: Mapping[str, str]) -> None:
    for file, text in rewritten.items():
        again = canonical_text(text, source_name=file, kinds=default_registry())
        assert (again.text, again.converted) == (text, ())


def same(case: Case, sources: dict[str, str], backend: Any, worker: Any) -> None:
    """The case with other playbooks: what it expects, and what the playbooks as they are written do, to the last value."""
    told = play(case, backend, worker, sources=sources)
    check_tools(told, case)
    expect = dict(case.expect)
    if "error" in expect:
        expect["error"] = {key: found for key, found in expect["error"].items() if key not in _PLACES}
    check_outcome(told, expect)
    check_flow(told, case.expect, backend.tolerance)
    assert {name: compact(steps) for name, steps in told.histories.items()} == load_history(case)
    assert seen_of(told) == seen_of(in_memory(case.name)[1])


def seen_of(seen: Observed) -> dict[str, Any]:
    """What is compared: everything but places in the text, ids, and labels that only one of the forms has."""
    steps = {step.name for step in seen.program.steps}
    error = {key: value for key, value in (seen.error or {}).items() if key not in ("position", "details")}
    if "message" in error:
        error["message"] = _WORDS.sub("result", error["message"].split(" in {{")[0])
    return {
        "status": seen.status,
        "result": seen.result,
        "error": error,
        "ctx": seen.ctx,
        "vars": seen.vars,
        "executions": seen.executions,
        "calls": {
            key: _unaddressed(calls)
            for key, calls in seen.tools.calls.items()
            if key in steps or key == "sink"
        },
    }


def _unaddressed(calls: Any) -> Any:
    """The address of a callback names its execution, and an artifact has a name of its own: other ones each time."""
    text = re.sub(r"-[0-9]+(-[0-9.ri]+-[0-9]+-)[0-9a-f]{64}", r"\1", json.dumps(calls, default=repr))
    return json.loads(re.sub(r"noetl://execution/[0-9]+/(result/[^/\"]*)/[0-9a-f-]{36}", r"\1", text))


@pytest.mark.parametrize(
    ("backend", "name"),
    played(TWINS, on_postgres(TWINS), in_memory=sampled(TWINS)),
    indirect=["backend"],
)
def test_a_twin_does_the_same(name: str, backend: Any, worker: Any) -> None:
    case = CASES[name]
    same(case, {"playbook.yaml": case.twin.read_text()}, backend, worker)


@pytest.mark.parametrize("name", parted(CASES, sampled(CASES)))
def test_formatting_twice_changes_nothing(name: str) -> None:
    for file, text in sources_of(CASES[name]).items():
        once = format_text(text, source_name=file).text
        assert format_text(once, source_name=file).text == once
        assert comments(once) == comments(text)


def comments(text: str) -> list[str]:
    return sorted(found.strip() for found in re.findall(r"(?:^|\s)(#[^\n\"']*)$", text, re.MULTILINE))


@pytest.mark.full
def test_how_much_is_said_in_both_forms() -> None:
    converted = sum(len(made.converted) for case in CASES.values() for made in canonical(case).values())
    assert converted >= FULLY_CONVERTED
    assert len(TWINS) >= SAID_IN_BOTH_FORMS
