"""Benchmarks: one JSON line per workload. Figures of the systems are taken in the same run on the same machine; compare ratios only.

Usage: python tests/bench/run.py [--quick] [--peer PYTHON]   (``--peer``: an interpreter that has DBOS installed)
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import tick

from noetl.domain.commands import Command
from noetl.domain.events import CommandDone, Start
from noetl.domain.outcomes import Outcome
from noetl.domain.state import ExecutionState
from noetl.dsl.compiler import compile_playbook
from noetl.engine.handle_event import handle_event
from noetl.engine.view import DELETED, View
from noetl.kinds.registry import Registry, default_registry
from noetl.runtime.local import LocalRuntime
from noetl.runtime.settings import Settings
from playbooks import chain, fan_out, routed

HERE = Path(__file__).parent


def report(workload: str, system: str = "noetl", **figures: Any) -> None:
    rounded = {
        name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()
    }
    print(json.dumps({"system": system, "workload": workload, **rounded}), flush=True)


def registry() -> Registry:
    found = default_registry()
    if "tick" not in found.names():
        found.add(tick)
    return found


class Bench:
    def __init__(self, home: Path, quick: bool) -> None:
        self.quick = quick
        self.settings = Settings.from_env({}, home=home)
        self.runtime = LocalRuntime(self.settings, registry=registry())

    def database(self) -> dict[str, float]:
        """Counters of the server: transactions and bytes of WAL."""
        with psycopg.connect(self.runtime.opened.dsn, autocommit=True) as connection:
            connection.execute("select pg_stat_clear_snapshot()")
            row = connection.execute(
                "select (select sum(xact_commit) from pg_stat_database where datname = current_database()),"
                " (select wal_bytes from pg_stat_wal)"
            ).fetchone()
        assert row is not None
        return {"commits": float(row[0]), "wal": float(row[1])}

    def run(self, text: str, count: int = 1) -> float:
        """Seconds from the first start to the last end."""
        entry = self.runtime.register(text, source_name="bench")
        started = time.perf_counter()
        wanted = [self.runtime.start(entry, {}) for _ in range(count)]
        self.runtime.run_until(wanted, timeout=300)
        taken = time.perf_counter() - started
        assert all(self.runtime.status(one) == "completed" for one in wanted)
        return taken

    def chain(self) -> None:
        steps = 20 if self.quick else 100
        self.run(chain(20))
        time.sleep(0.5)
        before = self.database()
        taken = self.run(chain(steps))
        time.sleep(1.2)
        after = self.database()
        report(
            "W1",
            steps=steps,
            ms_per_step=taken * 1000 / steps,
            commits_per_step=(after["commits"] - before["commits"]) / steps,
            wal_bytes_per_step=(after["wal"] - before["wal"]) / steps,
        )

    def single(self) -> None:
        figures = []
        for _ in range(3 if self.quick else 20):
            time.sleep(0.1)
            figures.append(self.run(chain(3)) * 1000)
        report("W3-single", p50_ms=statistics.median(figures))

    def many(self) -> None:
        count = 50 if self.quick else 1000
        taken = self.run_many(count)
        report("W3", executions=count, executions_per_s=count / taken)

    def run_many(self, count: int) -> float:
        entry = self.runtime.register(chain(3), source_name="bench")
        started = time.perf_counter()
        wanted = self.runtime.start_many(entry, [{} for _ in range(count)])
        self.runtime.run_until(wanted, timeout=300)
        return time.perf_counter() - started

    def fan(self) -> None:
        taken = {}
        sizes = (300, 1000) if self.quick else (1000, 10_000, 100_000)
        for size in sizes:
            taken[size] = self.run(fan_out(size))
            report(
                "W2",
                items=size,
                items_per_s=size / taken[size],
                max_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            )
        if 10_000 in taken:
            report("W2-scaling", ratio_10k_to_1k=taken[10_000] / taken[1000])

    def ceiling(self) -> None:
        """What the same server does without an engine."""
        with psycopg.connect(self.runtime.opened.dsn, autocommit=True) as connection:
            connection.execute("create table if not exists public.ceiling (id int, body json)")
            count = 200 if self.quick else 1000
            started = time.perf_counter()
            for number in range(count):
                connection.execute("insert into public.ceiling values (%s, '{}')", (number,))
            commits = count / (time.perf_counter() - started)
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
        report(
            "ceiling",
            system="postgres",
            commits_per_s=commits,
            unnest_rows_per_s=unnest,
            copy_rows_per_s=copied,
        )


def engine_alone(quick: bool) -> None:
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
    report("engine-alone", us_per_event=early, past_events=past, us_per_event_then=late, ratio=late / early)


def whole_process(arguments: list[str], runs: int, env: dict[str, str] | None = None) -> float:
    """Median milliseconds of a process."""
    figures = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True, env=env, timeout=120)
        figures.append((time.perf_counter() - started) * 1000)
    return statistics.median(figures)


def imports(quick: bool) -> None:
    runs = 1 if quick else 7
    bare = whole_process([sys.executable, "-c", "pass"], runs)
    engine = whole_process([sys.executable, "-c", "import noetl.services.handle_events, psycopg"], runs)
    report("import", engine_ms=engine - bare)


def start_up(home: Path, quick: bool) -> None:
    """``noetl run`` of hello world: the very first run, then warm ones."""
    playbook = home / "hello.yaml"
    playbook.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: hello}\nworkflow:\n"
        "  - step: start\n    tool: {kind: python, code: \"result = 'hello'\"}\n"
    )
    env = {**os.environ, "NOETL_HOME": str(home / "hello-home")}
    command = [str(Path(sys.executable).parent / "noetl"), "run", str(playbook), "--json"]
    first = whole_process(command, 1, env)
    report("run-hello", first_ms=first, warm_ms=whole_process(command, 1 if quick else 5, env))


def peer(python: str, dsn: str, quick: bool) -> None:
    base = {name: str(value) for name, value in psycopg.conninfo.conninfo_to_dict(dsn).items()}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop database if exists dbos_bench with (force)")
        connection.execute("create database dbos_bench")
    who = quote(base.get("user", "postgres"), safe="") + ":" + quote(base.get("password", ""), safe="")
    where = urlencode({name: base[name] for name in ("host", "port") if name in base})
    url = f"postgresql://{who}@/dbos_bench?{where}"
    sizes = ["100", "300", "100"] if quick else ["100", "1000", "300"]
    subprocess.run([python, str(HERE / "dbos_peer.py"), url, *sizes], check=True, timeout=600)


def guarded(name: str, work: Callable[[], None]) -> None:
    """One workload that fails is reported and does not hide the others; the exit code tells."""
    try:
        work()
    except Exception as error:
        FAILED.append(name)
        report(name, error=f"{type(error).__name__}: {error}")


FAILED: list[str] = []


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peer", help="an interpreter that has DBOS installed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="noetl-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        guarded("engine-alone", lambda: engine_alone(options.quick))
        guarded("import", lambda: imports(options.quick))
        bench = Bench(home, options.quick)
        with bench.runtime:
            guarded("ceiling", bench.ceiling)
            guarded("W1", bench.chain)
            guarded("W3-single", bench.single)
            guarded("W3", bench.many)
            guarded("W2", bench.fan)
            if options.peer:
                guarded("dbos", lambda: peer(options.peer, bench.runtime.opened.dsn, options.quick))
        guarded("run-hello", lambda: start_up(home, options.quick))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
