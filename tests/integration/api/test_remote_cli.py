"""The ``noetl`` command of one process, at the ``noetl serve`` of another: nothing between them but HTTP and a token.

Each command is a process, which a process that has loaded ``noetl`` forks: loading it again for each would be most of the work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.integration.api.test_serve import GATED, LARGE
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

SCHEDULED = LARGE.replace("path: demo/large", "path: demo/nightly, schedule: {cron: 0 2 * * *}")


@dataclass
class Machine:
    """A home folder, and the commands typed there."""

    folder: Path
    env: dict[str, str]

    def __call__(self, *words: str, code: int = 0) -> str:
        ran = forked.noetl(*words, env=self.env, cwd=self.folder)
        assert ran.returncode == code, ran.stderr + ran.stdout
        return ran.stdout if code == 0 else ran.stderr

    def json(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self(*words, "--json").splitlines()]


@pytest.fixture
def served(database: str, tmp_path: Path) -> Iterator[dict[str, Any]]:
    home = tmp_path / "server"
    env = {**os.environ, "NOETL_HOME": str(home), "NOETL_DATABASE_URL": database, "NOETL_PYTHON_WORKERS": "1"}
    words = ("serve", "--port", "0", "--json")
    process = forked.Forked("noetl.cli.main", argv=words, env=env, errors=tmp_path / "stderr")
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture
def machine(served: dict[str, Any], tmp_path: Path) -> Machine:
    """Without a database of its own: a command that would open one fails."""
    folder = tmp_path / "client"
    folder.mkdir()
    env = {**os.environ, "NOETL_HOME": str(folder / "home")}
    env["NOETL_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/nothing"
    made = Machine(folder, env)
    made("context", "add", "near", "--url", served["address"], "--token-file", served["token_file"])
    return made


def test_the_commands_work_at_a_server(machine):
    for name, text in (("large", LARGE), ("gated", GATED), ("nightly", SCHEDULED)):
        (machine.folder / f"{name}.yaml").write_text(text)
    assert "demo/large version 1" in machine("run", "large.yaml", "--remote")
    assert json.loads(machine("result", "--remote")) == {"text": "x" * 60000, "more": "y" * 60000}
    assert "fires next at" in machine("register", "nightly.yaml", "--remote")
    machine.env["NOETL_CONTEXT"] = "near"
    assert [one["name"] for one in machine.json("schedule", "list")] == ["demo.nightly"]

    (started,) = machine.json("exec", "gated.yaml")
    execution_id = started["execution_id"]
    follower = forked.Forked(
        "noetl.cli.main",
        errors=machine.folder / "errors of events",
        argv=("events", "-f", execution_id, "--json"),
        env=machine.env,
        cwd=machine.folder,
    )
    try:
        assert "to approve: noetl ctx patch" in machine("run", "gated.yaml")
        machine("vars", "set", execution_id, "--set", "note=by hand", "--reason", "a test")
        machine("vars", "delete", execution_id, "gone")
        assert machine("vars", "get", execution_id, "n") == "1\n"
        done = machine.json("ctx", "patch", execution_id, "--set", "approved=true")[-1]
        assert (done["status"], done["result"]) == ("completed", {"n": 1, "note": "by hand", "gone": False})
        events = [json.loads(line) for line in follower.stdout]
        assert follower.wait(PATIENCE) == 0
    finally:
        follower.kill()
    assert events == machine.json("events", execution_id)
    assert events[-1]["event_type"] == "playbook.completed"

    assert "is cancelled" in machine("cancel", "latest", "--reason", "enough")
    assert [one["status"] for one in machine.json("list", "-n", "3")] == [
        "cancelled",
        "completed",
        "completed",
    ]
    assert "execution_ended" in machine("inject", "latest", "gate", code=2)
