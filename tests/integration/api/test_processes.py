"""`noetl server` and `noetl worker` as a user types them: in the background, shown, and ended with a time to finish."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from noetl.cli.app import app
from noetl.cli.errors import exit_code
from noetl.domain.errors import NoetlError
from noetl.local.emulator import free_port
from tests.integration.api.test_serve import Client
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres

WORK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: slow, path: demo/slow }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import os, time
        def main(go):
            open(go + ".begun", "w").close()
            while not os.path.exists(go):
                time.sleep(0.02)
            return 7
      args: { go: "{{ workload.go }}" }
"""


def test_a_server_and_a_worker_in_the_background(database: str, tmp_path: Path):
    home, port = tmp_path / "home", str(free_port())
    shared = tmp_path / "shared"
    shared.mkdir()
    environ = {
        **os.environ,
        "NOETL_DATABASE_URL": database,
        "NOETL_HOME": str(home),
        "NOETL_TASK_FOLDERS": str(shared),
        "NOETL_LEASE_SECONDS": "2",
    }

    def noetl(*words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, words, env=environ)
        error = done.exception if isinstance(done.exception, NoetlError) else None
        assert (done.exit_code if error is None else exit_code(error)) == code, (
            words,
            done.output,
            done.exception,
        )
        return (
            json.loads(done.stdout.splitlines()[-1])
            if "--json" in words and done.stdout
            else error or done.stderr
        )

    assert "no server runs" in noetl("server", "status", code=1)
    begin = ("server", "start", "--detach", "--port", port, "--external", "python", "--json")
    server = noetl(*begin)
    try:
        assert server["about"] == {"address": f"http://127.0.0.1:{port}", "left to workers": ["python"]}
        assert noetl("server", "status", "--json") == server
        told = str(noetl(*begin, code=3))
        assert "cannot be listened at" in told and "server status" in told and "server-2.log" in told
        assert "already" in str(noetl(*begin, "--name", "server", code=2))
        at = ("--server", f"http://127.0.0.1:{port}", "--pool", "python", "--detach")
        worker = noetl("worker", "start", *at, "--json")
        assert worker["about"]["pool"] == "python" and noetl("worker", "status", "--json") == worker

        client = Client(f"http://127.0.0.1:{port}", (home / "token").read_text().strip())
        client.register(WORK)
        execution_id = client.start("demo/slow", payload={"go": str(shared / "go")})
        _, found = client("GET", "/api/worker/pools")
        assert [one["name"] for one in found["workers"]] == [worker["about"]["known as"]]

        def running() -> Any:
            (one,) = client("GET", "/api/worker/pools")[1]["workers"]
            return one if one["running"] else None

        one = wait_until(running, "the worker's claim")
        assert one["commands"][0]["execution_id"] == execution_id
        # A worker returns what it claimed and has not begun, and no other worker is there to take it.
        wait_until((shared / "go.begun").exists, "the beginning of the task")
        (shared / "go").touch()
        ended = noetl("worker", "stop", "--json")
        assert (ended["name"], ended["killed"]) == ("worker", False)
        client.until(execution_id, "completed")
        assert client("GET", "/api/worker/pools")[1]["workers"] == [], "it said goodbye"
        assert "no worker 'x' runs" in str(noetl("worker", "stop", "x", code=2))
        checks = CliRunner().invoke(app, ["doctor", "--json"], env=environ).stdout
        by_name = {one["name"]: one["detail"] for one in map(json.loads, checks.splitlines())}
        assert f"server (process {server['pid']})" in by_name["servers"] and "none" in by_name["workers"]
    finally:
        ended = noetl("server", "stop", "--all", "--json")
    assert (ended["stopped"], ended["killed"]) == (True, False)
    assert "no server runs" in noetl("server", "stop") and "no server runs" in noetl(
        "server", "status", code=1
    )


def test_the_web_ui_opens_on_a_machine_where_no_server_runs(database: str, tmp_path: Path):
    environ = {**os.environ, "NOETL_DATABASE_URL": database, "NOETL_HOME": str(tmp_path / "home")}
    words = ("ui", "--no-open", "--json", "--port", str(free_port()))

    def noetl(*words: str) -> Any:
        done = CliRunner().invoke(app, words, env=environ)
        assert done.exit_code == 0, (done.output, done.exception)
        return json.loads(done.stdout.splitlines()[-1])

    first = noetl(*words)
    try:
        server = noetl("server", "status", "--json")
        assert first["address"].startswith(server["about"]["address"] + "/ui/enter#")
        assert noetl(*words)["address"].startswith(server["about"]["address"]), "the server that runs"
        assert noetl("server", "status", "--json") == server
    finally:
        noetl("server", "stop", "--all", "--json")
