"""Runs the command line in this process, over the runtime in memory."""

from __future__ import annotations

import functools
import gc
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from noetl.cli import main
from noetl.cli.client import runtime_access
from tests.unit.cli.fake_runtime import Database, MemoryRuntime

# Typer reads the parameters of all commands for each line that it parses, which is a third of a test: a process of the suite reads each once.
typer.main.get_params_from_function = functools.cache(typer.main.get_params_from_function)


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def noetl(database: Database, monkeypatch, capsys, tmp_path) -> Callable[..., Ran]:
    """``noetl("run", "file.yaml")`` → Ran. Working folder and home are a fresh folder."""
    monkeypatch.setattr(
        runtime_access, "open_local", lambda home, *, on_log=None, takes="": MemoryRuntime(database, on_log)
    )
    monkeypatch.setattr(runtime_access, "open_reading", lambda home: MemoryRuntime(database))
    monkeypatch.setattr(runtime_access, "prepare_first_task", lambda program, home: None)
    monkeypatch.setattr(runtime_access, "kinds", lambda: database.kinds)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NOETL_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "argv", ["noetl", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        capsys.readouterr()
        # What an earlier test left in a circle is not collected here: Python would report it among the lines of the command.
        gc.disable()
        try:
            code = main.main()
        finally:
            printed = capsys.readouterr()
            gc.enable()
        return Ran(code, printed.out, printed.err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a playbook: ``write("name.yaml", steps)`` puts the head before ``steps``."""

    def put(name: str, steps: str) -> str:
        head = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: {Path(name).stem}\n  path: test/{Path(name).stem}\n"
        (tmp_path / name).write_text(head + steps)
        return name

    return put
