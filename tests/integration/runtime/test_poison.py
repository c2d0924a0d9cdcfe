"""A task that kills its own process takes a bounded number of processes with it, and no other execution."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from noetl.domain.workers.lost_owners import MOST
from tests.waiting import wait_until

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
TWO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: two }
workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [{ step: one }, { step: other }, { step: sound }] }
  - step: one
    spec: { on_error: answered }
    tool: { kind: python, code: "poison_beside" }
  - step: other
    spec: { on_error: answered }
    tool: { kind: python, code: "poison_beside" }
  - step: sound
    tool: { kind: python, code: "bystander" }
    next: { arcs: [{ step: after }] }
  - step: after
    tool: { kind: python, code: "result = 1" }
  - step: answered
    tool: { kind: noop }
"""
KILLED = -9


@pytest.fixture
def noetl(database, tmp_path):
    """Run a command in a process of its own, at most until ``seen`` is true: (exit code, output)."""
    (tmp_path / "poison.yaml").write_text(POISON)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "two.yaml").write_text(TWO)
    environment = {
        **os.environ,
        "NOETL_PYTHON_WORKERS": "3",
        "NOETL_WORKER_PROCESSES": "0",
        "NOETL_DATABASE_URL": database,
        "NOETL_HOME": str(tmp_path / "home"),
    }

    def run(*arguments: str, seen: Callable[[], bool] | None = None) -> tuple[int, str]:
        with (tmp_path / "told").open("w+") as told:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.runtime.poisoned", *arguments],
                cwd=Path(__file__).parents[3],
                env=environment,
                stdout=told,
                stderr=subprocess.STDOUT,
            )
            try:
                if seen is not None:
                    wait_until(lambda: process.poll() is not None or seen(), "the end of a process")
                    process.terminate()
                code = process.wait(150)
            finally:
                process.kill()
                process.wait()
            told.seek(0)
            return code, told.read()

    return run


def statuses(database: str) -> dict[str, str]:
    with psycopg.connect(database) as connection:
        return dict(connection.execute("SELECT name, status FROM noetl.execution").fetchall())


def lost(database: str) -> list[int]:
    with psycopg.connect(database) as connection:
        return [row[0] for row in connection.execute("SELECT lost FROM noetl.command ORDER BY id").fetchall()]


@pytest.mark.full
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


@pytest.mark.full
def test_commands_that_look_or_cancel_run_nothing_that_a_process_died_of(noetl, database, tmp_path):
    assert noetl("run", str(tmp_path / "poison.yaml"))[0] == KILLED
    for command in (["list"], ["status", "latest"], ["events", "latest"], ["analyze", "latest"], ["doctor"]):
        code, told = noetl(*command)
        assert code == 0, told
    assert lost(database) == [0], "what only looks does not even open the runtime"
    code, told = noetl("cancel", "latest", "--json")
    assert code == 0 and json.loads(told.splitlines()[0])["status"] == "cancelled", told


@pytest.mark.full
def test_what_is_patched_after_a_crash_does_not_run_what_it_died_of(noetl, database, tmp_path):
    assert noetl("run", str(tmp_path / "poison.yaml"))[0] == KILLED
    code, told = noetl("ctx", "patch", "latest", "--set", "approved=true", "--json")
    assert "noetl resume" in told or code == 130, told
    assert lost(database) == [1] and statuses(database) == {"poison": "running"}


@pytest.mark.full
@pytest.mark.parametrize("door", ["resume", "serve"])
def test_two_poison_pills_take_nobody_with_them(noetl, database, tmp_path, door):
    """Both kill their process twice while a sound task runs beside them; then each of the three is tried alone."""
    found = [noetl("run", str(tmp_path / "two.yaml"))]
    assert found[0][0] == KILLED, found

    def over() -> bool:
        return statuses(database) == {"two": "completed"}

    arguments = ["resume"] if door == "resume" else ["serve", "--port", "0"]
    while not over() and len(found) <= 2 * MOST:
        found.append(noetl(*arguments, seen=None if door == "resume" else over))
        if len(found) == 2:
            assert lost(database) == [1, 1, 1], "this one died as well; the next one counts that"
            (tmp_path / "calm").touch()
    assert over(), found
    assert [code for code, _ in found[:-1]] == [KILLED] * 4, "twice together, once each alone"
    with psycopg.connect(database) as connection:
        history = connection.execute("SELECT string_agg(facts::text, '') FROM noetl.event").fetchone()[0]
    assert history.count(f"{MOST} processes died while they ran it") >= 2, history
    code, told = noetl("status", "latest", "--json")
    assert code == 0 and "after" in told, told
