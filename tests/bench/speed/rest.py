"""What has no kind and no peer: the engine alone, imports, what Postgres does without an engine, and the command line."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from noetl.domain.commands import Command
from noetl.domain.events import CommandDone, Start
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.state import ExecutionState
from noetl.dsl.compiler import compile_playbook
from noetl.engine.handle_event import handle_event
from noetl.engine.scopes.slot_view import DELETED, View
from tests.bench.playbooks import routed
from tests.bench.speed.figures import Book
from tests.bench.speed.noetl import registry


def engine_alone(book: Book, quick: bool) -> None:
    """``handle_event`` on a 50-step program: after few and after 100,000 past events (2,000 when quick)."""
    past, many = (2_000, 100) if quick else (100_000, 1_000)
    program = compile_playbook(routed(50), source_name="bench", kinds=registry()).program
    view = View({}, frozenset(), frozenset(("args", "workload", "ctx", "vars", "step")))

    def step(state: ExecutionState, event: Any) -> tuple[ExecutionState, Command]:
        decision = handle_event(program, state, event, 0.0, view)
        for key, value in decision.slots.items():
            if value is DELETED:
                view.slots.pop(key, None)
            else:
                view.slots[key] = value
        return decision.state, decision.issue[0]

    state, command = step(ExecutionState(), Start(1, "start", program.hash))

    def turn(count: int) -> float:
        nonlocal state, command
        started = time.perf_counter()
        for _ in range(count):
            event = CommandDone(
                1,
                "x",
                program.hash,
                command.command_id,
                1,
                0,
                command.run,
                command.step,
                Outcome("ok", result={"a": 1}),
            )
            state, command = step(state, event)
        return (time.perf_counter() - started) / count * 1e6

    turn(200)
    early = min(turn(many) for _ in range(5))
    turn(past - 200 - 5 * many)
    late = min(turn(many) for _ in range(5))
    book.note("noetl", "engine-alone", "none", "early", "us/event", [early], size=many)
    book.note("noetl", "engine-alone", "none", "late", "us/event", [late], size=past)


def whole_process(arguments: list[str], runs: int, env: dict[str, str] | None = None) -> float:
    """Median milliseconds of a process."""
    figures = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True, env=env, timeout=120)
        figures.append((time.perf_counter() - started) * 1000)
    return statistics.median(figures)


def imports(book: Book, quick: bool) -> None:
    runs = 1 if quick else 7
    bare = whole_process([sys.executable, "-c", "pass"], runs)
    engine = whole_process(
        [sys.executable, "-c", "import noetl.services.orchestrator.handle_events, psycopg"], runs
    )
    book.note("noetl", "import", "none", "engine", "ms", [engine - bare])


COMMANDS = 10
"""Runs of each command."""


def start_up(book: Book, home: Path, quick: bool) -> None:
    """``noetl run`` of hello world: the very first run, then warm ones, and commands that only look."""
    playbook = home / "hello.yaml"
    playbook.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: hello}\nworkflow:\n"
        "  - step: start\n    tool: {kind: python, code: \"result = 'hello'\"}\n"
    )
    # A user's second command reads compiled modules.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["NOETL_HOME"] = str(home if quick else home / "hello-home")
    noetl = str(Path(sys.executable).parent / "noetl")
    run = [noetl, "run", str(playbook), "--json"]
    first = whole_process(run, 1, env)
    book.note("noetl", "run-hello", "python", "first", "ms", [first])
    if quick:
        return
    commands = {
        "warm": run,
        "list": [noetl, "list"],
        "status": [noetl, "status"],
        "help": [noetl, "--help"],
        "validate": [noetl, "validate", str(playbook)],
    }
    for name, command in commands.items():
        whole_process(command, 1, env)
        walls, cpus = zip(*(times_of(command, env) for _ in range(COMMANDS)), strict=True)
        book.note("noetl", "run-hello", "python", name, "ms", walls)
        book.note("noetl", "run-hello", "python", f"{name} cpu", "ms", cpus)


def times_of(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Milliseconds of a process: those that passed, and processor time with that of the processes it waited for."""
    before, started = os.times(), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=env, timeout=120)
    passed, after = time.perf_counter() - started, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return passed * 1000, used * 1000


def ceiling(book: Book, dsn: str, quick: bool) -> None:
    """What the same server does without an engine."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table if not exists public.ceiling (id int, body json)")
        count = 200 if quick else 1000
        commits = []
        for _ in range(5):
            started = time.perf_counter()
            for number in range(count // 5):
                connection.execute("insert into public.ceiling values (%s, '{}')", (number,))
            commits.append((time.perf_counter() - started) * 1000 / (count // 5))
        started = time.perf_counter()
        for _ in range(10):
            connection.execute(
                "insert into public.ceiling select i, '{}' from unnest(%s::int[]) i",
                (list(range(count)),),
            )
        unnest = 10 * count / (time.perf_counter() - started)
        started = time.perf_counter()
        with connection.cursor().copy("copy public.ceiling from stdin") as copy:
            for number in range(20 * count):
                copy.write_row((number, "{}"))
        copied = 20 * count / (time.perf_counter() - started)
        connection.execute("drop table public.ceiling")
    book.note("postgres", "ceiling", "none", "commit", "ms", commits, size=count // 5)
    book.note("postgres", "ceiling", "none", "unnest", "rows/s", [unnest])
    book.note("postgres", "ceiling", "none", "copy", "rows/s", [copied])
