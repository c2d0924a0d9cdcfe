"""Load on a real ``noetl serve``: clients that start, poll, patch, list and cancel, while the database is taken away and given back.

Usage: python -m tests.bench.load.run [--clients 200] [--seconds 120] [--outages 3] [--pause 0]

Prints one JSON document and ends with 1 when anything happened that must not: a 5xx that is no 503 with Retry-After (or one while the
database was there), an accepted start that is not exactly one execution, an execution that does not end, a server that does not
answer /health, that says it is ready while it is not, or that keeps growing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.load.client import Connection
from tests.bench.load.clients import PLAYBOOKS, Client, Load
from tests.bench.load.served import Served

UNREACHABLE = "503 database_unreachable"


@dataclass(frozen=True, slots=True)
class Plan:
    """``outages``: how often the database goes away, by turns cleanly and as in a crash, for ``down`` seconds (least, most).
    ``settle``: seconds after each during which 503 is still right, because clients asked before it was back. ``accepted``: how many
    starts are accepted at least; on a slow machine that takes longer than ``seconds``."""

    clients: int = 200
    seconds: float = 120.0
    accepted: int = 0
    outages: int = 0
    down: tuple[float, float] = (1.0, 5.0)
    settle: float = 2.0
    pause: float = 0.0
    patience: float = 120.0


async def drive(served: Served, plan: Plan) -> dict[str, Any]:
    """Run the plan. The figures; ``wrong`` lists what must not have happened."""
    until = time.monotonic() + plan.seconds
    load = Load(served.host, served.port, served.token, until, plan.pause, plan.accepted, plan.outages)
    async with load.connection() as http:
        await _register(http)
    before = served.footprint()
    halfway: dict[str, float] = {}
    watch = asyncio.create_task(_watch(served, load))
    outages = asyncio.create_task(_outages(served, load, plan))
    clients = [asyncio.create_task(Client(load, number).run()) for number in range(plan.clients)]
    await asyncio.sleep(plan.seconds / 2)
    halfway = served.footprint()
    await asyncio.gather(*clients)
    await outages
    after = served.footprint()
    left = await asyncio.to_thread(served.wait_until_all_ended, 2.0)
    ended = await _end(load, served, plan)
    watch.cancel()
    lost = compare(load, await asyncio.to_thread(served.marks))
    figures = _figures(load, plan)
    return {
        **figures,
        "memory": {"before": before, "halfway": halfway, "after": after, "left_then": len(left)},
        "wrong": [*load.tally.wrong, *ended, *lost],
    }


async def _register(http: Connection) -> None:
    for text in PLAYBOOKS:
        answer = await http.ask("POST", "/api/catalog/register", {"content": text})
        if answer.status not in (200, 201):
            raise RuntimeError(answer.body.decode())


async def _end(load: Load, served: Served, plan: Plan) -> list[str]:
    """Approve what still waits at its gate (its client stopped before), and see that everything ends."""
    async with load.connection() as http:
        waiting = await http.ask("GET", "/api/executions?status=waiting&limit=500")
        while waiting.json["executions"]:
            for one in waiting.json["executions"]:
                place = f"/api/executions/{one['execution_id']}/ctx"
                await http.ask("PATCH", place, {"patch": {"approved": True}})
            await asyncio.sleep(0.2)
            waiting = await http.ask("GET", "/api/executions?status=waiting&limit=500")
    left = await asyncio.to_thread(served.wait_until_all_ended, plan.patience)
    return [f"execution {execution_id} is {status} and does not end" for execution_id, status in left]


def compare(load: Load, marks: dict[str, list[str]]) -> list[str]:
    """What the database says against what clients were told."""
    wrong = []
    for asked in load.asked:
        found = marks.get(asked.mark, [])
        if asked.ids and (len(found) != 1 or sorted(asked.ids) != found):
            wrong.append(f"{asked.mark} (key {asked.key!r}) was told {sorted(asked.ids)}; there are {found}")
        elif len(found) > 1:
            wrong.append(f"{asked.mark} was asked for {asked.tries} time(s); there are {found}")
    unknown = marks.keys() - {asked.mark for asked in load.asked}
    return [*wrong[:50], *(f"nobody asked for {mark}" for mark in sorted(unknown)[:10])]


def _figures(load: Load, plan: Plan) -> dict[str, Any]:
    accepted = load.accepted
    by_status: Counter[str] = Counter()
    for (_, status), count in load.tally.statuses.items():
        by_status[str(status)] += count
    requests = sum(by_status.values())
    return {
        "clients": plan.clients,
        "seconds": plan.seconds,
        "requests": requests,
        "requests_per_s": round(requests / plan.seconds, 1),
        "starts_accepted": accepted,
        "starts_per_s": round(accepted / plan.seconds, 1),
        "statuses": dict(sorted(by_status.items())),
        "problems": dict(load.tally.codes.most_common()),
        "connections_lost": load.tally.broken,
        "milliseconds": load.tally.figures(),
    }


async def _watch(served: Served, load: Load) -> None:
    """The server is alive all the time, and says whether it is ready."""
    http = Connection(served.host, served.port)
    while True:
        before = load.away
        began = time.perf_counter()
        health = await http.ask("GET", "/health")
        load.tally.note("health", health, began)
        ready = await http.ask("GET", "/ready")
        if health.status != 200:
            load.tally.complain(f"/health: {health.status} {health.body[:200]!r}")
        if ready.status != 200 and not (before or load.away):
            load.tally.complain(f"/ready: {ready.status} {ready.body[:200]!r} while the database is there")
        if ready.status not in (200, 503):
            load.tally.complain(f"/ready: {ready.status} {ready.body[:200]!r}")
        await asyncio.sleep(0.1)


async def _outages(served: Served, load: Load, plan: Plan) -> None:
    choice = random.Random(plan.outages)
    for number in range(plan.outages):
        await asyncio.sleep(plan.seconds / (plan.outages + 1) - plan.down[1] / 2)
        load.away = True
        met = load.tally.codes[UNREACHABLE]
        await asyncio.to_thread(served.stop_database, crash=number % 2 == 0)
        await asyncio.sleep(choice.uniform(*plan.down))
        deadline = time.monotonic() + plan.patience
        while load.tally.codes[UNREACHABLE] == met and time.monotonic() < deadline:
            await asyncio.sleep(0.05)  # an outage that no client meets shows nothing
        await _unready(served, load)
        await asyncio.to_thread(served.start_database)
        await _back(load)
        await asyncio.sleep(plan.settle)
        load.away = False
        load.outages -= 1


async def _unready(served: Served, load: Load) -> None:
    async with Connection(served.host, served.port) as http:
        ready = await http.ask("GET", "/ready")
    if ready.status != 503 or not ready.headers.get("retry-after"):
        load.tally.complain(f"/ready: {ready.status} {ready.body[:200]!r} while the database is away")


async def _back(load: Load) -> None:
    """The server finds its database again by itself, soon."""
    began = time.monotonic()
    async with load.connection() as http:
        while (await http.ask("GET", "/api/executions?limit=1")).status != 200:
            if time.monotonic() > began + 20:
                load.tally.complain("the server does not find its database again")
                return
            await asyncio.sleep(0.1)


def main(out: Callable[[str], Any] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--outages", type=int, default=0)
    parser.add_argument(
        "--pause", type=float, default=0.0, help="most seconds between two stories of a client"
    )
    wish = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="noetl-load-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        with Served(home) as served:
            plan = Plan(wish.clients, wish.seconds, wish.outages, pause=wish.pause)
            found = asyncio.run(drive(served, plan))
    out(json.dumps(found, indent=1))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
