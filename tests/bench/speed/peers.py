"""The same workloads on DBOS and Restate, on this machine, in this run, each in processes that end with it; its fastest way counts."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode

import psycopg

from tests.bench.load.client import Answer, Connection
from tests.bench.speed.door import Ask, call, visit
from tests.bench.speed.figures import Book
from tests.bench.speed.noetl import Sizes, at_door
from tests.waiting import wait_until

HERE = Path(__file__).parent
KIND = "python"
MEASURES = {"chain": ("per step", "ms"), "alone": ("p50", "ms"), "many": ("rate", "executions/s")}
RATE = ("rate", "items/s")
Ways = dict[str, tuple[int, list[float]]]
"""Sizes and values of a workload, by the way that it was done in."""


def dbos(book: Book, python: str, dsn: str, sizes: Sizes) -> None:
    """``dsn``: the database server, where a database of DBOS's own is made."""
    wanted = {
        "runs": sizes.runs,
        "steps": sizes.steps,
        "singles": sizes.singles,
        "pause": sizes.pause,
        "many": sizes.most // 2,
        "parallel": sizes.few,
        "sequential": sizes.sequential,
    }
    command = [python, str(HERE / "dbos_peer.py"), _database(dsn), json.dumps(wanted)]
    found: dict[str, Ways] = {}
    with _process(command) as process:
        for line in _lines(process.stdout):
            if "door" in line:
                break
            ways = found.setdefault(line["workload"], {})
            ways[line["way"]] = (line["size"], line["values"])
        else:
            raise RuntimeError("DBOS ended before its workloads did; its message is above")
        _note(book, "dbos", found)
        for clients in sizes.clients:
            at_door(
                book, "dbos", KIND, line["door"], "", partial(call, "/three", None), clients, sizes, "FastAPI"
            )


def restate(book: Book, python: str, server: Path, home: Path, sizes: Sizes) -> None:
    """``home``: an empty folder for its data."""
    with _process([python, str(HERE / "restate_peer.py")]) as peer, _restate_server(server, home) as ports:
        ingress, admin = (f"http://127.0.0.1:{port}" for port in ports)
        wait_until(partial(_answers, admin, "GET", "/health"), "the start of Restate")
        service = next(_lines(peer.stdout))["service"]
        if not _answers(admin, "POST", "/deployments", {"uri": service}):
            raise RuntimeError(f"Restate did not take the service at {service}")
        wait_until(partial(_answers, ingress, "POST", "/bench/chain", 1), "the first answer of Restate")
        _note(book, "restate", _by_ingress(ingress, sizes))
        for clients in sizes.clients:
            ask = partial(call, "/bench/chain", 3)
            at_door(book, "restate", KIND, ingress, "", ask, clients, sizes, "ingress")


def restate_binary(folder: Path) -> Path | None:
    """The server below a folder that npm has installed it into; None where there is none."""
    found = sorted(folder.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    return found[0] if found else None


def _by_ingress(ingress: str, sizes: Sizes) -> dict[str, Ways]:
    """Its workloads have no other door than HTTP."""

    def seconds(ask: Ask, clients: int = 1, count: int = 1) -> float:
        return visit(ingress, "", ask, clients, count).seconds

    def ask(handler: str, size: int) -> Ask:
        return partial(call, f"/bench/{handler}", size)

    runs, steps, items, singles = range(sizes.runs), sizes.steps, sizes.few, sizes.singles
    single = visit(ingress, "", ask("chain", 3), 1, singles, sizes.pause).milliseconds
    clients = sizes.clients[-1]
    first = visit(ingress, "", ask("chain", 3), clients, max(sizes.least, clients))
    many = sizes.count(first.per_second)
    return {
        "chain": {"ctx.run": (steps, [seconds(ask("chain", steps)) * 1000 / steps for _ in runs])},
        "alone": {"ctx.run": (3, single)},
        "many": {
            f"{clients} clients": (many, [many / seconds(ask("chain", 3), clients, many) for _ in runs])
        },
        "parallel": {
            "child calls": (items, [items / seconds(ask("children", items)) for _ in runs]),
            "gather of ctx.run": (items, [items / seconds(ask("gathered", items)) for _ in runs]),
        },
        "sequential": {
            "ctx.run": (
                sizes.sequential,
                [sizes.sequential / seconds(ask("chain", sizes.sequential)) for _ in runs],
            )
        },
    }


def _note(book: Book, system: str, found: Mapping[str, Ways]) -> None:
    """The fastest way of each workload."""
    for workload, ways in found.items():
        measure, unit = MEASURES.get(workload, RATE)
        best = min if unit == "ms" else max
        way, (size, values) = best(ways.items(), key=lambda one: statistics.median(one[1][1]))
        book.note(system, workload, KIND, measure, unit, values, size=size, way=way)


def _database(dsn: str) -> str:
    base = {name: str(value) for name, value in psycopg.conninfo.conninfo_to_dict(dsn).items()}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop database if exists dbos_bench with (force)")
        connection.execute("create database dbos_bench")
    who = quote(base.get("user", "postgres"), safe="") + ":" + quote(base.get("password", ""), safe="")
    return f"postgresql://{who}@/dbos_bench?" + urlencode(
        {name: base[name] for name in ("host", "port") if name in base}
    )


@contextmanager
def _restate_server(server: Path, home: Path) -> Iterator[tuple[int, int]]:
    """Ports of its ingress and its administration."""
    node, ingress, admin = (_free_port() for _ in range(3))
    env = {
        **os.environ,
        "RESTATE_BASE_DIR": str(home),
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_ADVERTISED_HOST": "127.0.0.1",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_INGRESS__BIND_PORT": str(ingress),
        "RESTATE_ADMIN__BIND_PORT": str(admin),
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "error",
        "RESTATE_ADMIN__DISABLE_WEB_UI": "true",
        "DO_NOT_TRACK": "1",
    }
    log = home / "server.log"
    with log.open("wb") as told, _process([str(server), "--no-logo"], env, told):
        yield ingress, admin


@contextmanager
def _process(
    command: list[str], env: Mapping[str, str] | None = None, log: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block: asked by the end of its input and a signal, then killed. What it prints is read from it, or
    goes to ``log``."""
    told = (subprocess.PIPE, None) if log is None else (log, log)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=told[0], stderr=told[1], text=True, env=env
    ) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def _lines(stream: IO[str] | None) -> Iterator[dict[str, Any]]:
    """The JSON objects among the lines that a process prints."""
    assert stream is not None
    return (json.loads(line) for line in stream if line.startswith("{"))


def _answers(address: str, method: str, path: str, body: Any = None) -> bool:
    """Whether a request is answered well, now."""
    found: list[Answer] = []

    async def ask(connection: Connection) -> None:
        found.append(await connection.ask(method, path, body))

    try:
        visit(address, "", ask, 1, 1)
    except ExceptionGroup:
        time.sleep(0.1)
        return False
    return found[0].status < 300


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
