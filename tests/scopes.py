"""How xdist deals the tests out: what shares something large goes to one process, and what takes longest begins first."""

from __future__ import annotations

import re

import pytest

COLLECTED = pytest.StashKey[dict[str, bool]]()
"""The collected test functions, and whether ``make test`` leaves some of their cases out."""

FIRST = (
    "tests/e2e/",
    "tests/integration/ui/",
    "tests/infra/",
    "tests/faults/",
    "tests/integration/",
    "tests/architecture/",
    "tests/properties/",
    "tests/fuzz/",
    "tests/contract/",
    "tests/conformance/",
    "tests/unit/services/",
    "tests/unit/dsl/",
    "tests/unit/cli/",
)
"""Folders in the order of their longest piece. Those that are not named, of small pieces, fill the end of a run."""

BY_FOLDER = ("tests/e2e/", "tests/infra/", "tests/architecture/", "tests/integration/examples/")
"""Their tests share a deployment, a process of Node, the trees of all files, or a runtime with a Postgres of its own."""
BY_FILE = (
    "tests/faults/",
    "tests/unit/bench/test_cost",
    "tests/integration/",
)
"""Their tests share a Postgres, a runtime or an installation of their own, or what takes seconds to compute."""
BY_FUNCTION = ("tests/unit/",)
"""Thousands of small tests: dealt out one by one, a process waits for each longer than it takes."""
CASE = re.compile(r"tests/conformance/.*\[(?:memory-|postgres-)?([\w-]+/[\w-]+)\]$")
"""All tests of a case share how it is played in memory."""


def rank(nodeid: str) -> int:
    return next((number for number, folder in enumerate(FIRST) if nodeid.startswith(folder)), len(FIRST))


def scope_of(nodeid: str) -> str:
    """Name what a test is dealt out with: a folder, a file, a function, a conformance case, or itself."""
    folder = next((folder for folder in BY_FOLDER if nodeid.startswith(folder)), None)
    if folder is not None:
        return folder
    if nodeid.startswith(BY_FILE):
        return nodeid.partition("::")[0]
    if nodeid.startswith(BY_FUNCTION):
        return nodeid.partition("[")[0]
    case = CASE.match(nodeid)
    return f"conformance {case[1]}" if case else nodeid
