"""How long a step takes on a deployment: a chain alone, a short execution that its client waits for, many at once, and a loop.

Usage: python -m tests.bench.latency [--home DIR]... [--rounds N] [--json] [--page]   (`make latency`)

``--home``: of a deployment that is up (`noetl local up --home DIR`); several are measured in turn, round by round, so that what else the
machine does meets all of them, and each after the first is compared with the first. Without one, a deployment of its own is brought up
and taken down. The steps are HTTP requests to a server on loopback, so that what is measured is the engine, its worker and what is
between them. ``--page`` writes the table of docs/deployment-cost.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import psycopg

from noetl.local import state
from noetl.local.layout import Layout
from tests.bench.load.client import Connection
from tests.bench.playbooks import chain, loop
from tests.bench.speed.door import visit
from tests.bench.speed.noetl import step_server
from tests.e2e.conftest import Deployment, fresh_deployment

STEPS = 20
SHORT = 3
LONG = 200
"""Steps of a chain whose WAL is counted: the start and the end of the execution are a small part of it."""
MANY = 50
ITEMS = 1000
CLIENTS = 16
WAIT = 20
PATIENCE = 60.0
ENDED = "SELECT count(*) FROM noetl.execution WHERE execution_id = ANY(%s) AND status = 'completed'"
MEASURES = {
    "step": (f"a step of a chain of {STEPS}", "ms"),
    "short": (f"{SHORT} steps, from the request to its answer", "ms"),
    "many": (f"{MANY} executions of {SHORT} steps at once", "executions/s"),
    "loop": (f"a parallel loop of {ITEMS:,} items", "items/s"),
    "wal python": (f"WAL of a step of a chain of {LONG}, with python", "bytes"),
    "wal http": (f"WAL of a step of a chain of {LONG}, with http", "bytes"),
}


@dataclass
class Place:
    """A deployment under measurement. ``found``: values by measure."""

    name: str
    deployment: Deployment
    found: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})

    def __post_init__(self) -> None:
        self.database = psycopg.connect(self.deployment.database(), autocommit=True)

    def register(self, url: str) -> None:
        contents = (
            *(chain(steps, "http", url) for steps in (STEPS, SHORT, LONG)),
            chain(LONG, "python"),
            loop(ITEMS, "noop", "parallel"),
        )
        for content in contents:
            answer = self.deployment.api("POST", "/api/catalog/register", {"content": content})
            if answer.status not in (200, 201):
                raise RuntimeError(f"the playbook was refused: {answer.body}")

    def start(self, path: str, wait: int | None = None) -> dict[str, Any]:
        query = "" if wait is None else f"?wait={wait}"
        answer = self.deployment.api("POST", f"/api/executions{query}", {"path": path})
        if answer.status != 201:
            raise RuntimeError(f"the start was refused: {answer.status} {answer.body}")
        body: dict[str, Any] = answer.body
        return body

    def run(self, path: str) -> float:
        """Run an execution to its end; return the seconds from the request to the answer."""
        began = time.perf_counter()
        told = self.start(path, WAIT)
        if told.get("status") != "completed":
            raise RuntimeError(f"the execution did not complete: {told}")
        return time.perf_counter() - began

    def step(self) -> float:
        """Milliseconds of a step, by the database's clock: from the first to the last row of the history."""
        told = self.start(_chain(STEPS), WAIT)
        query = "SELECT extract(epoch FROM max(at) - min(at)) FROM noetl.event WHERE execution_id = %s AND lane = 0"
        row = self.database.execute(query, [int(told["execution_id"])]).fetchone()
        assert row is not None
        return float(row[0]) * 1000 / STEPS

    def wal(self, kind: str) -> float:
        """Bytes of WAL that a step of a long chain takes."""
        before = self._written()
        self.run(_chain(LONG, kind))
        return (self._written() - before) / LONG

    def _written(self) -> float:
        row = self.database.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return float(row[0])

    def many(self) -> float:
        """Executions per second, from the first request to the last end. Clients keep their connections."""
        ids: list[int] = []
        url = urlsplit(self.deployment.url)

        async def ask(connection: Connection) -> None:
            answer = await connection.ask("POST", f"{url.path}/api/executions", {"path": _chain(SHORT)})
            if answer.status != 201:
                raise RuntimeError(f"the start was refused: {answer.status} {answer.body!r}")
            ids.append(int(answer.json["execution_id"]))

        began = time.perf_counter()
        visit(self.deployment.url, "", ask, CLIENTS, MANY)
        while (done := self._ended(ids)) < MANY:
            if time.perf_counter() - began > PATIENCE:
                raise RuntimeError(f"{MANY - done} of {MANY} executions have not ended after {PATIENCE:g} s")
            time.sleep(0.005)
        return MANY / (time.perf_counter() - began)

    def _ended(self, ids: Sequence[int]) -> int:
        row = self.database.execute(ENDED, [list(ids)]).fetchone()
        return int(row[0]) if row is not None else 0

    def round(self, shorts: int) -> None:
        self.found["step"].append(self.step())
        self.found["short"] += [self.run(_chain(SHORT)) * 1000 for _ in range(shorts)]
        self.found["many"].append(self.many())
        for kind in ("python", "http"):
            self.found[f"wal {kind}"].append(self.wal(kind))
        self.found["loop"].append(ITEMS / self.run(f"bench/parallel_{ITEMS}_noop"))


def _chain(steps: int, kind: str = "http") -> str:
    return f"bench/chain_{steps}_{kind}"


@contextmanager
def places(homes: Sequence[Path]) -> Iterator[list[Place]]:
    if not homes:
        with fresh_deployment() as deployment:
            yield [Place("emulator", deployment)]
        return
    found = []
    for home in homes:
        known = state.load(Layout(home / "local"))
        if known is None or known.api is None:
            raise SystemExit(f"nothing is up in {home}: noetl local up --home {home}")
        deployed = Deployment("local", known.endpoint, known.api, known.outputs, home)
        found.append(Place(str(home), deployed))
    yield found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--home", type=Path, action="append", default=[], help="of a deployment that is up; repeatable"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shorts", type=int, default=5, help="short executions in a round")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true", help="write the table of docs/deployment-cost.md")
    options = parser.parse_args()
    with step_server() as url, places(options.home) as found:
        for place in found:
            place.register(url)
            place.round(2)  # functions start cold
            for values in place.found.values():
                values.clear()
        for _ in range(options.rounds):
            for place in found:
                place.round(options.shorts)
        for place in found:
            tell(place, found[0], as_json=options.json)
        if options.page:
            write(found[-1].found)
    return 0


def tell(place: Place, first: Place, *, as_json: bool) -> None:
    for name, (about, unit) in MEASURES.items():
        value, base = median(place.found[name]), median(first.found[name])
        if as_json:
            line = {"place": place.name, "measure": name, "p50": round(value, 2), "unit": unit}
            line |= {"least": round(min(place.found[name]), 2), "most": round(max(place.found[name]), 2)}
            print(json.dumps(line | {"of_first": round(value / base, 3)}))
        else:
            beside = "" if place is first else f"   {value / base:.2f} of the first"
            print(f"{place.name}: {about}: {value:.1f} {unit}{beside}")


PAGE = Path(__file__).resolve().parents[2] / "docs" / "deployment-cost.md"
_TABLE = re.compile(r"^\| on the emulator .*?(?=^$)", re.MULTILINE | re.DOTALL)


def write(found: Mapping[str, Sequence[float]]) -> None:
    """Put the table of these values into the page."""
    text, count = _TABLE.subn(lambda _: table(found, machine()), PAGE.read_text("utf-8"))
    if count != 1:
        raise RuntimeError(f"{PAGE} has {count} tables of latency")
    PAGE.write_text(text, "utf-8")


def table(found: Mapping[str, Sequence[float]], where: str) -> str:
    """Return the rows of the page. ``where``: the machine, for the head of the table."""
    rows = [f"| on the emulator ({where}) | median | best |", "|---|---|---|"]
    for name, (about, unit) in MEASURES.items():
        values = found[name]
        best = max(values) if unit.endswith("/s") else min(values)
        rows.append(f"| {about} | {median(values):.0f} {unit} | {best:.0f} {unit} |")
    return "\n".join(rows) + "\n"


def machine() -> str:
    """Describe the machine of a measurement and its load."""
    return f"{os.cpu_count()} processors, load {os.getloadavg()[1]:.0f}"


if __name__ == "__main__":
    sys.exit(main())
