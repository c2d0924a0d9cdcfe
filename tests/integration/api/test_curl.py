"""The examples of the docs, run with curl and the noetl command against ``noetl serve``, page by page, in the order of the page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.api.http.local_tokens import write_private
from noetl.domain.task_logs import TaskLine
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.shown import Example, differs, examples, parse
from tests.integration.api.test_serve import Client
from tests.waiting import PATIENCE, wait_until

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(
        not (shutil.which("curl") and shutil.which("jq")), reason="the examples are for curl and jq"
    ),
]
DOCS = Path(__file__).parents[3] / "docs"
READINGS = {
    "api": tuple(f"api{page}.md" for page in ("", "/control", "/data", "/workers", "/analyze", "/server")),
    **{page: (f"{page}.md",) for page in ("credentials", "logs", "operations", "schedules")},
}
"""Pages that one shell runs, one after the other: their variables live on."""
ADDRESS = "http://127.0.0.1:8765"
DAILY = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: daily, path: reports/daily }
workflow: [{ step: start, tool: { kind: noop } }]
"""
PRINTED = TaskLine("2026-11-21T12:03:44.120Z", "load", "load", "connected", 2)
END = "--end-of-example--"


class Shell:
    """One bash for a page, so that variables and functions live on."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{command}\nprintf '\\n{END} %s\\n' $?\n")
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line.startswith(END):
                assert line.split()[1] == "0", f"{command}\n{''.join(lines)}"
                return "".join(lines).strip()
            lines.append(line)
        raise AssertionError(f"the shell ended in {command}")

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def server(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("user") / ".noetl"
    settings = Settings(home, module_database, python_workers=1)
    settings.make_home()
    with Server(settings, ServeSettings(port=0, external=("python",)), on_log=lambda line: None) as made:
        assert made.tokens is not None
        token = made.tokens.add("owner", ["admin", "worker"])
        write_private(home / "token", token.encode())
        yield made


def furnish(server: Server, shell: Shell, reading: str) -> None:
    """Make what a page takes for granted."""
    if reading == "operations":
        shell.run(f"noetl context add here --url {server.address} --token-file ~/.noetl/token")
    if reading == "logs":
        client = Client(server.address, (server.runtime.settings.home / "token").read_text())
        client.register(DAILY)
        execution_id = client.start("reports/daily")
        client.until(execution_id, "completed")
        server.runtime.task_logs.append(int(execution_id), [PRINTED])
        shell.run(f"ID={execution_id}")
    if reading == "schedules":
        client = Client(server.address, (server.runtime.settings.home / "token").read_text())
        client.register(DAILY)
        client.register(DAILY.replace("name: daily, path: reports/daily", "name: order, path: shop/order"))
        client(
            "POST", "/api/schedules", {"path": "reports/daily", "name": "reports.daily", "cron": "0 5 * * *"}
        )


@pytest.fixture
def shell(server: Server, module_database: str, tmp_path: Path) -> Iterator[Shell]:
    home = server.runtime.settings.home
    programs = Path(sys.executable).parent
    made = Shell(
        tmp_path,
        {
            "HOME": str(home.parent),
            "NOETL_HOME": str(home),
            "NOETL_DATABASE_URL": module_database,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
    )
    setup = next(one for one in examples(DOCS / "api.md") if "command curl" in one.command)
    made.run(setup.command.replace("noetl server start --detach", "").replace(ADDRESS, server.address))
    yield made
    made.close()


@pytest.mark.parametrize("reading", READINGS)
def test_the_examples_of_a_page_do_what_the_page_says(server, shell, reading):
    furnish(server, shell, reading)
    for page in READINGS[reading]:
        for example in examples(DOCS / page):
            if "noetl server start" not in example.command:
                check(shell, example, page)


def check(shell: Shell, example: Example, page: str) -> None:
    """What only looks is run again for a while: the engine works meanwhile."""
    looks = example.command.strip().splitlines()[-1]
    again = (" -d " not in looks and " -X " not in looks) or "/commands/claim" in looks
    told = [shell.run(example.command)]

    def right() -> bool:
        if judge(told[-1], example.shown) and again:
            told.append(shell.run(looks))
        return not judge(told[-1], example.shown)

    def wrong() -> str:
        return f"docs/{page}:{example.line}: {judge(told[-1], example.shown)}\n{example.command}\n{told[-1]}\nanything better"

    wait_until(right, wrong, seconds=PATIENCE if again else 0)


def judge(told: str, shown: Any) -> str:
    """The last line is what is shown. Without anything shown, every line that is JSON must not be a problem."""
    if shown is not None:
        try:
            return differs(json.loads(told.splitlines()[-1]), shown)
        except (ValueError, IndexError) as error:
            return f"the output is no JSON: {error}"
    return next((line for line in told.splitlines() if line.startswith('{"type":"urn:noetl:problem')), "")


def test_every_page_with_curl_is_run():
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if examples(page)}
    assert pages == {page for reading in READINGS.values() for page in reading}
    assert sum(len(examples(DOCS / page)) for page in READINGS["api"]) > 25


@pytest.mark.parametrize(
    ("found", "shown", "fits"),
    [
        ({"a": 1, "b": "x"}, '{"a": 7, …}', True),
        ({"a": 1, "b": "x"}, '{"a": 7}', False),
        ({"a": "1"}, '{"a": 7}', False),
        ({"a": True}, '{"a": 1}', False),
        ({"a": "abc", "l": [1, 2]}, '{"a": "ab…", "l": [0, …]}', True),
        ({"l": [1, 2]}, '{"l": [0]}', False),
        ({"l": [{"k": None}]}, '{"l": [{"k": null}]}', True),
        ({"status": "running"}, '{"status": "waiting", …}', False),
        ({"m": {"x": 1}}, '{"m": {…}}', True),
        ({}, '{"a": "…"}', False),
    ],
)
def test_what_is_shown_is_compared(found, shown, fits):
    assert bool(differs(found, parse(shown))) is not fits
