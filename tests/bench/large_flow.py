"""An export of a gigabyte through HTTP, the result store, DuckDB and Postgres: one JSON line with seconds per step and the worker's memory.

Usage: python tests/bench/large_flow.py [--megabytes 1024] [--most 256]

The playbook is the example large_report. Memory is the peak of this process (engine and workers; the database and the server of the export
are others), as the kernel counts it, above what it had before the execution began. Ends with 1 when that is more than ``--most`` MiB, or a
row is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.queries import read_execution

PLAYBOOK = Path(__file__).parents[2] / "playbooks" / "examples" / "large_report" / "large_report.yaml"
HEADER = b"id,day,customer,currency,amount,note\n"
PIECE = 2000
NOTE = "to be delivered between nine and five, to the door at the back of the house; ring twice, or leave it with the neighbours if nobody is in"


def lines(first: int, count: int) -> bytes:
    """CSV of so many orders, from a number on."""
    days = [(date(2026, 1, 1) + timedelta(day)).isoformat() for day in range(365)]
    currencies = ("EUR", "NOK", "PEN")
    return "".join(
        f'{n},{days[n % 365]},{n % 800 + 1},{currencies[n % 3]},{n % 997 * 1.25:.2f},"{NOTE} {n}"\n'
        for n in range(first, first + count)
    ).encode()


def rows_of(megabytes: int) -> int:
    """How many orders have this size."""
    return megabytes * 2**20 * 1000 // len(lines(1_000_000, 1000))


def expected(rows: int) -> dict[str, Any]:
    """What the execution has to result in."""
    whole, rest = divmod(rows, 997)
    return {
        "lines": rows,
        "amount": 1.25 * (whole * sum(range(997)) + sum(range(1, rest + 1))),
        "cells": 36,
        "complete": True,
    }


class Export(BaseHTTPRequestHandler):
    """``GET /orders?count=n``: made while it is sent."""

    def do_GET(self) -> None:
        count = int(self.path.partition("count=")[2])
        self.send_response(200)
        self.send_header("Content-Type", "text/csv")
        self.end_headers()
        self.wfile.write(HEADER)
        for first in range(1, count + 1, PIECE):
            self.wfile.write(lines(first, min(PIECE, count + 1 - first)))

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def export_server() -> Iterator[str]:
    """The address of the export, in a process of its own."""
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class Peak:
    """The most memory this process has held since ``begin``, in bytes above what it held then, as the kernel counts it."""

    def begin(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._start = self._read("VmRSS")

    def grown(self) -> int:
        return self._read("VmHWM") - self._start

    def _read(self, name: str) -> int:
        text = Path("/proc/self/status").read_text()
        return int(text.partition(f"{name}:")[2].split()[0]) * 1024


def measure(runtime: LocalRuntime, base: str, rows: int) -> dict[str, Any]:
    """Run the playbook: what it resulted in, seconds of each step, and the growth of memory."""
    entry = runtime.register(PLAYBOOK.read_text(), source_name=PLAYBOOK.name)
    peak = Peak()
    peak.begin()
    began = time.perf_counter()
    execution_id = runtime.start(entry, {"base": base, "orders": rows, "seconds": 3600})
    runtime.run_until([execution_id], timeout=7200)
    seconds = time.perf_counter() - began
    grown = peak.grown()
    view = read_execution.describe(runtime.store, runtime.programs, execution_id, now=0.0)
    if view.status != "completed":
        raise RuntimeError(f"the flow {view.status}: {view.error}")
    result = read_execution.result(runtime.store, runtime.results, execution_id)
    return {
        "rows": rows,
        "seconds": round(seconds, 1),
        "peak_memory_above_start_mb": round(grown / 2**20, 1),
        "result": result,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--most", type=int, default=256, help="MiB of memory above the start")
    parser.add_argument("--serve", action="store_true", help="only serve the export")
    options = parser.parse_args()
    if options.serve:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Export)
        sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()
    rows = rows_of(options.megabytes)
    with (
        tempfile.TemporaryDirectory(prefix="noetl-flow-", ignore_cleanup_errors=True) as folder,
        export_server() as base,
    ):
        home = Path(folder)
        home.chmod(0o755)
        with LocalRuntime(Settings.from_env(os.environ, home=home)) as runtime:
            found = measure(runtime, base, rows)
    print(json.dumps({"workload": "large_flow", "megabytes": options.megabytes, **found}))
    right = found["result"] == expected(rows)
    return 0 if right and found["peak_memory_above_start_mb"] <= options.most else 1


if __name__ == "__main__":
    sys.exit(main())
