"""What a step costs the database, by counters: commits, and the WAL of each table and index.

Usage: python -m tests.bench.wal [--steps N] [--executions N] [--kind KIND] [--json]

Nothing is timed, so load on the machine changes no figure. The WAL between two positions is read with ``pg_waldump``; a record that
names several relations (a page split) counts for the first. ``full pages`` is the part that images of whole pages make up.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psycopg

from noetl.adapters.embedded import processes
from noetl.kinds.registry import Registry
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from tests.bench import tick
from tests.bench.playbooks import chain

RECORD = re.compile(r"rmgr: (\w+)\s+len \(rec/tot\):\s+(\d+)/\s*(\d+),.*? desc: (\w+)")
PLACE = re.compile(r"rel \d+/\d+/(\d+)")
IMAGE = re.compile(r"FPW")
COMMIT = "Transaction commit"


class Part(msgspec.Struct):
    """Records of one relation and kind. ``images``: bytes of whole pages among ``size``."""

    records: int = 0
    size: int = 0
    images: int = 0


class Cost(msgspec.Struct, frozen=True):
    """What ``steps`` steps cost. ``parts``: by relation and kind of record; ``disk``: bytes by relation, of tables and indexes."""

    steps: int
    executions: int
    parts: dict[str, Part]
    disk: dict[str, int]

    @property
    def commits(self) -> int:
        """Transactions that wrote something: each waits for the disk. Those that only read are not in the WAL."""
        return self.parts.get(COMMIT, Part()).records

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts.values())

    @property
    def images(self) -> int:
        return sum(part.images for part in self.parts.values())


def parse(lines: Iterator[str], names: dict[int, str]) -> dict[str, Part]:
    """Sum up the lines of ``pg_waldump``. ``names``: relations by their file; what has no name is of the server's own tables."""
    parts: dict[str, Part] = {}
    for line in lines:
        found = RECORD.search(line)
        if found is None:
            continue
        manager, alone, total, what = found.groups()
        place = PLACE.search(line)
        relation = names.get(int(place[1]), "pg_catalog") if place else manager
        part = parts.setdefault(f"{relation} {what.lower()}", Part())
        part.records += 1
        part.size += int(total)
        if IMAGE.search(line):
            part.images += int(total) - int(alone)
    return parts


class Bench:
    """A runtime over a server of its own. ``count`` says what work costs."""

    def __init__(self, home: Path) -> None:
        registry = Registry()
        registry.add(tick)
        self.runtime = LocalRuntime(Settings.from_env({}, home=home), registry=registry)
        self._data = home

    def run(self, text: str, count: int) -> None:
        entry = self.runtime.register(text, source_name="bench")
        wanted = self.runtime.start_many(entry, [{} for _ in range(count)])
        self.runtime.run_until(wanted, timeout=300)

    def count(self, steps: int, executions: int, work: Callable[[], None]) -> Cost:
        """Count over ``work``."""
        with psycopg.connect(self.runtime.opened.dsn, autocommit=True) as connection:
            disk = self._disk(connection)
            before = self._position(connection)
            work()
            after = self._position(connection)
            grown = self._disk(connection)
            names = {
                int(file): name
                for file, name in connection.execute(
                    "SELECT c.relfilenode, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                    " WHERE n.nspname = 'noetl' OR c.relname LIKE 'pg_toast%'"
                )
            }
        parts = parse(self._dump(before, after), names)
        return Cost(
            steps,
            executions,
            parts,
            {name: size - disk.get(name, 0) for name, size in grown.items() if size > disk.get(name, 0)},
        )

    @staticmethod
    def _position(connection: psycopg.Connection) -> str:
        row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return str(row[0])

    @staticmethod
    def _disk(connection: psycopg.Connection) -> dict[str, int]:
        """What stays: rows that are gone leave room for others when the server vacuums, as it does from time to time."""
        connection.execute("VACUUM noetl.execution, noetl.command, noetl.slot, noetl.event")
        rows = connection.execute(
            "SELECT relname, pg_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'noetl' AND c.relkind IN ('r', 'i')"
        )
        return {str(name): int(size) for name, size in rows}

    def _dump(self, start: str, end: str) -> Iterator[str]:
        (folder,) = self._data.glob("**/pg_wal")
        command = [str(processes.binaries() / "pg_waldump"), "-p", str(folder), "-s", start, "-e", end]
        yield from subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=300
        ).stdout.splitlines()


def table(cost: Cost) -> Iterator[str]:
    """Tell the cost for people, the largest part first."""
    yield (
        f"{cost.steps} steps of {cost.executions} executions: {cost.commits / cost.steps:.2f} commits a step, "
        f"{cost.size / cost.steps:.0f} B of WAL a step ({cost.images / cost.steps:.0f} B of them full pages)"
    )
    yield f"{'relation, record':<48}{'records/step':>14}{'B/step':>10}{'full pages':>12}"
    for name, part in sorted(cost.parts.items(), key=lambda one: -one[1].size):
        if part.size / cost.steps >= 1:
            yield (
                f"{name:<48}{part.records / cost.steps:>14.2f}{part.size / cost.steps:>10.0f}"
                f"{part.images / cost.steps:>12.0f}"
            )
    whole = sum(cost.disk.values())
    yield f"disk: {whole / cost.executions:.0f} B an execution"
    for name, size in sorted(cost.disk.items(), key=lambda one: -one[1]):
        yield f"  {name:<46}{size / cost.executions:>14.0f}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200, help="of the chain")
    parser.add_argument("--executions", type=int, default=300, help="of three steps")
    parser.add_argument("--kind", default="tick")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="noetl-wal-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        bench = Bench(home)
        with bench.runtime:
            bench.run(chain(20, options.kind), 1)
            long = bench.count(options.steps, 1, lambda: bench.run(chain(options.steps, options.kind), 1))
            bench.run(chain(3, options.kind), options.executions)
            short = bench.count(
                3 * options.executions,
                options.executions,
                lambda: bench.run(chain(3, options.kind), options.executions),
            )
    for name, cost in (("chain", long), ("many", short)):
        if options.json:
            print(json.dumps({"workload": name, "commits": cost.commits, **msgspec.to_builtins(cost)}))
        else:
            print(name, *table(cost), sep="\n", end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
