"""What the cases cover together: every event name there is, and every pattern the documentation speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from noetl.domain.event_names import NAMES, VOCABULARIES, EventStatus, Vocabulary, names_in
from tests.conformance.cases import ROOT, find_cases, load, load_history

DOCS = Path(__file__).parents[2] / "docs"
NOT_TOLD = {
    "command.heartbeat": "a lease is renewed beside history, per process and not per command",
}
"""Names that no case can produce, each with its reason."""
SET_ASIDE = {"command.superseded", "batch.accepted", "batch.processing", "batch.completed", "batch.failed"}
"""Recorded beside an execution's history; see ``test_late_outcomes_are_recorded``, and of batches tests/unit/api/test_events_in.py."""


@cache
def told_names() -> set[str]:
    return {
        name
        for case in find_cases()
        for steps in load_history(case).values()
        for names in steps.values()
        for name in names
    }


def test_every_stored_event_name_is_told_by_some_case() -> None:
    assert set(NAMES) - told_names() == NOT_TOLD.keys() | SET_ASIDE


FORMAL = [
    "playbook.execution.requested",
    "playbook.request.evaluated",
    "playbook.started",
    "workflow.started",
    "step.started",
    "step.finished",
    "tool.started",
    "tool.processed",
    "case.started",
    "case.evaluated",
    "next.evaluated",
    "loop.started",
    "loop.iteration.started",
    "loop.iteration.finished",
    "loop.finished",
    "retry.started",
    "retry.processed",
    "sink.started",
    "sink.processed",
    "workflow.finished",
    "playbook.processed",
]
CANONICAL = [
    "playbook.execution.requested",
    "playbook.request.evaluated",
    "playbook.started",
    "playbook.finished",
    "playbook.processed",
    "workflow.started",
    "workflow.finished",
    "step.scheduled",
    "step.started",
    "step.done",
    "step.failed",
    "task.started",
    "task.attempt.started",
    "task.attempt.done",
    "task.attempt.failed",
    "task.done",
    "task.failed",
    "loop.started",
    "loop.iteration.started",
    "loop.iteration.done",
    "loop.iteration.failed",
    "loop.done",
    "policy.admit.evaluated",
    "policy.task.evaluated",
    "next.evaluated",
    "ctx.patched",
    "token.enqueued",
]


@pytest.mark.parametrize(("vocabulary", "names"), [("formal", FORMAL), ("canonical", CANONICAL)])
def test_the_names_of_the_documents_are_told_by_some_case(vocabulary: Vocabulary, names: list[str]) -> None:
    told = {
        name
        for stored in told_names()
        for status in get_args(EventStatus)
        for name in dict(names_in(vocabulary, stored, status))
    }
    assert [name for name in names if name not in told] == []


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_every_name_of_a_vocabulary_is_told_by_some_case(vocabulary: Vocabulary) -> None:
    def names(stored: Iterable[str]) -> set[str]:
        return {
            name
            for one in stored
            for status in get_args(EventStatus)
            for name, _ in names_in(vocabulary, one, status)
        }

    assert names(NAMES) - names(told_names()) == names(NOT_TOLD) | SET_ASIDE


GRADES = ("native", "composed", "no")


def pattern_rows() -> list[list[str]]:
    """Cells of the table: no, pattern, then who says it how, then the case."""
    page = (DOCS / "patterns.md").read_text()
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in page.splitlines()
        if re.match(r"\| \d+ \|", line)
    ]


def grade(cell: str) -> str:
    return re.split(r"[: ]", cell, maxsplit=1)[0]


def test_the_table_of_patterns_is_true() -> None:
    rows = pattern_rows()
    assert [int(row[0]) for row in rows] == list(range(1, 44))
    assert {len(row) for row in rows} == {7}
    assert {row[6] for row in rows} == {folder.name for folder in (ROOT / "patterns").iterdir()}
    assert all(row[6].startswith(f"wcp-{int(row[0]):02d}-") for row in rows)
    assert {grade(cell) for row in rows for cell in row[2:6]} == set(GRADES)
    assert all(re.match(r"(native|composed): \S", row[2]) for row in rows), "how is it said?"


def test_the_notes_and_numbers_of_the_patterns_are_true() -> None:
    page = (DOCS / "patterns.md").read_text()
    rows = pattern_rows()
    used = {int(note) for row in rows for cell in row[3:6] for note in re.findall(r"\[(\d+)\]", cell)}
    assert used == {int(note) for note in re.findall(r"^(\d+)\. ", page, re.MULTILINE)}
    composed = [row for row in rows if any(cell == "composed" for cell in row[3:6])]
    assert composed == [], "what is composed has a note that says of what"
    for column, name in enumerate(("NoETL", "Step Functions", "BPMN 2.0", "Argo Workflows"), start=2):
        counts = [sum(grade(row[column]) == wanted for row in rows) for wanted in GRADES]
        assert f"{name} {' / '.join(map(str, counts))}" in " ".join(page.split())


REFUSED = ROOT.parent / "invalid"
TABLE = load(Path(__file__).with_name("coverage.yaml"))
ROWS = {f"{group}/{row}": told for group, rows in TABLE.items() for row, told in rows.items()}


def test_every_row_of_the_language_has_a_case() -> None:
    assert len(ROWS) > 300
    assert [row for row, told in ROWS.items() if set(told) != {"is", "by"} or len(told["is"]) <= 10] == []
    assert [row for row, told in ROWS.items() if not told["by"]] == [], "nothing proves these"
    assert [(row, case) for row, told in ROWS.items() for case in told["by"] if not matching(case)] == []


def matching(name: str) -> list[str]:
    """The cases that a table's entry stands for."""
    feature, _, case = name.partition("/")
    if feature == "refused":
        return [name] if (REFUSED / f"{case}.yaml").is_file() else []
    return [str(file.parent.relative_to(ROOT)) for file in ROOT.glob(f"{name}/case.yaml")]


def test_every_case_proves_a_row() -> None:
    named = {case for told in ROWS.values() for name in told["by"] for case in matching(name)}
    assert {case.name for case in find_cases()} - named == set()


def test_the_table_is_about_the_whole_language() -> None:
    assert len(ROWS) >= 150
    refused_only = [
        row for row, told in ROWS.items() if all(name.startswith("refused/") for name in told["by"])
    ]
    assert len(refused_only) <= 0.12 * len(ROWS), refused_only
