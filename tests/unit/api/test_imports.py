"""A function that answers requests starts quickly: what registering alone needs is loaded by registering alone."""

from __future__ import annotations

import subprocess
import sys


def test_the_routes_load_no_compiler():
    code = "import noetl.api.http.gateway, noetl.runtime.deployed_catalog, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(result.stdout.split())
    assert "msgspec" in found, "the probe sees what was imported"
    assert not found & {
        "aws_lambda_powertools",
        "pydantic",
        "yaml",
        "jinja2",
        "jsonschema",
        "duckdb",
        "rich",
        "typer",
    }
