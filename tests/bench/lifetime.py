"""A process over very many executions: one JSON line with the memory along the way, and the disk that an execution leaves.

Usage: python -m tests.bench.lifetime [--executions N] [--kind KIND] [--steps N]   (`make lifetime`)

The engine and its workers run in this process, so its memory is theirs. Every history is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from noetl.runtime.local.process import LocalRuntime
from tests.bench.playbooks import KINDS, chain
from tests.bench.speed.noetl import in_process

ROUND = 1000
"""Executions that are started together."""
LOOKS = 20
"""How often memory is noted, evenly along the way."""
DISK = "select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c where c.relnamespace = 'noetl'::regnamespace and c.relkind = 'r'"
TIMEOUT = 3600


def memory() -> int:
    """Bytes that this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def disk(runtime: LocalRuntime) -> int:
    """Bytes of all tables and indexes of the engine."""
    with psycopg.connect(runtime.opened.dsn) as connection:
        row = connection.execute(DISK).fetchone()
    assert row is not None
    return int(row[0])


def live(runtime: LocalRuntime, text: str, executions: int) -> dict[str, Any]:
    """Run so many executions, and note memory and disk."""
    entry = runtime.register(text, source_name="bench")
    before, began, looks = disk(runtime), time.perf_counter(), []
    done = 0
    while done < executions:
        ids = runtime.start_many(entry, [{} for _ in range(min(ROUND, executions - done))])
        runtime.run_until(ids, timeout=TIMEOUT)
        if wrong := [one for one in ids if runtime.status(one) != "completed"]:
            raise RuntimeError(f"{len(wrong)} executions did not complete, the first is {wrong[0]}")
        done += len(ids)
        if done * LOOKS // executions > len(looks):
            looks.append(round(memory() / 2**20, 1))
            rate = done / (time.perf_counter() - began)
            print(f"{done:,} executions, {rate:.0f}/s, {looks[-1]} MB", file=sys.stderr, flush=True)
    return {
        "executions": done,
        "per_s": round(done / (time.perf_counter() - began)),
        "memory_mb": looks,
        "grown_mb_in_the_second_half": round(looks[-1] - looks[len(looks) // 2 - 1], 1),
        "disk_bytes_an_execution": round((disk(runtime) - before) / done),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=KINDS, default="python")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="noetl-lifetime-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        with in_process(home) as runtime:
            found = live(runtime, chain(options.steps, options.kind), options.executions)
    print(json.dumps({"system": "noetl", "workload": "lifetime", "kind": options.kind, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
