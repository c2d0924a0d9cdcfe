"""A test that is made from the history of an execution passes when it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.kinds.registry import Registry
from noetl.services.history.recorded_test import make_test
from noetl.testing.run_cases import FileRun, Options
from noetl.testing.testfile import read_test_file
from tests.conformance.cases import find_cases, sources_of
from tests.conformance.memory import in_memory
from tests.parts import parted, sampled

CASES = {case.name: case for case in find_cases()}
NOT_REPEATED = frozenset(
    (
        "actions/call-pages",
        "actions/inline-task-fails",
        "actions/inline-tasks",
        "actions/skip",
        "agents/reads-errors",
        "arcs/envelope-in-arcs",
        "budget/calls",
        "budget/entries",
        "budget/items",
        "cache/failed-is-not-kept",
        "cache/time-is-over",
        "cancels/newest-wins",
        "concurrent/compensation-of-each-run",
        "concurrent/each-routes-by-its-own-result",
        "concurrent/loops-of-each-run",
        "concurrent/one-run-fails-beside-another",
        "concurrent/redrive-of-two-runs",
        "concurrent/two-tokens-in-a-cycle",
        "concurrent/undo-of-parallel-branches",
        "control/redrive-a-cancelled-sequential-loop",
        "control/redrive-a-timed-out-loop",
        "control/redrive-after-an-empty-loop",
        "document/workbook-sinks",
        "events/step-enter-with-tasks",
        "external/patch-merges-and-is-seen-later",
        "guards/tool-call",
        "joins/cancel-spares-others",
        "kinds/eventbridge",
        "kinds/gcs",
        "kinds/lambda",
        "kinds/s3",
        "kinds/script",
        "kinds/secrets",
        "kinds/shell",
        "kinds/snowflake",
        "kinds/transfer",
        "loops/paged-iterations",
        "loops/pages-of-each-item",
        "mutex/waiter-withdrawn",
        "mutex/waits-no-longer",
        "names/arcs-and-set",
        "names/case-then",
        "names/rules",
        "names/sink",
        "nested/best-effort",
        "nested/fail-fast",
        "nested/failure-answered-by-its-rules",
        "nested/retry-with-a-delay",
        "patterns/wcp-36-dynamic-partial-join-for-multiple-instances",
        "policy/continue-past-an-error",
        "policy/set-after-a-failure",
        "polls/nested",
        "results/accumulate-pages",
        "results/body-with-data",
        "results/large-values-where-names-are-read",
        "results/sql-streams",
        "templates/now-after-the-call",
        "wait/nested",
        "wait/two-in-a-row",
    )
)
"""What history does not record: answers of tasks inside of nested loops and rules, of polls and of attempts that were
tried again; where branches race, which came first. And a mock words the refusal of its own parameters otherwise."""


@pytest.mark.parametrize("name", parted(sorted(CASES), sampled(CASES)))
def test_the_recorded_test_of_a_case_passes(name: str, tmp_path: Path) -> None:
    backend, seen = in_memory(name)
    made = make_test(backend.store, backend.results, seen.driver.deps.programs, seen.execution_id, code=False)
    for file, text in sources_of(CASES[name]).items():
        (tmp_path / file).write_text(text)
    tests = tmp_path / "playbook.test.yaml"
    tests.write_text(made.tests)
    found = read_test_file(tests, Registry(discover=False))
    report = FileRun(found, Options()).case(found.cases[0])
    assert report.passed == (name not in NOT_REPEATED), report.findings


def test_the_case_of_a_redriven_execution_is_named_by_the_end_that_it_repeats():
    backend, seen = in_memory("control/redrive-a-cancelled-sequential-loop")
    programs = seen.driver.deps.programs
    made = make_test(backend.store, backend.results, programs, seen.execution_id, code=False)
    assert f"- name: execution {seen.execution_id}, cancelled\n" in made.tests
