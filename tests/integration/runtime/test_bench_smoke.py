"""The benchmarks run: every workload gives its figure (what the figures are is not a test's business)."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "run.py"


def test_every_workload_reports():
    done = subprocess.run(
        [sys.executable, str(BENCH), "--quick"], capture_output=True, text=True, timeout=800, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert {line["workload"] for line in lines} == {
        "engine-alone",
        "import",
        "ceiling",
        "W1",
        "W3-single",
        "W3",
        "W2",
        "run-hello",
    }
    assert not [line for line in lines if "error" in line]
