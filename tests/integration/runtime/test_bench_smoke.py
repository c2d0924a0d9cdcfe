"""The benchmarks run: every workload gives its figure (what the figures are is not a test's business)."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.bench.speed.processor_time import GROUPS
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]


@pytest.mark.full
@pytest.mark.postgres
def test_every_workload_reports():
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.run", "--quick", "--json", "--kinds", "python"],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(one["workload"], one["measure"], one.get("clients", 0)) for one in figures} == {
        ("engine-alone", "early", 0),
        ("engine-alone", "late", 0),
        ("import", "engine", 0),
        *(("ceiling", measure, 0) for measure in ("commit", "unnest", "copy")),
        *(("chain", measure, 0) for measure in ("per step", "commits", "wal")),
        ("alone", "p50", 0),
        ("many", "rate", 0),
        ("parallel", "rate", 0),
        *((workload, f"cpu {group}", 0) for workload in ("many", "parallel") for group in GROUPS),
        ("parallel", "peak memory", 0),
        ("sequential", "rate", 0),
        *(("door", measure, clients) for measure in ("rate", "p50", "p99") for clients in (1, 4)),
        ("door-chain", "per step", 1),
        ("door-parallel", "rate", 1),
        ("door-sequential", "rate", 1),
        ("run-hello", "first", 0),
    }
    for one in figures:
        assert one["min"] <= one["median"] <= one["max"]
        assert {"commit", "date", "cores", "cpu", "python", "load", "quiet"} <= set(one)


KILLED = """
import sys, time
from pathlib import Path
from tests.bench.lifeline import ending
from tests.bench.run import home_in
from tests.bench.speed.noetl import in_process
home = home_in(Path(sys.argv[1]))
with ending(home), in_process(home) as runtime:
    print((home / "postgres" / "postmaster.pid").read_text().split()[0], flush=True)
    time.sleep(1000)
"""


@pytest.mark.full
@pytest.mark.postgres
def test_a_benchmark_that_is_killed_leaves_no_database():
    with tempfile.TemporaryDirectory(prefix="noetl-bench-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-c", KILLED, folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as bench:
            assert bench.stdout is not None
            server = int(bench.stdout.readline())
            bench.kill()
        wait_until(lambda: not Path(f"/proc/{server}").exists(), "the end of the database")
        wait_until(lambda: not Path(folder).exists(), "the end of the folder")
