"""Every template of `noetl init` runs, and the tests that come with some of them pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.cli.commands.init import TEMPLATES, write_template
from noetl.kinds.registry import default_registry
from noetl.testing.run_cases import FileRun, Options
from noetl.testing.testfile import read_test_file

RESULTS: dict[str, Any] = {
    "hello": {"people": 3, "letters": 14},
    "etl": 200,
    "fan_out": {"done": 37, "failed": 3, "sum": sum(n * n for n in range(40) if n % 13 != 7)},
    "nightly": {"rows": 42},
    "api": {"city": "Paris", "celsius": 14.0, "asked": 2},
}


def _warmth(longitude: str) -> float:
    return 9.5 if longitude.startswith("-") else 14.0


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_runs(template, local, api, tmp_path) -> None:
    api.on(
        "/v1/forecast",
        lambda asked: (200, {"current": {"temperature_2m": _warmth(asked.query["longitude"])}}),
    )
    playbook, *_ = write_template(template, f"template_{template}", tmp_path)
    entry = local.runtime.register(playbook.read_text(), source_name=str(playbook))
    run = local.follow(local.runtime.start(entry, {"base": api.base} if template == "api" else {}))
    if template == "approval":
        assert run.status == "waiting" and run.entered("ask") == 1
        return
    assert (run.status, run.error) == ("completed", None)
    assert (run.result["rows"][0]["orders"] if template == "etl" else run.result) == RESULTS[template]


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_test_of_a_template_passes(template, tmp_path: Path) -> None:
    _, *tests = write_template(template, "mine", tmp_path)
    for file in tests:
        found = read_test_file(file, default_registry())
        reports = list(FileRun(found, Options()).run(found.cases))
        assert reports and not [finding for report in reports for finding in report.findings]
