"""The ``noetl`` command at the deployed system: run, wait, approve, look, download."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE

GATED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: asked, path: e2e/asked }
workflow:
  - step: start
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool: { kind: python, args: { n: "{{ iter.n }}" }, code: "print('item', n); result = n * 2" }
    next: { arcs: [{ step: gate }] }
  - step: gate
    spec:
      policy:
        admit: { rules: [{ when: "{{ ctx.approved | default(false) }}", then: { allow: true } }, { else: { then: { allow: false } } }] }
    tool: { kind: noop, args: { sums: "{{ start }}", note: "{{ vars.note }}" } }
"""
LARGE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: wide, path: e2e/wide }
workflow:
  - { step: start, tool: { kind: python, code: "result = ['x' * 1000] * 9000" } }
"""


@pytest.fixture
def noetl(deployment: Any, tmp_path: Path) -> Any:
    env = {**os.environ, "NOETL_HOME": str(tmp_path / "home"), "NOETL_CONTEXT": "deployed"}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "noetl.cli", *words]
        ran = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=PATIENCE)
        assert ran.returncode == 0, ran.stderr + ran.stdout
        return ran.stdout

    run("context", "add", "deployed", "--url", deployment.url)
    return run


def test_a_playbook_is_run_approved_and_looked_at_from_here(noetl: Any, tmp_path: Path) -> None:
    (tmp_path / "asked.yaml").write_text(GATED)
    told = noetl("run", "asked.yaml")
    assert "3/3 items" in told and "to approve: noetl ctx patch" in told
    execution_id = told.split()[1]
    noetl("vars", "set", execution_id, "--set", "note=seen")
    *events, last = noetl("ctx", "patch", execution_id, "--set", "approved=true", "--json").splitlines()
    assert json.loads(last)["result"] == {"sums": [2, 4, 6], "note": "seen"}
    assert noetl("events", execution_id, "--json").splitlines() == events
    printed = [json.loads(line) for line in noetl("logs", execution_id, "-f", "--json").splitlines()]
    assert {(one["step"], one["index"], one["line"]) for one in printed} == {
        ("start", place, f"item {place + 1}") for place in range(3)
    }


def test_a_result_that_is_too_large_for_an_answer_arrives_whole(noetl: Any, tmp_path: Path) -> None:
    (tmp_path / "wide.yaml").write_text(LARGE)
    assert json.loads(noetl("run", "wide.yaml", "--quiet")) == ["x" * 1000] * 9000
