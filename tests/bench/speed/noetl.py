"""The workloads on this engine: in this process, and through a ``noetl serve`` of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg

from noetl.adapters.embedded.server import SETTINGS
from noetl.kinds.registry import Registry
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from tests.bench import tick
from tests.bench.load.served import Served
from tests.bench.playbooks import chain, loop
from tests.bench.speed import processor_time
from tests.bench.speed.door import Ask, NoetlDoor, visit
from tests.bench.speed.figures import Book
from tests.servers import open_for_tests

TIMEOUT = 600


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each workload. ``seconds``: about how long many executions may take, whose number follows from a first try.
    ``few``: items of a parallel loop for systems that need long for many. ``pause``: seconds before each execution that runs alone, the same
    for each system: nothing of the one before is under way, and no processor is still warm from it."""

    runs: int = 3
    steps: int = 100
    singles: int = 20
    most: int = 1000
    least: int = 100
    seconds: float = 5.0
    parallel: int = 10_000
    few: int = 1_000
    sequential: int = 1_000
    clients: tuple[int, ...] = (1, 16, 64)
    pause: float = 0.1

    def count(self, per_second: float) -> int:
        return max(self.least, min(self.most, int(per_second * self.seconds)))


QUICK = Sizes(1, 5, 2, 6, 4, 0.2, 50, 20, 10, (1, 4))


@contextmanager
def step_server() -> Iterator[str]:
    """The address of what ``http`` steps call, in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("step_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class InProcess:
    """The engine in this process."""

    def __init__(self, runtime: LocalRuntime, book: Book, sizes: Sizes, url: str) -> None:
        self.runtime, self.book, self.sizes, self.url = runtime, book, sizes, url

    def measure(self, kind: str) -> None:
        for name, work in (
            ("chain", self.chain),
            ("alone", self.alone),
            ("many", self.many),
            ("parallel", self.parallel),
            ("sequential", self.sequential),
        ):
            self.book.guarded(f"noetl {name} {kind}", partial(work, kind))

    def chain(self, kind: str) -> None:
        steps, taken, commits, wal = self.sizes.steps, [], [], []
        text = chain(steps, kind, self.url)
        self.run(text)
        for _ in range(self.sizes.runs):
            before = self._database()
            taken.append(self.run(text) * 1000 / steps)
            after = self._database()
            commits.append((after[0] - before[0]) / steps)
            wal.append((after[1] - before[1]) / steps)
        for measure, unit, values in (
            ("per step", "ms", taken),
            ("commits", "commits/step", commits),
            ("wal", "bytes/step", wal),
        ):
            self.book.note("noetl", "chain", kind, measure, unit, values, size=steps)

    def alone(self, kind: str) -> None:
        text = chain(3, kind, self.url)
        values = []
        for _ in range(self.sizes.singles):
            time.sleep(self.sizes.pause)
            values.append(self.run(text) * 1000)
        self.book.note("noetl", "alone", kind, "p50", "ms", values, size=3)

    def many(self, kind: str) -> None:
        text = chain(3, kind, self.url)
        count = self.sizes.count(self.sizes.least / self.run(text, self.sizes.least))
        rates, used = self._rates(text, count, count)
        self.book.note("noetl", "many", kind, "rate", "executions/s", rates, size=count)
        self._note_processors("many", kind, used, count)

    def parallel(self, kind: str) -> None:
        items = self.sizes.parallel
        self.run(loop(self.sizes.few, kind, "parallel", self.url))
        text = loop(items, kind, "parallel", self.url)
        rates, used = self._rates(text, 1, items)
        self.book.note("noetl", "parallel", kind, "rate", "items/s", rates, size=items)
        self._note_processors("parallel", kind, used, items)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.book.note("noetl", "parallel", kind, "peak memory", "MB", [memory], size=items)

    def sequential(self, kind: str) -> None:
        items = self.sizes.sequential
        text = loop(items, kind, "sequential", self.url)
        rates = [items / self.run(text) for _ in range(self.sizes.runs)]
        self.book.note("noetl", "sequential", kind, "rate", "items/s", rates, size=items)

    def _rates(self, text: str, count: int, size: int) -> tuple[list[float], list[Counter[str]]]:
        """Rates of the runs, and the seconds of processor time of each, by group."""
        database = processor_time.first_of_postgres(self.runtime.settings.home)
        rates, used = [], []
        for _ in range(self.sizes.runs):
            before = processor_time.seconds(processor_time.processes(), os.getpid(), database)
            rates.append(size / self.run(text, count))
            after = processor_time.seconds(processor_time.processes(), os.getpid(), database)
            used.append(Counter({group: after[group] - before[group] for group in processor_time.GROUPS}))
        return rates, used

    def _note_processors(self, workload: str, kind: str, used: list[Counter[str]], size: int) -> None:
        for group in processor_time.GROUPS:
            values = [max(0.0, one[group]) * 1000 / size for one in used]
            self.book.note("noetl", workload, kind, f"cpu {group}", "ms", values, size=size)

    def run(self, text: str, count: int = 1) -> float:
        """Seconds from the first start to the last end."""
        entry = self.runtime.register(text, source_name="bench")
        began = time.perf_counter()
        wanted = self.runtime.start_many(entry, [{} for _ in range(count)])
        self.runtime.run_until(wanted, timeout=TIMEOUT)
        taken = time.perf_counter() - began
        if wrong := [one for one in wanted if self.runtime.status(one) != "completed"]:
            raise RuntimeError(
                f"{len(wrong)} of {count} executions did not complete, the first is {wrong[0]}"
            )
        return taken

    def _database(self) -> tuple[float, float]:
        """Transactions and bytes of WAL so far. Sessions tell theirs once a second, so there is a pause."""
        time.sleep(1.2)
        with psycopg.connect(self.runtime.opened.dsn, autocommit=True) as connection:
            row = connection.execute(
                "select (select sum(xact_commit) from pg_stat_database where datname = current_database()),"
                " (select wal_bytes from pg_stat_wal)"
            ).fetchone()
        assert row is not None
        return float(row[0]), float(row[1])


def registry() -> Registry:
    """The kinds, with ``tick``."""
    found = Registry()
    found.add(tick)
    return found


def in_process(home: Path) -> LocalRuntime:
    """The engine over the embedded Postgres of ``home``, whose role may make databases: DBOS gets one of its own beside it."""
    open_for_tests(home / "postgres", SETTINGS).stop()
    return LocalRuntime(Settings.from_env({}, home=home), registry=registry())


def serve(home: Path, book: Book, sizes: Sizes, kinds: Sequence[str], url: str) -> None:
    """The workloads through the API. ``home``: of a runtime that is closed."""
    module = "tests.bench.speed.serve_with_tick"
    with Served(home, module=module, env={"NOETL_HTTP_ALLOW": "127.0.0.1"}) as served:
        door = NoetlDoor(served.address, served.token)
        way = "wait=" if door.waits else "polling"
        for kind in kinds:
            check_sum(door, kind, url)
            for clients in sizes.clients:
                ask = door.asking(door.register(chain(3, kind, url)))
                work = partial(
                    at_door, book, "noetl", kind, door.address, door.token, ask, clients, sizes, way
                )
                book.guarded(f"noetl door {kind} {clients}", work)
                if kind == "tick":
                    book.guarded(f"noetl starts {clients}", partial(starts, book, door, clients, sizes))
            through(book, door, kind, sizes, url, way)


def starts(book: Book, door: NoetlDoor, clients: int, sizes: Sizes) -> None:
    """Starts that are answered when they are written; the executions run meanwhile, and end before the next measure."""
    path = door.register(chain(1, "tick"))
    ask = door.starting(path)
    count = sizes.count(visit(door.address, door.token, ask, clients, sizes.least // 4).per_second)
    rates = []
    for _ in range(sizes.runs):
        rates.append(visit(door.address, door.token, ask, clients, count).per_second)
        door.result(path)
    book.note("noetl", "starts", "tick", "rate", "starts/s", rates, clients=clients, size=count)


def check_sum(door: NoetlDoor, kind: str, url: str) -> None:
    """Three steps that each add one come to three, where a step adds anything."""
    found = json.dumps(door.result(door.register(chain(3, kind, url))))
    if kind != "tick" and '"value": 3' not in found:
        raise RuntimeError(f"three steps of kind {kind} gave {found}, and not a value of 3")


def through(book: Book, door: NoetlDoor, kind: str, sizes: Sizes, url: str, way: str) -> None:
    """A chain and loops over HTTP, by one client."""
    steps, items, one_by_one = sizes.steps, sizes.parallel, sizes.sequential

    def seconds(text: str) -> list[float]:
        path = door.register(text)
        return [visit(door.address, door.token, door.asking(path), 1, 1).seconds for _ in range(sizes.runs)]

    def chained() -> None:
        values = [one * 1000 / steps for one in seconds(chain(steps, kind, url))]
        book.note("noetl", "door-chain", kind, "per step", "ms", values, clients=1, size=steps, way=way)

    def looped(mode: str, count: int) -> None:
        rates = [count / one for one in seconds(loop(count, kind, mode, url))]
        book.note("noetl", f"door-{mode}", kind, "rate", "items/s", rates, clients=1, size=count, way=way)

    book.guarded(f"noetl door-chain {kind}", chained)
    book.guarded(f"noetl door-parallel {kind}", lambda: looped("parallel", items))
    book.guarded(f"noetl door-sequential {kind}", lambda: looped("sequential", one_by_one))


def at_door(
    book: Book,
    system: str,
    kind: str,
    address: str,
    token: str,
    ask: Ask,
    clients: int,
    sizes: Sizes,
    way: str = "",
) -> None:
    """Executions/s, p50 and p99 of so many clients."""
    first = visit(address, token, ask, clients, max(sizes.least // 4, clients))
    count = max(sizes.count(first.per_second), 2 * clients)
    visits = [visit(address, token, ask, clients, count) for _ in range(sizes.runs)]
    told: tuple[tuple[str, str, Callable[[int], float]], ...] = (
        ("rate", "executions/s", lambda run: visits[run].per_second),
        ("p50", "ms", lambda run: visits[run].at(0.5)),
        ("p99", "ms", lambda run: visits[run].at(0.99)),
    )
    for measure, unit, value in told:
        values = [value(run) for run in range(sizes.runs)]
        book.note(system, "door", kind, measure, unit, values, clients=clients, size=count, way=way)
