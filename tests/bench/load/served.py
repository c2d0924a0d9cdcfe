"""A real ``noetl serve`` process with a database of its own, that can be taken away and given back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from noetl.adapters.embedded import processes
from noetl.adapters.embedded.locked import locked
from noetl.adapters.embedded.server import ENGINE, SETTINGS, EmbeddedServer

ROOT = Path(__file__).resolve().parents[3]
ENDED = ("completed", "failed", "cancelled")


class Served:
    """Context manager. ``home``: an empty folder that other users may look into (Postgres does not run as root). ``module``: what is run
    instead of the command line. ``env``: further variables."""

    def __init__(
        self, home: Path, *arguments: str, module: str = "noetl.cli", env: Mapping[str, str] | None = None
    ) -> None:
        self.home, self._arguments, self._module, self._env = home, arguments, module, env or {}
        self._outage = contextlib.ExitStack()

    def __enter__(self) -> Served:
        self.log = (self.home / "serve.log").open("wb")
        program = [sys.executable, "-m", self._module, "serve", "--json", "--port", "0", *self._arguments]
        self.process = subprocess.Popen(
            program,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "NOETL_HOME": str(self.home), "PYTHONUNBUFFERED": "1", **self._env},
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        if not told:
            raise RuntimeError((self.home / "serve.log").read_text(errors="replace"))
        self.address: str = json.loads(told)["address"]
        self.token = (self.home / "token").read_text().strip()
        return self

    def __exit__(self, *about: Any) -> None:
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)
        self.process.kill()
        self.process.wait()
        self.log.close()
        processes.stop(self.data)

    @property
    def data(self) -> Path:
        return self.home / "postgres"

    @property
    def host(self) -> str:
        return self.address.removeprefix("http://").partition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def stop_database(self, *, crash: bool) -> None:
        """As ``pg_ctl stop -m fast`` does, or ``-m immediate`` (what a crash leaves: recovery when it starts).

        It stays away until ``start_database``: the server would start it again soon.
        """
        self._outage.enter_context(locked(self.data))
        pid = int(processes.pid_file_line(self.data, 0) or 0)
        os.kill(pid, signal.SIGQUIT if crash else signal.SIGINT)
        deadline = time.monotonic() + 20
        while (self.data / "postmaster.pid").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the database does not stop")
            time.sleep(0.01)

    def start_database(self) -> None:
        with self._outage:
            processes.start(self.data, SETTINGS)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        server = EmbeddedServer(self.data, (self.home / "postgres.secret").read_text(), -1)
        with psycopg.connect(server.dsn(ENGINE), autocommit=True) as connection:
            return connection.execute(text).fetchall()

    def wait_until_all_ended(self, seconds: float) -> list[tuple[Any, ...]]:
        """What has not ended by then (id, status)."""
        deadline = time.monotonic() + seconds
        while True:
            left = self.query(
                "SELECT execution_id, status FROM noetl.execution WHERE ended_at IS NULL ORDER BY 1 LIMIT 20"
            )
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)

    def marks(self) -> dict[str, list[str]]:
        """Executions by the mark in their payload."""
        found: dict[str, list[str]] = {}
        rows = self.query(
            'SELECT execution_id, substring(facts::text FROM \'"mark":\\s*"([^"]+)"\') FROM noetl.event WHERE starts_with(event_id, \'start\')'
        )
        for execution_id, mark in rows:
            found.setdefault(mark, []).append(str(execution_id))
        return found

    def footprint(self) -> dict[str, float]:
        """Megabytes, threads and open files of the server's process (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return {}
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return {
            "rss_mb": round(int(lines["VmRSS"].split()[0]) / 1024, 1),
            "threads": int(lines["Threads"]),
            "files": sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir()),
        }
