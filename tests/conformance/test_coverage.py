"""What the cases cover together: every event name there is, and every pattern the documentation speaks of."""

from __future__ import annotations

import re
from pathlib import Path

from noetl.domain.vocabulary import NAMES, formal_names
from tests.conformance.cases import ROOT, find_cases, load_history

DOCS = Path(__file__).parents[2] / "docs"
NOT_IN_ONE_PROCESS = {
    "batch.accepted",
    "batch.processing",
    "batch.completed",
    "batch.failed",
    "command.heartbeat",
    "execution.paused",
    "execution.resumed",
}
"""Names of doors that this release does not have yet, and of workers in other processes."""
SET_ASIDE = {"command.superseded"}
"""Recorded beside an execution's history; see ``test_late_outcomes_are_recorded``."""


def told_names() -> set[str]:
    return {
        name
        for case in find_cases()
        for steps in load_history(case).values()
        for names in steps.values()
        for name in names
    }


def test_every_stored_event_name_is_told_by_some_case() -> None:
    assert set(NAMES) - told_names() == NOT_IN_ONE_PROCESS | SET_ASIDE


def test_every_formal_name_is_told_by_some_case() -> None:
    told = {formal for name in told_names() for formal, _ in formal_names(name, "success")}
    wanted = {formal for name in NAMES for formal, _ in formal_names(name, "success")}
    assert wanted - told == NOT_IN_ONE_PROCESS | SET_ASIDE
    assert told >= {
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
    }


def test_the_table_of_patterns_is_true() -> None:
    rows = re.findall(
        r"^\| (\d+) \|[^|]*\| ([a-z]+).*\| ?([\w-]*) ?\|$", (DOCS / "patterns.md").read_text(), re.MULTILINE
    )
    named = {case for _, _, case in rows if case}

    assert [int(number) for number, _, _ in rows] == list(range(1, 44))
    assert named == {folder.name for folder in (ROOT / "patterns").iterdir()}
    assert all(case.startswith(f"wcp-{int(number):02d}-") for number, _, case in rows if case)
    assert {how for _, how, _ in rows} == {"native", "composed", "out"}
    assert all(case for _, how, case in rows if how == "native")
    assert not any(case for _, how, case in rows if how == "out")
