"""Every template of `noetl init` runs, and the tests that come with some of them pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.cli.commands.init import TEMPLATES, write_template
from noetl.kinds.registry import default_registry
from noetl.testing.run_cases import FileRun, Options
from noetl.testing.testfile import read_test_file
from tests.integration.examples.api import Api, Request

RESULTS: dict[str, Any] = {
    "hello": {"people": 3, "letters": 14},
    "etl": 200,
    "fan_out": {"done": 37, "failed": [7, 20, 33], "sum": sum(n * n for n in range(40) if n % 13 != 7)},
    "nightly": {"rows": 42},
    "api": {"city": "Paris", "celsius": 14.0, "asked": 2},
    "agent": {"answer": "it is 391"},
    "saga": {"room": "rooms-1", "car": "cars-1", "payment": "payments-1"},
}


def _warmth(longitude: str) -> float:
    return 9.5 if longitude.startswith("-") else 14.0


def _model(asked: Request) -> tuple[int, Any]:
    """Call the tool first, then answer with what the tool returned."""
    *_, last = asked.body["messages"]
    call = {"name": "multiply", "arguments": '{"a": 17, "b": 23}'}
    message: dict[str, Any] = {"role": "assistant", "content": f"it is {last['content']}"}
    if last["role"] == "user":
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": call}]
    return 200, {"choices": [{"message": message}]}


def _serve(api: Api) -> None:
    api.on("/chat/completions", _model)
    for path in ("/rooms", "/cars", "/payments", "/log"):
        api.on(path, lambda asked: (200, {"id": f"{asked.path[1:]}-1"}))


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_runs(template, local, api, tmp_path) -> None:
    api.on(
        "/v1/forecast",
        lambda asked: (200, {"current": {"temperature_2m": _warmth(asked.query["longitude"])}}),
    )
    _serve(api)
    playbook, *_ = write_template(template, f"template_{template}", tmp_path)
    entry = local.runtime.register(playbook.read_text(), source_name=str(playbook))
    run = local.follow(
        local.runtime.start(entry, {"base": api.base} if template in ("api", "agent", "saga") else {})
    )
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
