"""Commands that only look start quickly: what secrets, requests, playbooks and tables need is loaded by those who use it."""

from __future__ import annotations

import subprocess
import sys

LOOKING = "noetl.cli.app, noetl.cli.reading, noetl.runtime.bootstrap"
HEAVY = {
    "boto3",
    "botocore",
    "cryptography",
    "duckdb",
    "http.client",
    "jinja2",
    "jsonschema",
    "noetl.dsl.loader",
    "noetl.kinds.http.client",
    "pydantic",
    "rich",
    "urllib3",
    "waitress",
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
