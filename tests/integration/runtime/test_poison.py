"""A task that kills its own process takes a bounded number of processes with it, and no other execution."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
POISON = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: poison }
workflow:
  - step: start
    spec: { on_error: answered }
    tool: { kind: python, code: "poison" }
  - step: answered
    tool: { kind: noop }
"""
GOOD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: good }
workflow:
  - step: start
    tool: { kind: wait, seconds: 1 }
    next: { arcs: [{ step: work }] }
  - step: work
    tool: { kind: python, code: "result = 1" }
"""
KILLED = -9


@pytest.fixture
def noetl(database, tmp_path):
    """Run a command in a process of its own: (exit code, output)."""
    (tmp_path / "poison.yaml").write_text(POISON)
    (tmp_path / "good.yaml").write_text(GOOD)
    environment = {**os.environ, "NOETL_DATABASE_URL": database, "NOETL_HOME": str(tmp_path / "home")}

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.integration.runtime.poisoned", *arguments],
            cwd=Path(__file__).parents[3],
            env=environment,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def statuses(database: str) -> dict[str, str]:
    with psycopg.connect(database) as connection:
        return dict(connection.execute("SELECT name, status FROM noetl.execution").fetchall())


def lost(database: str) -> list[int]:
    with psycopg.connect(database) as connection:
        return [row[0] for row in connection.execute("SELECT lost FROM noetl.command ORDER BY id").fetchall()]


def test_a_poison_pill_ends_as_worker_lost_and_others_go_on(noetl, database, tmp_path):
    assert noetl("run", str(tmp_path / "poison.yaml"))[0] == KILLED
    assert noetl("resume")[0] == KILLED, "the first loss may be anyone's fault: it runs again at once"
    code, told = noetl("run", str(tmp_path / "good.yaml"))
    assert statuses(database)["good"] == "completed" or code == KILLED, told
    for _ in range(2):
        code, told = noetl("resume")
        if code != KILLED:
            break
    assert code == 0, told
    assert statuses(database) == {"poison": "completed", "good": "completed"}
    code, told = noetl("status", "latest", "--json")
    with psycopg.connect(database) as connection:
        history = connection.execute("SELECT string_agg(facts::text, '') FROM noetl.event").fetchone()[0]
    assert "3 processes died while they ran it" in history and "answered" in history


def test_commands_that_look_or_cancel_run_nothing_that_a_process_died_of(noetl, database, tmp_path):
    assert noetl("run", str(tmp_path / "poison.yaml"))[0] == KILLED
    for command in (["list"], ["status", "latest"], ["events", "latest"], ["analyze", "latest"], ["doctor"]):
        code, told = noetl(*command)
        assert code == 0, told
    assert lost(database) == [0], "what only looks does not even open the runtime"
    code, told = noetl("cancel", "latest", "--json")
    assert code == 0 and json.loads(told.splitlines()[0])["status"] == "cancelled", told


def test_what_is_patched_after_a_crash_does_not_run_what_it_died_of(noetl, database, tmp_path):
    assert noetl("run", str(tmp_path / "poison.yaml"))[0] == KILLED
    code, told = noetl("ctx", "patch", "latest", "--set", "approved=true", "--json")
    assert "noetl resume" in told or code == 130, told
    assert lost(database) == [1] and statuses(database) == {"poison": "running"}
