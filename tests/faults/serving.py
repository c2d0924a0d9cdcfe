"""A server that leaves ``python`` to workers over HTTP, and is killed.

It prints its token as soon as it serves. A worker that is silent for a second loses its commands, which takes a minute in production.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.waiting import PATIENCE


def main(home: str, port: int) -> None:
    settings = Settings(Path(home), lease_seconds=2.0)
    serving = ServeSettings(port=port, external=("python",), worker_lease=1.0)
    with Server(settings, serving, on_log=lambda line: print(line, file=sys.stderr)) as server:
        assert server.tokens is not None
        print(server.tokens.add(f"process-{os.getpid()}", ["admin", "worker"]), flush=True)
        threading.Event().wait(PATIENCE)
