"""The process that runs one test file for a server.

It reads files from its input, and writes a line of JSON for each outcome.


It holds no secret and no connection. Its memory and processor time are bounded; the server bounds the rest.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.kinds.registry import Registry
from noetl.ports.test_runs import TestedBranch, TestedCase, TestFinding
from noetl.testing.mocks import shown_calls
from noetl.testing.run_cases import CaseReport, FileRun, Options
from noetl.testing.testfile import read_test_file

TESTS = "playbook.test.yaml"
MEMORY_BYTES = 1536 * 1024 * 1024
"""Address space of this process; tasks have limits of their own."""
PROCESSOR_SECONDS = 60
MOST_PATH, MOST_FINDINGS, MOST_TEXT = 200, 20, 2_000


def main() -> None:
    """Run the files of the request in the working folder."""
    _bound()
    files: dict[str, str] = msgspec.json.decode(sys.stdin.buffer.read())
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    try:
        file = read_test_file(Path(TESTS), Registry(), among=files.keys())
    except InvalidPlaybookError as error:
        _print({"problems": error.diagnostics, "source": Path(error.source_name).name})
        return
    run = FileRun(file, Options())
    _print({"total": len(file.cases)})
    for report in run.run(file.cases):
        _print({"case": _case(report)})
    taken = run.coverage.taken
    branches = [
        TestedBranch(one.line, one.column, one.kind, one.what, one in taken)
        for one in sorted(run.coverage.branches)
    ]
    _print({"branches": branches})


def _bound() -> None:
    """Bound what this process may use, and have the kernel end it before the server."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, most))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 5))
    try:
        Path("/proc/self/oom_score_adj").write_text("500")
    except OSError:
        return


def _case(report: CaseReport) -> TestedCase:
    findings = [
        TestFinding(
            one.where[:MOST_TEXT], one.expected[:MOST_TEXT], one.got[:MOST_TEXT], one.message[:MOST_TEXT]
        )
        for one in report.findings[:MOST_FINDINGS]
    ]
    return TestedCase(
        report.name,
        report.line,
        report.passed,
        report.status,
        round(report.seconds * 1000, 1),
        list(report.path[:MOST_PATH]),
        shown_calls(report.calls),
        findings,
    )


def _print(line: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
