"""Workers over HTTP and their server are killed: executions end as if nothing had happened, once processes live again."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noetl.adapters.postgres import PostgresExecutionStore
from noetl.local.emulator import free_port
from tests.faults.ground import Ground, explain
from tests.forked import Forked
from tests.integration.api.test_serve import Client
from tests.parts import repeated
from tests.properties.invariants import audit_one, check_ended
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
ROUNDS = max(repeated(gate=1, full=2), int(os.environ.get("NOETL_SOAK_KILLS", "0")) // 20)
EXECUTIONS = 6
UNREACHABLE = 3
"""The exit code of a worker that reaches no server as it begins."""
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: remote, path: faults/remote }
workload: { n: 0 }
workflow:
  - step: start
    loop: { in: "{{ range(12) | list }}", iterator: i, spec: { mode: parallel } }
    tool:
      kind: python
      args: { i: "{{ iter.i }}", n: "{{ workload.n }}" }
      code: |
        import time
        def main(i, n):
            time.sleep(0.02)
            return i * n
    next: { arcs: [{ step: line }] }
  - step: line
    loop: { in: [1, 2, 3], iterator: i, spec: { mode: sequential } }
    tool:
      kind: python
      args: { i: "{{ iter.i }}", seen: "{{ ctx.seen | default([]) }}" }
      code: "def main(i, seen): return seen + [i]"
      set: { ctx.seen: "{{ output.data }}" }
    next: { arcs: [{ step: large }] }
  - step: large
    tool: { kind: python, code: "def main(): return {'text': 'x' * 90000}" }
    next: { arcs: [{ step: end }] }
  - step: end
    tool:
      kind: noop
      args: { sum: "{{ start | sum }}", seen: "{{ ctx.seen }}", size: "{{ large.text | length }}" }
"""


class Processes:
    """A server and two workers; ``kill`` ends one of them at once, and starts another in its place."""

    def __init__(self, ground: Ground, folder: Path) -> None:
        self.ground, self.folder, self.port, self.files = ground, folder, free_port(), 0
        self.address = f"http://127.0.0.1:{self.port}"
        self.token = folder / "token"
        self.server = self._serve()
        self.workers = [self._work(), self._work()]

    def kill(self, rng: random.Random) -> None:
        if rng.random() < 0.3:
            self._end(self.server)
            self.server = self._serve()
            return
        place = rng.randrange(len(self.workers))
        self._end(self.workers[place])
        self.workers[place] = self._work()

    def revive(self) -> None:
        """Start a worker again that found no server as it began, and ended."""
        for place, one in enumerate(self.workers):
            if one.poll() is not None:
                self.workers[place] = self._work()

    def close(self) -> None:
        for one in (*self.workers, self.server):
            one.kill()
            one.wait(PATIENCE)

    def told(self) -> str:
        return "\n".join(file.read_text()[-5000:] for file in sorted(self.folder.glob("stderr-*")))

    def _end(self, process: Forked) -> None:
        process.kill()
        process.wait(PATIENCE)
        assert process.returncode in (-signal.SIGKILL, UNREACHABLE), self.told()
        self.ground.counts["kills"] += process.returncode == -signal.SIGKILL

    def _serve(self) -> Forked:
        process = Forked(
            "tests.faults.serving", str(self.ground.home), self.port, errors=self._file("stderr")
        )
        token = process.stdout.readline().decode().strip()
        assert token, self.told()
        self.token.write_text(token)
        return process

    def _work(self) -> Forked:
        at = ("--server", self.address, "--token-file", str(self.token), "--home", str(self._file("worker")))
        words = ("worker", "start", *at, "--pool", "python", "--capacity", "3")
        return Forked("noetl.cli.main", errors=self._file("stderr"), argv=words)

    def _file(self, name: str) -> Path:
        self.files += 1
        return self.folder / f"{name}-{self.files}"


@pytest.fixture
def processes(ground: Ground, tmp_path: Path) -> Iterator[Processes]:
    made = Processes(ground, tmp_path)
    yield made
    made.close()


def wanted(n: int) -> dict[str, Any]:
    return {"sum": 66 * n, "seen": [1, 2, 3], "size": 90_000}


@pytest.mark.soak("kills of processes")
@pytest.mark.parametrize("number", range(ROUNDS))
def test_executions_outlive_their_workers_over_http_and_their_server(
    ground: Ground, processes: Processes, number: int
) -> None:
    rng = random.Random(f"http workers {number}")
    client = Client(processes.address, processes.token.read_text())
    client.register(PLAYBOOK)
    started = [client.start("faults/remote", payload={"n": n}) for n in range(EXECUTIONS)]
    ground.counts["executions"] += EXECUTIONS
    for _ in range(rng.randint(2, 4)):
        time.sleep(rng.random() * rng.choice((0.2, 1.5)))
        processes.kill(rng)
        ground.explain()
    for n, execution_id in enumerate(started):
        found = ended(client, processes, execution_id)
        assert found["status"] == "completed", (found, processes.told())
        assert client("GET", f"/api/executions/{execution_id}/result")[1]["result"] == wanted(n)
    wait_until(lambda: left(ground) == (0, 0, 0), lambda: f"the end of all work: {left(ground)}")
    with closing(PostgresExecutionStore(ground.server.dsn())) as store:
        fresh = store.executions(limit=1000)
        assert {str(info.execution_id) for info in fresh} >= set(started)
        for info in fresh:
            audit_one(store, info)
        check_ended(store, fresh)
        explain(store, fresh)


def ended(client: Client, processes: Processes, execution_id: str) -> dict[str, Any]:
    """The status of an execution that has ended, while workers that found no server begin again."""

    def over() -> dict[str, Any] | None:
        processes.revive()
        status, found = client("GET", f"/api/executions/{execution_id}/status")
        return found if status == 200 and found["ended"] else None

    found: dict[str, Any] = wait_until(over, f"the end of {execution_id}")
    return found


def left(ground: Ground) -> tuple[int, ...]:
    """Commands, events and timers that are left."""
    query = "SELECT (SELECT count(*) FROM noetl.command), (SELECT count(*) FROM noetl.outbox), (SELECT count(*) FROM noetl.timer)"
    with psycopg.connect(ground.server.dsn(), autocommit=True) as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    return tuple(found)
