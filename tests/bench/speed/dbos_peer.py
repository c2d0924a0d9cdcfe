"""The workloads on DBOS, run with an interpreter of its own (``.venv-bench``).

Usage: python dbos_peer.py DATABASE_URL SIZES   (SIZES: JSON {runs, steps, singles, pause, many, parallel, sequential})

Prints a JSON line per way of each workload, {workload, way, size, values}: milliseconds per step or execution, executions/s or items/s.
Then prints {"door": address} and answers ``POST /three`` there, until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from dbos import DBOS, DBOSConfig
from fastapi import FastAPI

THREADS = 8
QUEUE = "bench"


@DBOS.step()
def step(value: int) -> dict[str, int]:
    return {"value": value + 1}


@DBOS.step()
async def step_async(value: int) -> dict[str, int]:
    return {"value": value + 1}


@DBOS.workflow()
def chain(steps: int) -> int:
    value = 0
    for _ in range(steps):
        value = step(value)["value"]
    return value


@DBOS.workflow()
async def chain_async(steps: int) -> int:
    value = 0
    for _ in range(steps):
        value = (await step_async(value))["value"]
    return value


@DBOS.workflow()
def item(value: int) -> int:
    return step(value)["value"]


@DBOS.workflow()
def children(items: int) -> int:
    return sum(handle.get_result() for handle in [DBOS.start_workflow(item, one) for one in range(items)])


@DBOS.workflow()
def queued(items: int) -> int:
    return sum(
        handle.get_result() for handle in [DBOS.enqueue_workflow(QUEUE, item, one) for one in range(items)]
    )


@DBOS.workflow()
async def gathered(items: int) -> int:
    return sum(one["value"] for one in await asyncio.gather(*(step_async(one) for one in range(items))))


app = FastAPI()


@app.post("/three")
def three() -> dict[str, int]:
    return {"value": chain(3)}


def milliseconds(work: Callable[[], Any], pause: float = 0.0) -> float:
    time.sleep(pause)
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def many_in_threads(count: int) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        assert set(threads.map(chain, [3] * count)) == {3}


def many_started(count: int) -> None:
    assert {one.get_result() for one in [DBOS.start_workflow(chain, 3) for _ in range(count)]} == {3}


def many_queued(count: int) -> None:
    assert {one.get_result() for one in [DBOS.enqueue_workflow(QUEUE, chain, 3) for _ in range(count)]} == {3}


class Loop:
    """An event loop in a thread of its own, for what is asynchronous."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def __call__(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


def workloads(sizes: dict[str, int]) -> None:
    loop, runs = Loop(), range(sizes["runs"])

    def tell(workload: str, way: str, size: int, values: list[float]) -> None:
        print(json.dumps({"workload": workload, "way": way, "size": size, "values": values}), flush=True)

    def rates(workload: str, way: str, size: int, work: Callable[[], Any]) -> None:
        tell(workload, way, size, [size * 1000 / milliseconds(work) for _ in runs])

    def asynchronous(steps: int) -> int:
        return int(loop(chain_async(steps)))

    steps, single, many = sizes["steps"], sizes["singles"], sizes["many"]
    parallel, sequential = sizes["parallel"], sizes["sequential"]
    for way, chained in (("plain functions", chain), ("asyncio", asynchronous)):
        chained(10)
        tell("chain", way, steps, [milliseconds(lambda c=chained: c(steps)) / steps for _ in runs])
        tell("alone", way, 3, [milliseconds(lambda c=chained: c(3), sizes["pause"]) for _ in range(single)])
        rates("sequential", way, sequential, lambda c=chained: c(sequential))
    rates("many", "threads", many, lambda: many_in_threads(many))
    rates("many", "start_workflow", many, lambda: many_started(many))
    rates("many", "queue", many, lambda: many_queued(many))
    rates("parallel", "start_workflow", parallel, lambda: children(parallel))
    rates("parallel", "queue", parallel, lambda: queued(parallel))
    rates("parallel", "steps by asyncio.gather", parallel, lambda: loop(gathered(parallel)))


def main() -> None:
    logging.disable(logging.WARNING)
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": sys.argv[1],
        "run_admin_server": False,
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=0.01)
    workloads(json.loads(sys.argv[2]))
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))

    def wait() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()
    print(json.dumps({"door": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    server.run(sockets=[listener])
    DBOS.destroy()
    os._exit(0)


if __name__ == "__main__":
    main()
