"""How much more two ``noetl serve`` processes do than one, over a Postgres that runs apart from both.

Usage: python -m tests.bench.two_processes [--json] [--quick]

``waiting``: three ``http`` steps whose server takes 100 ms to answer, with eight workers in each process. Processors are idle, so the ratio
says how evenly the processes share the work. ``computing``: three ``python`` steps, each process on a core of its own; Postgres and the
clients may use every core. What the cores did meanwhile says whether the machine is large enough for the second process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from noetl.adapters.embedded import processes
from noetl.adapters.embedded.server import ENGINE, SETTINGS
from tests.bench.lifeline import ending
from tests.bench.load.served import Served
from tests.bench.playbooks import HEAD, chain
from tests.bench.run import home_in
from tests.bench.speed import processor_time
from tests.bench.speed.door import NoetlDoor, Visit, visit
from tests.bench.speed.noetl import step_server
from tests.servers import open_for_tests

PAUSE_MS, WORKERS, CLIENTS, STEPS = 100, 8, 32, 3
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Ratio:
    """What both did, in executions a second: the median of the runs.

    ``busy``: share of each core that was in use while two processes ran. ``postgres``: cores that Postgres took of these.
    """

    workload: str
    one: float
    two: float
    ratio: float
    busy: list[float]
    postgres: float


def main() -> int:
    parser = argparse.ArgumentParser(description="Two processes beside one.")
    parser.add_argument("--json", action="store_true", help="a JSON line per workload")
    parser.add_argument("--quick", action="store_true", help="see that it runs")
    options = parser.parse_args()
    seconds, runs = (1.0, 1) if options.quick else (8.0, 3)
    with (
        tempfile.TemporaryDirectory(prefix="noetl-two-", ignore_cleanup_errors=True) as folder,
        ending(home_in(Path(folder))),
        step_server() as url,
    ):
        home = home_in(Path(folder))
        server = open_for_tests(home / "postgres", SETTINGS)
        try:
            for name, text, env, cores in (
                ("waiting", waiting(url), {"NOETL_IO_WORKERS": str(WORKERS)}, ()),
                ("computing", chain(STEPS, "python"), {"NOETL_PYTHON_WORKERS": "2"}, tuple(sorted(os.sched_getaffinity(0)))),
            ):  # fmt: skip
                env |= {"NOETL_DATABASE_URL": server.dsn(ENGINE), "NOETL_HTTP_ALLOW": "127.0.0.1"}
                found = compare(name, text, partial(served, home, env, cores), seconds, runs)
                print(json.dumps(asdict(found)) if options.json else sentence(found), flush=True)
        finally:
            processes.stop(home / "postgres")
    return 0


def waiting(url: str) -> str:
    """Three steps that wait for their server."""
    lines = [HEAD.format(name="waiting"), "workflow:\n"]
    for number in range(STEPS):
        name = "start" if number == 0 else f"s{number}"
        lines.append(
            f'  - step: {name}\n    tool: {{kind: http, url: "{url}", params: {{pause: {PAUSE_MS}}}}}\n'
        )
        if number + 1 < STEPS:
            lines.append(f"    next: s{number + 1}\n")
    return "".join(lines)


@contextmanager
def served(
    home: Path, env: dict[str, str], cores: Sequence[int], number: int
) -> Iterator[list[tuple[str, str]]]:
    """Addresses and tokens of so many servers, each on a core of its own where ``cores`` are given."""
    everywhere = os.sched_getaffinity(0)
    with ExitStack() as stack:
        found = []
        for index in range(number):
            folder = home / f"serve{index}"
            folder.mkdir(exist_ok=True)
            if cores:
                os.sched_setaffinity(0, {cores[index % len(cores)]})
            try:
                one = stack.enter_context(Served(folder, env=env))
            finally:
                os.sched_setaffinity(0, everywhere)
            found.append((one.address, one.token))
        yield found


def compare(
    name: str,
    text: str,
    start: Callable[[int], AbstractContextManager[list[tuple[str, str]]]],
    seconds: float,
    runs: int,
) -> Ratio:
    rates: dict[int, float] = {}
    busy, postgres = [], 0.0
    for number in (1, 2):
        with start(number) as doors:
            path = NoetlDoor(*doors[0]).register(text)
            first = rate(doors, path, CLIENTS)  # starts what is started once
            count = max(CLIENTS, int(first * seconds))
            before, began = cores_and_postgres(), time.monotonic()
            rates[number] = statistics.median(rate(doors, path, count) for _ in range(runs))
            taken, after = time.monotonic() - began, cores_and_postgres()
        busy = [round((b - a) / TICK / taken, 2) for a, b in zip(before[0], after[0], strict=True)]
        postgres = round((after[1] - before[1]) / taken, 2)
    return Ratio(name, round(rates[1], 1), round(rates[2], 1), round(rates[2] / rates[1], 2), busy, postgres)


def rate(doors: Sequence[tuple[str, str]], path: str, count: int) -> float:
    """Executions a second, when clients of every door start and wait for ``count`` in all."""
    visits: list[Visit] = []

    def some(address: str, token: str) -> None:
        ask = NoetlDoor(address, token).asking(path)
        visits.append(visit(address, token, ask, CLIENTS // len(doors), count // len(doors)))

    began = time.perf_counter()
    threads = [threading.Thread(target=some, args=door) for door in doors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sum(len(one.milliseconds) for one in visits)
    if len(visits) < len(doors):
        raise RuntimeError("the clients of a server failed")
    return done / (time.perf_counter() - began)


def cores_and_postgres() -> tuple[list[int], float]:
    """Ticks that each core was busy since the system started, and seconds of the processes of Postgres (Linux)."""
    lines = Path("/proc/stat").read_text().splitlines()
    numbers = [
        [int(one) for one in line.split()[1:]] for line in lines if line[:3] == "cpu" and line[3].isdigit()
    ]
    of_postgres = (one for one in processor_time.processes().values() if one.name.startswith("postgres"))
    return [sum(one) - one[3] - one[4] for one in numbers], sum(one.own + one.ended for one in of_postgres)


def sentence(found: Ratio) -> str:
    cores = ", ".join(f"{one:.0%}" for one in found.busy)
    words = (
        f"{found.workload}: {found.one:g} executions/s by one process, {found.two:g} by two: {found.ratio:g} ×;"
        f" cores {cores} in use, {found.postgres:g} of them by Postgres"
    )
    return words + ("; the machine is too small for two" if min(found.busy) > 0.85 else "")


if __name__ == "__main__":
    sys.exit(main())
