"""The process that runs tests of playbooks for the server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from noetl.domain.errors import OverloadedError
from noetl.runtime.server.test_process import TestProcesses
from tests.waiting import PATIENCE, wait_until

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: tried }\n"
PLAYBOOK = (
    HEAD
    + """workload: { total: 300 }
workflow:
  - step: start
    tool: { kind: http, url: "https://shop.test/" }
    next:
      arcs:
        - { step: large, when: "{{ start.total > 100 }}" }
        - { step: small }
  - { step: large, tool: { kind: noop, input: { size: large } } }
  - { step: small, tool: { kind: noop, input: { size: small } } }
"""
)
CODE = (
    HEAD
    + """workflow:
  - step: start
    tool:
      kind: python
      code: |
        import os
        result = sorted(name for name in os.environ if name.startswith("NOETL"))
    next: { arcs: [{ step: hold }] }
  - step: hold
    tool: { kind: python, code: "while True: pass" }
"""
)


class ByHand:
    """A timer that rings when a test says so. It has what ``TestProcesses`` uses of a ``threading.Timer``."""

    def __init__(self, seconds: float, do: Callable[..., object], given: Iterable[object]) -> None:
        self.ring = partial(do, *given)

    def start(self) -> None: ...

    def cancel(self) -> None: ...


def test_cases_are_compared_and_branches_counted() -> None:
    cases = """cases:
  - { name: large, tools: { start: { body: { total: 300 } } }, expect: { result: { size: large } } }
  - { name: wrong, tools: { start: { body: { total: 300 } } }, expect: { result: { size: small } } }
"""
    run = TestProcesses(nullcontext).run({"playbook.yaml": PLAYBOOK, "playbook.test.yaml": cases})
    assert [(case.name, case.line, case.passed) for case in run.cases] == [
        ("large", 2, True),
        ("wrong", 3, False),
    ]
    assert run.cases[1].findings[0].where == "result.size"
    assert [branch.what for branch in run.branches if not branch.taken] == ["arc start → small", "step small"]
    assert (run.total, run.stopped, run.problems) == (2, "", [])


@pytest.mark.full
def test_a_mistake_in_the_test_file_has_its_place() -> None:
    cases = "cases:\n  - { name: one, expect: { path: [strat] } }\n"
    run = TestProcesses(nullcontext).run({"playbook.yaml": PLAYBOOK, "playbook.test.yaml": cases})
    assert [(one.line, one.code) for one in run.problems] == [(2, "unknown-step")]


def test_a_test_file_names_only_files_that_were_sent_with_it(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(PLAYBOOK)
    beyond = "../other.yaml"
    head = f"playbook: {other}\nplaybooks:\n  - playbook.yaml\n  - {other}\n  - {beyond}\n"
    cases = head + "cases:\n  - { name: one, expect: { status: completed } }\n"
    run = TestProcesses(nullcontext).run({"playbook.yaml": PLAYBOOK, "playbook.test.yaml": cases})
    places = [(one.line, one.column, one.code) for one in run.problems]
    assert places == [(1, 11, "no-playbook"), (4, 5, "no-playbook"), (5, 5, "no-playbook")]
    assert "is not among the files of this request" in run.problems[0].message and run.cases == []


def test_code_without_end_is_ended_with_its_process_and_others_are_refused_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("NOETL_MASTER_KEY", "a secret of the server")
    timers: list[ByHand] = []
    monkeypatch.setattr(threading, "Timer", lambda *given: timers.append(ByHand(*given)) or timers[-1])
    tests = TestProcesses(nullcontext, seconds=5.0, at_once=1)
    files = {
        "playbook.yaml": CODE,
        "playbook.test.yaml": "cases:\n  - { name: first }\n  - { name: second }\n",
    }
    found = []
    asked = threading.Thread(target=lambda: found.append(tests.run(files)))
    asked.start()
    wait_until(lambda: any(tmp_path.iterdir()), lambda: "no process began")
    wait_until(lambda: bool(_children() and timers), lambda: "no process began")
    assert b"a secret of the server" not in (Path("/proc") / _children()[0] / "environ").read_bytes()
    with pytest.raises(OverloadedError, match="run tests already"):
        tests.run(files)
    child = Path("/proc") / _children()[0]
    wait_until(lambda: (child / "task" / child.name / "children").read_text(), "a process of the code")
    timers[0].ring()
    asked.join(PATIENCE)
    (run,) = found
    assert (run.cases, run.stopped) == ([], "their 5 seconds are over")
    assert not list(tmp_path.iterdir())
    assert _children() == []


def test_duckdb_reads_no_folder_that_code_writes_to() -> None:
    """Code could exchange a file for a link to a key of the server, between DuckDB's check and its reading."""
    text = (
        HEAD
        + """workflow:
  - step: start
    tool:
      kind: python
      code: |
        import os
        open("mine.txt", "w").write("mine")
        result = {"folder": os.getcwd()}
    next: taken
  - step: taken
    tool: { kind: duckdb, query: "SELECT content FROM read_text('{{ start.folder }}/mine.txt')" }
"""
    )
    cases = "cases: [{ name: one, expect: { error: { step: taken, code: access_refused } } }]\n"
    run = TestProcesses(nullcontext).run({"playbook.yaml": text, "playbook.test.yaml": cases})
    assert [(case.passed, case.findings) for case in run.cases] == [(True, [])]


def test_a_case_that_asks_for_more_memory_than_tests_may_have_ends_alone() -> None:
    text = (
        HEAD
        + 'workflow:\n  - step: start\n    tool: { kind: noop, input: { n: "{{ range(10**9) | list }}" } }\n'
    )
    run = TestProcesses(nullcontext).run(
        {"playbook.yaml": text, "playbook.test.yaml": "cases: [{ name: one }]\n"}
    )
    assert not any(case.passed for case in run.cases)


def _children() -> list[str]:
    """Return the processes of tests that this process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and "noetl.testing.serve_run" in (folder / "cmdline").read_text():
                found.append(folder.name)
        except OSError:
            continue
    return found
