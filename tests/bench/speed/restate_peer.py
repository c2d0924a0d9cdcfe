"""The workloads as services of Restate, run with an interpreter of its own (``.venv-bench``): answers on loopback what its server asks.

Usage: python restate_peer.py   (prints {"service": address}, serves until its standard input ends)
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading

import hypercorn
import hypercorn.asyncio
import restate

bench = restate.Service("bench")


def step(value: int) -> dict[str, int]:
    return {"value": value + 1}


@bench.handler()
async def chain(ctx: restate.Context, steps: int) -> int:
    value = 0
    for _ in range(steps):
        value = (await ctx.run_typed("step", step, value=value))["value"]
    return value


@bench.handler()
async def item(ctx: restate.Context, value: int) -> int:
    return (await ctx.run_typed("step", step, value=value))["value"]


@bench.handler()
async def children(ctx: restate.Context, items: int) -> int:
    calls = [ctx.service_call(item, arg=one) for one in range(items)]
    await restate.gather(*calls)
    return len(calls)


@bench.handler()
async def gathered(ctx: restate.Context, items: int) -> int:
    runs = [ctx.run_typed("step", step, value=one) for one in range(items)]
    await restate.gather(*runs)
    return len(runs)


async def serve() -> None:
    config = hypercorn.Config()
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    config.bind = [f"fd://{listener.fileno()}"]
    config.h2_max_concurrent_streams = 2**31 - 1
    config.keep_alive_max_requests = 2**31 - 1
    config.keep_alive_timeout = 2**31 - 1
    config.errorlog = None
    ended, loop = asyncio.Event(), asyncio.get_running_loop()

    def wait() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait, daemon=True).start()
    print(json.dumps({"service": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    await hypercorn.asyncio.serve(restate.app([bench]), config, shutdown_trigger=ended.wait)  # type: ignore[arg-type]


if __name__ == "__main__":
    asyncio.run(serve())
