"""What every round of faults stands on: a home folder with a durable database, processes over it, and the judgement at the end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from noetl.adapters.embedded import processes
from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.embedded.locked import locked
from noetl.adapters.embedded.server import SETTINGS, EmbeddedServer
from noetl.adapters.postgres import PostgresExecutionStore
from tests.faults.runner import Plan
from tests.properties.grammar import random_playbook
from tests.properties.invariants import audit_one, check_end
from tests.properties.tools import Call
from tests.properties.workloads import FIXED, Seen, Workload, check_keys, compare, observe, undisturbed
from tests.properties.world import PLAYBOOKS, compile_all

ROOT = Path(__file__).parents[2]
SLOW = frozenset(
    f"properties/{name}"
    for name in (
        "parallel_loop",
        "sequential_loop",
        "pipeline",
        "pages",
        "timeouts",
        "withdrawn",
        "newest",
        "locks",
        "undo",
        "callbacks",
        "impatient",
    )
)
"""Workloads with long delays: time is real here. (Nobody outside answers callbacks either.)"""
RANDOM = 12
PATIENCE = 90.0


@cache
def texts() -> dict[str, str]:
    """Every playbook by path: those of the simulator, and random ones without long delays."""
    found = {f"properties/{file.stem}": file.read_text() for file in sorted(PLAYBOOKS.glob("*.yaml"))}
    for number in range(RANDOM):
        rng = random.Random(f"fault {number}")
        found[f"properties/random{number}"] = random_playbook(rng, f"random{number}", delays=(0, 0.1, 0.4))
    return found


@cache
def workloads() -> dict[str, Workload]:
    chosen = [
        one for one in FIXED if one.path not in SLOW and not (one.patched or one.cancelled or one.waits)
    ]
    chosen += [Workload(path) for path in texts() if path.startswith("properties/random")]
    return {workload.path: workload for workload in chosen}


@cache
def wanted(path: str) -> Seen:
    """What the engine makes of it in memory, undisturbed."""
    extra = tuple(text for name, text in texts().items() if name.startswith("properties/random"))
    return undisturbed(_programs(extra), workloads()[path])


@cache
def _programs(extra: tuple[str, ...]) -> Any:
    return compile_all(extra)


@dataclass
class Running:
    """A process under test. ``started``: executions it has told of."""

    process: subprocess.Popen[bytes]
    errors: Path
    started: list[int] = field(default_factory=list)
    done: bool = False

    def lines(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with suppress(msgspec.DecodeError):
                said = msgspec.json.decode(line)
                if "started" in said:
                    self.started.append(said["started"])
                self.done = self.done or said.get("done", False)
                yield said

    def wait_for(self, key: str) -> bool:
        """Read until it has told ``key``; False when it ended before."""
        return any(key in said for said in self.lines())

    def kill(self) -> None:
        self.process.kill()
        self.finish()

    def finish(self) -> int:
        """Read what is left and wait for its end."""
        for _ in self.lines():
            pass
        return self.process.wait(timeout=PATIENCE)

    def check_end(self) -> None:
        """It came to its end by itself, with everything done."""
        code = self.finish()
        told = f"exit code {code}, done: {self.done}, started: {self.started}"
        assert code == 0 and self.done, f"{told}\n{self.errors.read_text()[-20000:]}"


@dataclass
class Ground:
    """``home``: the folder of the runtime. ``server``: keeps the database up while processes die."""

    home: Path
    server: EmbeddedServer
    number: int = 0
    judged: set[int] = field(default_factory=set)
    outage: ExitStack = field(default_factory=ExitStack)

    @property
    def data(self) -> Path:
        return self.server.data

    def run(self, **plan: Any) -> Running:
        self.number += 1
        errors = self.home / f"stderr-{self.number}"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.runner"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(Plan(str(self.home), **plan)))
        process.stdin.close()
        return Running(process, errors)

    def resume(self, **plan: Any) -> None:
        """Another process goes on until everything has ended."""
        running = self.run(**plan)
        running.check_end()

    def begin(self, paths: list[str], **plan: Any) -> Running:
        return self.run(playbooks=list(texts().values()), start=[(path, {}) for path in paths], **plan)

    # --- the database ---

    def backends(self) -> list[int]:
        """Processes of the server that serve the engine's connections."""
        with psycopg.connect(self.server.dsn("postgres")) as connection:
            query = (
                "SELECT pid FROM pg_stat_activity WHERE datname = 'noetl' AND backend_type = 'client backend'"
            )
            return [row[0] for row in connection.execute(query)]

    def leader(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def stop_at_once(self) -> None:
        """As if the machine had lost its power: no shutdown, recovery at the next start, which nobody else makes."""
        self.outage.enter_context(locked(self.data))
        leader = self.leader()
        os.kill(leader, signal.SIGQUIT)
        os.waitpid(leader, 0)

    def start_again(self) -> None:
        with self.outage:
            processes.start(self.data, SETTINGS)

    def wait_until_up(self) -> None:
        """The server recovers from the death of a backend by itself."""
        until = time.monotonic() + 15.0
        while True:
            try:
                psycopg.connect(self.server.dsn("postgres")).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until, "the server does not come back"
                time.sleep(0.05)

    # --- the judgement ---

    def judge(self, paths: list[str], started: list[int]) -> None:
        """Every execution came to the end it would have come to undisturbed, and nothing is left of the disturbance.

        ``started``: executions of ``paths``, as far as they were told; what was made without being told of has to be sound as well.
        """
        store = PostgresExecutionStore(self.server.dsn())
        try:
            calls = self.calls()
            check_keys(calls)
            fresh = [info for info in store.executions(limit=100_000) if info.execution_id not in self.judged]
            for info in fresh:
                audit_one(store, info)
            check_end(store, fresh)
            kept = [key for key in store.limit_keys() if key.in_use or key.waiting]
            assert not kept, f"everybody is over, and slots are not free: {kept}"
            for path, root in zip(paths, started, strict=False):
                compare(workloads()[path], wanted(path), observe(store, self.results(), calls, root))
            self.judged.update(info.execution_id for info in fresh)
        finally:
            store.close()

    def results(self) -> FileResultStore:
        return FileResultStore(self.home / "results")

    def calls(self) -> list[Call]:
        path = self.home / "calls.jsonl"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line, type=Call) for line in lines]
