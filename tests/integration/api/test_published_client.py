"""The published client itself against `noetl serve`: `make published-client` installs it into a folder of its own and runs this."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.api.test_serve import GATED, Client, serve, server
from tests.waiting import PATIENCE

__all__ = ["serve", "server"]

FOLDER = os.environ.get("NOETL_PUBLISHED_CLIENT", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="make published-client")
START = "import sys; sys.argv[0] = 'noetl'; from noetl import main; sys.exit(main())"
TWO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: two, path: demo/two }
workload: { n: 4 }
workflow:
  - { step: start, tool: { kind: noop, args: { n: "{{ workload.n }}" } }, next: last }
  - { step: last, tool: { kind: noop, args: { n: 1 } } }
"""


class Published:
    """The client in a process and with a home of its own."""

    def __init__(self, address: str, token: str, home: Path) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": FOLDER,
            "NOETL_SESSION_TOKEN": token,
        }
        self.address = address

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return re.sub(r"\x1b\[\d+m", "", done.stdout)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", START, "--server-url", self.address, *words]
        return subprocess.run(
            command,
            env=self.environment,
            cwd=self.environment["HOME"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )


@pytest.fixture
def published(server, tmp_path: Path) -> Published:
    home = tmp_path / "client"
    (home / "books").mkdir(parents=True)
    (home / "books" / "two.yaml").write_text(TWO)
    (home / "books" / "gated.yaml").write_text(GATED)
    (home / "shop.json").write_text('{"name": "shop", "type": "generic", "data": {"k": "v"}}')
    return Published(server.address, server.tokens.add("published", ["admin"]), home)


def test_its_commands_work(server, published):
    client = Client(server.address, published.environment["NOETL_SESSION_TOKEN"])
    assert "registered 2, failed 0" in published("catalog", "load", "books")
    assert "successfully" in published("register", "credential", "-f", "shop.json")
    credentials = published("list", "Credential")
    assert '"shop"' in credentials and "demo/two" not in credentials
    done = json.loads(published("run", "demo/two@1", "-r", "distributed", "--json"))["execution_id"]
    client.until(done, "completed")
    shown = published("status", done)
    assert "COMPLETED" in shown and "Steps:     2 completed" in shown and "- last" in shown
    rerun = re.search(r'"execution_id": "(\d+)"', published("execute", "rerun", done))
    assert rerun is not None
    client.until(rerun[1], "completed")
    waiting = json.loads(published("run", "books/gated.yaml", "-r", "distributed", "--json"))["execution_id"]
    client.until(waiting, "waiting")
    assert "Current:   gate" in published("status", waiting)
    assert "0 stuck" in published("cleanup", "--older-than-minutes", "0", "--dry-run")
    assert "Cancelled: 1 execution(s)" in published("cancel", waiting, "--cascade")
    client.until(waiting, "cancelled")
    assert "FAILED" in published("status", waiting)
    assert '"valid": true' in published("db", "validate")


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (("query", "SELECT 1"), "/api/sql"),
        (("ehdb", "query", "executions"), "/api/sql"),
        (("ehdb", "query", "events", "1"), "/api/sql"),
        (("auth", "login", "--auth0-token", "t", "--auth0-domain", "d"), "NOETL_SESSION_TOKEN"),
        (("--gateway", "list", "Playbook"), "leave out --gateway"),
    ],
    ids=["query", "ehdb executions", "ehdb events", "login", "gateway"],
)
def test_a_declined_command_shows_what_to_use(published, words, instead):
    done = published.run(*words)
    shown = done.stdout + done.stderr
    assert "route_declined" in shown and instead in shown
