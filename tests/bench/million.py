"""A loop over a very large collection: one JSON line with items per second and what it takes in memory and state.

Usage: python -m tests.bench.million [--rows N] [--format csv|jsonl|parquet|prefix] [--s3]

The rows lie in a file, or (``--s3``) in a bucket of an S3 that runs beside it; ``prefix`` loops over the objects of a bucket. Memory is that
of this process (engine and workers; the database is another), above what it had when the loop began.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from noetl.kinds.registry import Registry
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from tests.bench import tick

BUCKET = "million-rows"
PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: million, path: bench/million}}
workflow:
  - step: start
    loop: {{in: "{source}", iterator: row, mode: parallel}}
    tool: {{kind: tick, args: {{value: "{value}"}}}}
"""


def write_rows(path: Path, form: str, rows: int) -> None:
    """``id, facility, amount`` of so many orders."""
    if form == "parquet":
        import duckdb

        made = f"select i as id, 'facility ' || (i % 10) as facility, i * 3 as amount from range({rows}) t(i)"
        duckdb.connect().execute(f"copy ({made}) to '{path}' (format parquet)")
        return
    with path.open("w", newline="") as file:
        if form == "csv":
            writer = csv.writer(file)
            writer.writerow(("id", "facility", "amount"))
            writer.writerows((i, f"facility {i % 10}", i * 3) for i in range(rows))
            return
        for i in range(rows):
            file.write(json.dumps({"id": i, "facility": f"facility {i % 10}", "amount": i * 3}) + "\n")


class Memory:
    """The most that this process holds while it is watched, above what it held before."""

    def __init__(self) -> None:
        self._pages = os.sysconf("SC_PAGE_SIZE")
        self.start = self.most = self._now()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def grown(self) -> int:
        return self.most - self.start

    def _now(self) -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * self._pages

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.most = max(self.most, self._now())


@contextlib.contextmanager
def s3_server(folder: Path, objects: int) -> Iterator[None]:
    """A bucket in a process of its own (see s3_loopback); the environment leads there."""
    command = [sys.executable, "-m", "tests.bench.s3_loopback", str(folder), str(objects)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{process.stdout.readline().strip()}",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


def placed(folder: Path, form: str, rows: int, *, remote: bool = False) -> tuple[str, str]:
    """Where the collection is, and the template of an item's value."""
    if form == "prefix":
        return f"s3://{BUCKET}/objects/", "{{ iter.row.key }}"
    path = folder / f"rows.{form}"
    write_rows(path, form, rows)
    return (f"s3://{BUCKET}/{path.name}" if remote else f"file:{path.name}"), "{{ iter.row.id }}"


def measure(runtime: LocalRuntime, source: str, value: str, rows: int) -> dict[str, Any]:
    entry = runtime.register(PLAYBOOK.format(source=source, value=value), source_name="bench")
    with Memory() as memory:
        began, worked = time.perf_counter(), time.process_time()
        execution_id = runtime.start(entry, {})
        read = folded = None
        done = 0
        while read is None or done < rows:
            progress = runtime.store.loop_progress(execution_id)
            if progress and read is None:
                read = time.perf_counter() - began
            done = progress[0].done if progress else 0
            if runtime.status(execution_id) in ("failed", "cancelled"):
                break
            time.sleep(0.2)
        folded = time.perf_counter()
        runtime.run_until([execution_id], timeout=3600)
        taken, worked = time.perf_counter() - began, time.process_time() - worked
    info = runtime.store.info(execution_id)
    assert info is not None
    if info.status != "completed":
        raise RuntimeError(f"the loop {info.status}: {info.state[:2000]!r}")
    with psycopg.connect(runtime.opened.dsn) as connection:
        row = connection.execute(
            "select pg_column_size(state::text), (select coalesce(sum(pg_column_size(value::text)), 0) from noetl.slot"
            " where execution_id = e.execution_id), (select count(*) from noetl.event where execution_id = e.execution_id)"
            " from noetl.execution e where execution_id = %s",
            (execution_id,),
        ).fetchone()
    assert row is not None
    return {
        "items": rows,
        "seconds": round(taken, 2),
        "items_per_s": round(rows / taken),
        "cpu_s": round(worked, 2),
        "read_s": round(read or 0.0, 2),
        "fold_s": round(began + taken - folded, 2),
        "peak_memory_above_start_mb": round(memory.grown / 2**20, 1),
        "state_bytes": row[0],
        "slot_bytes": row[1],
        "event_rows": row[2],
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--format", choices=("csv", "jsonl", "parquet", "prefix"), default="csv")
    parser.add_argument("--s3", action="store_true", help="in a bucket, not in a file")
    options = parser.parse_args()
    registry = Registry()
    registry.add(tick)
    remote = options.s3 or options.format == "prefix"
    with (
        tempfile.TemporaryDirectory(prefix="noetl-million-", ignore_cleanup_errors=True) as folder,
        s3_server(Path(folder), options.rows) if remote else contextlib.nullcontext(),
    ):
        home = Path(folder)
        home.chmod(0o755)
        source, value = placed(home, options.format, options.rows, remote=remote)
        settings = Settings.from_env({}, home=home)
        with LocalRuntime(
            settings, data_dirs=(folder,), registry=registry, on_log=lambda line: print(line, file=sys.stderr)
        ) as runtime:
            figures = measure(runtime, source, value, options.rows)
        place = "s3" if remote else "file"
        print(
            json.dumps(
                {"system": "noetl", "workload": "million", "source": f"{place} {options.format}", **figures}
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
