"""Commands that only look start quickly: what secrets, requests, playbooks and tables need is loaded by those who use it."""

from __future__ import annotations

import subprocess
import sys

LOOKING = "noetl.cli.app, noetl.cli.actions.inspect, noetl.runtime.bootstrap"
HEAVY = {
    "boto3",
    "botocore",
    "cryptography",
    "duckdb",
    "http.client",
    "jinja2",
    "jsonschema",
    "noetl.dsl.yaml_text.loader",
    "noetl.kinds.http.client",
    "pydantic",
    "rich",
    "urllib3",
    "uvicorn",
    "yaml",
}
"""Each costs a short command 15 to 200 ms."""


def loaded(modules: str) -> set[str]:
    """The modules of a process that has imported these."""
    code = f"import {modules}, sys; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_commands_that_look_load_nothing_heavy():
    found = loaded(LOOKING)
    assert "psycopg" in found, "the probe sees what was imported"
    assert sorted(found & HEAVY) == []


def test_the_server_is_started_before_what_talks_to_it_is_loaded():
    found = loaded("noetl.cli.actions.inspect, noetl.runtime.local.embedded_server")
    assert "noetl.adapters.embedded.processes" in found
    assert sorted(found & {"asyncio", "psycopg", *HEAVY}) == []


def test_reading_plain_options_loads_no_validators():
    code = (
        "import sys\n"
        "from noetl.cli.actions import inspect\n"
        "inspect.show_list = lambda wanted, *, limit, as_json, at: print(wanted.status, wanted.path, limit, as_json) or 0\n"
        "sys.argv = ['noetl', 'list', '-n', '3', '--filter', 'path=a/b', '--status', 'failed', '--json']\n"
        "from noetl.cli.main import main\n"
        "assert main() == 0\n"
        "print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told, modules = result.stdout.splitlines()
    assert told == "failed a/b 3 True"
    assert sorted(set(modules.split()) & HEAVY) == []


def test_a_command_that_looks_hardly_collects_garbage_and_one_that_goes_on_collects_as_usual():
    code = (
        "import gc, sys\n"
        "from noetl.runtime.collector import RUNNING\n"
        "told = []\n"
        "from noetl.cli.actions import inspect\n"
        "from noetl.cli.client import runtime_access\n"
        "from noetl.cli.commands import serve\n"
        "inspect.show_list = lambda *given, **named: told.append(gc.get_threshold()) or 0\n"
        "def settings(home=None):\n"
        "    told.append(gc.get_threshold())\n"
        "    raise SystemExit(0)\n"
        "runtime_access.settings = settings\n"
        "from noetl.cli.main import main\n"
        "for words in (['list'], ['serve'], ['list'], ['worker', 'start']):\n"
        "    sys.argv = ['noetl', *words]\n"
        "    main()\n"
        "print([one == RUNNING for one in told], told[0][0] > 100_000)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[False, True, False, True] True", result.stderr
