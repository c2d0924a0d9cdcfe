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
from noetl.domain.outcomes import Outcome
from noetl.domain.state import ExecutionState
from noetl.dsl.compiler import compile_playbook
from noetl.engine.handle_event import handle_event
from noetl.engine.view import DELETED, View
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
    engine = whole_process([sys.executable, "-c", "import noetl.services.handle_events, psycopg"], runs)
    book.note("noetl", "import", "none", "engine", "ms", [engine - bare])


def start_up(book: Book, home: Path, quick: bool) -> None:
    """``noetl run`` of hello world: the very first run, then warm ones."""
    playbook = home / "hello.yaml"
    playbook.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: hello}\nworkflow:\n"
        "  - step: start\n    tool: {kind: python, code: \"result = 'hello'\"}\n"
    )
    env = {**os.environ, "NOETL_HOME": str(home if quick else home / "hello-home")}
    command = [str(Path(sys.executable).parent / "noetl"), "run", str(playbook), "--json"]
    first = whole_process(command, 1, env)
    book.note("noetl", "run-hello", "python", "first", "ms", [first])
    if not quick:
        warm = whole_process(command, 5, env)
        book.note("noetl", "run-hello", "python", "warm", "ms", [warm])


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
