"""The patient flow in full: 10 facilities × 1,000 patients × 5 kinds of records in pages, into Postgres, from an API in a process of its own.

Usage: python tests/bench/patient_flow.py [--facilities N] [--patients N] [--rate REQUESTS_PER_SECOND]

Prints one JSON line; the figures published for the original engine stand beside ours, for orientation: another machine, another API.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import runpy
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.queries import read_execution

EXAMPLES = Path(__file__).parents[2] / "playbooks" / "examples"
PUBLISHED = {"original_first_s": 42 * 60, "original_best_s": 54}
REQUESTS_OF_A_PATIENT = 5 * (10 * 1 + 5 * 2) / 15
"""Of fifteen patients, five have two pages of a kind."""
IN_FLIGHT = 16


def serve(rate: float, told: Connection) -> None:
    """The example's API, until somebody ends this process."""
    make = runpy.run_path(str(EXAMPLES / "patient_flow" / "service.py"))["service"]
    served: dict[str, int] = {"requests": 0, "refused": 0}
    answer = make(rate=rate, burst=rate / 2)

    def counted(*asked: Any) -> Any:
        found = answer(*asked)
        served["requests"] += 1
        served["refused"] += found[0] == 429
        return found

    with runpy.run_path(str(EXAMPLES / "serve.py"))["Server"](counted, 0) as server:
        told.send(server.base)
        told.recv()
        told.send(served)


def run(base: str, facilities: int, patients: int, batch: int, rate: float) -> dict[str, Any]:
    file = EXAMPLES / "patient_flow" / "patient_flow.yaml"
    size = {"facilities": facilities, "patients": patients, "batch": batch}
    with tempfile.TemporaryDirectory() as home:
        environment = {"NOETL_HTTP_ALLOW": "127.0.0.1"}
        with LocalRuntime(Settings.from_env(environment, home=Path(home))) as runtime:
            entry = runtime.register(file.read_text(), source_name=str(file))
            began = time.monotonic()
            execution_id = runtime.start(entry, {"base": base, **size, "rate": rate, "in_flight": IN_FLIGHT})
            runtime.run_until([execution_id], timeout=3600)
            taken = time.monotonic() - began
            status = runtime.status(execution_id)
            if status != "completed":
                view = read_execution.describe(runtime.store, runtime.programs, execution_id, now=0.0)
                raise SystemExit(f"the patient flow {status}: {view.error}")
            result = read_execution.result(runtime.store, runtime.results, execution_id)
    return {"seconds": round(taken, 1), **result}


def main() -> None:
    wishes = argparse.ArgumentParser(description=__doc__)
    wishes.add_argument("--facilities", type=int, default=10)
    wishes.add_argument("--patients", type=int, default=1000)
    wishes.add_argument("--batch", type=int, default=50)
    wishes.add_argument("--rate", type=float, default=3000, help="requests a second that the API bears")
    given = wishes.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(given.rate, there), daemon=True)
    server.start()
    requests_of_a_batch = given.batch * REQUESTS_OF_A_PATIENT / 5
    rate = 0.95 * given.rate / requests_of_a_batch
    found = run(here.recv(), given.facilities, given.patients, given.batch, round(rate, 2))
    here.send("enough")
    found |= here.recv()
    server.join()
    print(json.dumps({"system": "noetl", "workload": "patient-flow", **found, **PUBLISHED}))


if __name__ == "__main__":
    main()
