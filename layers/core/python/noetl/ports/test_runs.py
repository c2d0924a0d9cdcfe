"""The port of test runs: tests of a playbook, run in a process of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

BranchKind = Literal[
    "step", "arc", "failure arc", "case entry", "task rule", "admission rule", "compensation"
]


class TestFinding(msgspec.Struct, frozen=True):
    """A difference from what a case expects: ``where``, both values as JSON, or a message."""

    __test__ = False  # pytest

    where: str
    expected: str = ""
    got: str = ""
    message: str = ""


class TestProblem(msgspec.Struct, frozen=True):
    """A mistake in a test file, at its line and column."""

    __test__ = False  # pytest

    code: str
    message: str
    line: int
    column: int
    severity: Literal["error", "warning"] = "error"
    hint: str | None = None
    path: str = ""


class TestedCase(msgspec.Struct, frozen=True):
    """The outcome of a case.

    ``line``: its place in the test file. ``path``: the first steps that it entered.
    """

    __test__ = False  # pytest

    name: str
    line: int
    passed: bool
    status: str
    duration_ms: float
    path: list[str]
    calls: dict[str, int]
    findings: list[TestFinding]


class TestedBranch(msgspec.Struct, frozen=True):
    """A branch of the playbook. ``taken``: whether a case reached it."""

    __test__ = False  # pytest

    line: int
    column: int
    kind: BranchKind
    what: str
    taken: bool


class TestRun(msgspec.Struct, frozen=True):
    """The outcome of a test file.

    ``problems``: why the test file cannot be run. ``stopped``: why not every case was run; empty when all were.
    """

    __test__ = False  # pytest

    cases: list[TestedCase] = []
    branches: list[TestedBranch] = []
    problems: list[TestProblem] = []
    total: int = 0
    stopped: str = ""


class TestRunner(Protocol):
    """A runner of tests, apart from this process."""

    def run(self, files: Mapping[str, str]) -> TestRun:
        """Run the cases of ``playbook.test.yaml`` among ``files``, which are texts by file name.

        Raises OverloadedError when too many tests run, InfrastructureError when the runner cannot be started.
        """
