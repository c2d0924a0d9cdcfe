"""The worker as a process: `python main.py`, for commands longer than a function's limit."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence

from noetl.adapters.aws.sqs import LONGEST_VISIBILITY
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.worker import open_worker
from noetl.runtime.aws.worker_loop import WorkerLoop
from noetl.runtime.collector import collect_as_usual


def main(argv: Sequence[str] | None = None) -> None:
    """Serve the worker's queue until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="Runs commands of the queue that NOETL_WORKER names.")
    parser.add_argument(
        "--exit-when-idle", type=float, metavar="SECONDS", help="end after this long without work"
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=110.0,
        metavar="SECONDS",
        help="seconds to end in, less than the 120 of ECS",
    )
    options = parser.parse_args(argv)
    worker = open_worker(CloudSettings.from_env())
    collect_as_usual()
    loop = WorkerLoop(worker, grace=options.grace, idle=options.exit_when_idle, hold=LONGEST_VISIBILITY)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    loop.run()


if __name__ == "__main__":
    main()
