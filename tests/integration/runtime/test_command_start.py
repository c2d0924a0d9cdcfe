"""What a short command does before and after its work: modules, sign-ins, statements and processes, counted in the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello}
workflow:
  - step: start
    tool: {kind: python, code: "result = 'hello'"}
"""
PROBE = """
import gc, json, subprocess, sys, threading
from noetl.adapters.postgres import connection, migrations

def note(owner, name, kept):
    before = getattr(owner, name)
    def noted(*given, **named):
        threads.add(threading.get_ident())
        if threading.current_thread() is threading.main_thread() or kept is not statements:
            kept.append(given)
        return before(*given, **named)
    setattr(owner, name, noted)

signed, statements, processes, threads = [], [], [], set()
note(connection.Session, "__init__", signed)
note(migrations, "_connect", signed)
note(connection.Database, "run", statements)
note(subprocess.Popen, "__init__", processes)
from noetl.cli.main import main
code = main()
told = {"code": code, "signed": len(signed), "statements": [given[1] for given in statements], "modules": sorted(sys.modules)}
told["threads"] = len(threads)
told["frozen"] = gc.get_freeze_count()
print(json.dumps(told | {"processes": [" ".join(map(str, given[1])) for given in processes]}), file=sys.stderr)
"""
"""Counts what the main thread asks the database, and the sessions and processes of all threads."""
UNUSED = {
    "cryptography",
    "duckdb",
    "http.client",
    "jinja2",
    "jsonschema",
    "noetl.dsl.compiler",
    "noetl.dsl.yaml_text.loader",
    "noetl.kinds.support.params",
    "noetl.templating.expressions",
    "pydantic",
    "rich",
    "urllib3",
    "yaml",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a playbook, and a home that has run it once."""
    place = tmp_path_factory.mktemp("start")
    (place / "hello.yaml").write_text(HELLO)
    probe(place, "run", "hello.yaml")
    return place


def probe(place: Path, *words: str) -> dict[str, Any]:
    """What ``noetl WORDS`` did."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        cwd=place,
        env={**os.environ, "NOETL_HOME": str(place / "home")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    assert told["code"] == 0, done.stderr
    return told


@pytest.fixture(scope="module")
def told(place: Path) -> dict[str, Any]:
    """What a second run did."""
    return probe(place, "run", "hello.yaml")


def test_a_run_loads_no_library_that_it_does_not_use_and_looks_through_none_for_garbage(told):
    found = set(told["modules"])
    assert told["frozen"] > 10_000, "objects of modules"
    assert {"psycopg", "noetl.kinds.python", "noetl.runtime.local.process"} <= found, (
        "the probe sees what was loaded"
    )
    assert sorted(found & UNUSED) == []


def test_a_run_asks_the_database_little_and_starts_few_processes(told):
    assert told["signed"] <= 1 + told["threads"], "migrations, and at most one session for each thread"
    # The two that are left out are asked again while an execution lasts.
    asked = [name for name in told["statements"] if name not in ("main_events", "list_named")]
    assert asked == [
        *("heartbeat", "register_playbook", "playbook", "load_executions", "commit_changes"),
        *("execution_info", "step_events", "open_work", "endings", "release"),
    ]
    started = " ".join(told["processes"])
    assert started.count("/bin/postgres ") == 1
    if sys.platform == "linux":
        assert started.count("noetl_guest.probe") == 1, (
            "the layers of confinement are looked at by one thread"
        )
        # Another template takes its place when somebody mounts something on this machine at that moment.
        assert 1 <= started.count("noetl_guest.template") <= 2


@pytest.mark.parametrize(
    ("words", "statements"), [pytest.param(("list",), 2, marks=pytest.mark.full), (("status",), 6)]
)
def test_a_command_that_looks_signs_in_twice_and_loads_neither_engine_nor_worker(place, words, statements):
    told = probe(place, *words)
    assert told["signed"] == 2, "migrations, and one session"
    assert len(told["statements"]) <= statements, told["statements"]
    assert len(told["processes"]) == 1, "the server"
    loaded = set(told["modules"])
    unused = UNUSED | {
        "noetl.cli.actions.execute",
        "noetl.engine.decision",
        "noetl.runtime.local.process",
        "noetl.services.worker.run_command",
    }
    assert sorted(loaded & unused) == []
