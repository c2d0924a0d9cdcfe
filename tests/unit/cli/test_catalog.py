"""`noetl catalog show`: what a person reads about the relations of a playbook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.api.ground import HELLO

CALLER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: demo/caller, schedule: {cron: "0 6 * * *", timezone: Europe/Berlin}}
workflow:
  - step: start
    tool: {kind: playbook, path: demo/hello, version: 1}
    next: second
  - step: second
    tool: {kind: playbook, path: "demo/{{ workload.which }}"}
"""


@pytest.fixture
def registered(noetl):
    Path("hello.yaml").write_text(HELLO)
    Path("caller.yaml").write_text(CALLER)
    assert noetl("register", "hello.yaml", "caller.yaml").code == 0
    return noetl


def test_calls_callers_and_starts_are_tables(registered):
    shown = registered("catalog", "show", "demo/caller").out
    lines = [line.split() for line in shown.splitlines()]
    assert ["demo/caller", "version", "1"] in lines
    assert ["demo/hello", "1", "6"] in lines
    assert ["demo/{{", "workload.which", "}}", "latest", "9", "computed"] in lines
    assert any(line[:5] == ["demo.caller", "0", "6", "*", "*"] and "active," in line for line in lines)


def test_a_computed_path_calls_perhaps(registered):
    shown = registered("catalog", "show", "demo/hello@1").out
    assert "perhaps: demo/{{ workload.which }}" in shown
    assert "it calls no playbook" in shown and "nothing starts it by itself" in shown
