"""The same workloads on DBOS, run with its own interpreter (``.venv-bench``): prints one JSON line per workload.

Usage: python dbos_peer.py DATABASE_URL CHAIN_STEPS FAN_ITEMS MANY
"""

import json
import logging
import statistics
import sys
import threading
import time

from dbos import DBOS, DBOSConfig, SetWorkflowID

URL, CHAIN, FAN, MANY = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
THREADS = 8


@DBOS.step()
def nothing(value: int) -> int:
    return value


@DBOS.workflow()
def chain(steps: int) -> int:
    for number in range(steps):
        nothing(number)
    return steps


@DBOS.workflow()
def one_item(value: int) -> int:
    return nothing(value)


@DBOS.workflow()
def fan_out(items: int) -> int:
    handles = [DBOS.start_workflow(one_item, number) for number in range(items)]
    return sum(1 for handle in handles if handle.get_result() is not None)


@DBOS.workflow()
def three(value: int) -> int:
    return nothing(nothing(nothing(value)))


def report(workload: str, **figures: float) -> None:
    print(json.dumps({"system": "dbos", "workload": workload, **figures}), flush=True)


def measure_many() -> float:
    numbers = iter(range(MANY))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            three(number)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def main() -> None:
    logging.disable(logging.WARNING)
    config: DBOSConfig = {"name": "bench", "system_database_url": URL, "run_admin_server": False}
    DBOS(config=config)
    DBOS.launch()
    chain(10)
    started = time.perf_counter()
    chain(CHAIN)
    report("W1", steps=CHAIN, ms_per_step=(time.perf_counter() - started) * 1000 / CHAIN)
    singles = []
    for number in range(20):
        time.sleep(0.1)
        started = time.perf_counter()
        with SetWorkflowID(f"single-{number}-{started}"):
            three(number)
        singles.append((time.perf_counter() - started) * 1000)
    report("W3-single", p50_ms=statistics.median(singles))
    taken = measure_many()
    report("W3", executions=MANY, executions_per_s=MANY / taken)
    started = time.perf_counter()
    fan_out(FAN)
    report("W2", items=FAN, items_per_s=FAN / (time.perf_counter() - started))
    DBOS.destroy()


if __name__ == "__main__":
    main()
