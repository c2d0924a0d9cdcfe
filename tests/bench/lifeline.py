"""The end of what a benchmark has started, also when it is killed: servers and databases have a session of their own and would run on.

``ending`` turns SIGTERM and SIGHUP into an orderly end. A process beside the benchmark waits for the end of that, and stops what SIGKILL
has left: every process whose ``NOETL_HOME`` is the given folder (Linux), and the database in it.

Usage: python -m tests.bench.lifeline FOLDER (reads standard input to its end)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from noetl.adapters.embedded import processes


@contextlib.contextmanager
def ending(home: Path) -> Iterator[None]:
    """End what runs in ``home`` however this process ends. ``home``: an existing folder, with the database in ``postgres``."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda told, frame: sys.exit(128 + told))
    command = [sys.executable, "-m", "tests.bench.lifeline", str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        yield


def clear(home: Path) -> None:
    """End what is left, and remove the folder above ``home``. A benchmark that ended by itself has left nothing."""
    for pid in _those_of(home):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    processes.stop(home / "postgres")
    shutil.rmtree(home.parent, ignore_errors=True)


def _those_of(home: Path) -> list[int]:
    """Those that have ``NOETL_HOME`` in their environment: servers come first, as they start an ended database again."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"NOETL_HOME={home}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def main() -> None:
    """Wait for the end of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.read()
    clear(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
