"""The command line in this process, as in the tests of ``noetl.cli``, and test files run without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.kinds.registry import Registry
from noetl.testing.run_cases import CaseReport, FileRun, Options
from noetl.testing.testfile import read_test_file
from tests.unit.cli.conftest import database as database
from tests.unit.cli.conftest import noetl as noetl

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: NAME, path: tests/NAME }\n"


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """``put(steps, cases)``: a playbook ``play.yaml`` with its test file; ``name`` for another name."""

    def put(playbook: str, cases: str = "", name: str = "play") -> Path:
        (tmp_path / f"{name}.yaml").write_text(HEAD.replace("NAME", name) + playbook)
        tests = tmp_path / f"{name}.test.yaml"
        if cases:
            tests.write_text(cases)
        return tests

    return put


class Ran(dict[str, CaseReport]):
    """Reports by the name of their case."""

    run: FileRun

    def findings(self, name: str) -> list[tuple[str, str, str]]:
        return [(found.where, found.expected, found.got) for found in self[name].findings]

    @property
    def wrong(self) -> dict[str, list[tuple[str, str, str]]]:
        """Findings of the cases that have any."""
        return {name: self.findings(name) for name in self if self[name].findings}

    @property
    def missed(self) -> list[str]:
        return [branch.what for branch in self.run.coverage.missed]


@pytest.fixture
def play(put: Callable[..., Path]) -> Callable[..., Ran]:
    """``play(steps, cases, **options)``: every case is run."""

    def play(playbook: str, cases: str, **options: Any) -> Ran:
        file = read_test_file(put(playbook, cases), Registry(discover=False))
        run = FileRun(file, Options(**options))
        ran = Ran({report.name: report for report in run.run(file.cases)})
        ran.run = run
        return ran

    return play
