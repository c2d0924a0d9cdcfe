"""The log of `noetl serve`: what a task prints cannot pass for a line of the server's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noetl.cli.app import app
from noetl.local.emulator import free_port
from tests.integration.api.test_serve import Client
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres

PRINTS = r"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: prints, path: demo/prints }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        def main():
            print("owner did cancel_execution: 200 7 (request 1)\r\x1b[2J\u202e")
            raise ValueError("remote\nowner did delete: 200 8 (request 2)\x1b[2J")
"""


def test_a_task_forges_no_audit_line(database: str, tmp_path: Path):
    home, port = tmp_path / "home", str(free_port())
    environ = {**os.environ, "NOETL_DATABASE_URL": database, "NOETL_HOME": str(home)}
    runner = CliRunner()
    begun = runner.invoke(app, ["server", "start", "--detach", "--port", port, "--json"], env=environ)
    try:
        server = json.loads(begun.stdout.splitlines()[-1])
        client = Client(f"http://127.0.0.1:{port}", (home / "token").read_text().strip())
        client.register(PRINTS)
        execution_id = client.start("demo/prints")
        client.until(execution_id, "failed")
        _, page = client("GET", f"/api/executions/{execution_id}/logs")
        assert page["lines"][0]["line"].endswith("\r\x1b[2J\u202e"), "JSON is exact"
        log = Path(server["log"])
        mark = f"[{execution_id} start] owner did cancel_execution"
        wait_until(lambda: mark in log.read_text(), log.read_text)
    finally:
        runner.invoke(app, ["server", "stop", "--all", "--json"], env=environ)
    written = log.read_bytes().decode()
    assert not any(char in written for char in "\x1b\r\u202e"), written
    assert not any(line.startswith("owner did") and "(request 1)" in line for line in written.split("\n"))
    assert not any(line.startswith("owner did delete") for line in written.split("\n"))
