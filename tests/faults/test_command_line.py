"""``noetl run`` is killed, ``noetl resume`` goes on: with the command as it is shipped, over real HTTP."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.faults.ground import Ground
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
ROUNDS = max(2, int(os.environ.get("NOETL_SOAK_KILLS", "0")) // 20)
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: killed, path: faults/killed }
workload: { api: "" }
workflow:
  - step: start
    loop: { in: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], iterator: n, spec: { mode: parallel, max_in_flight: 4 } }
    tool:
      kind: http
      url: "{{ workload.api }}/item/{{ iter.n }}"
      spec:
        policy:
          rules:
            - when: "{{ outcome.status == 'error' and outcome.error.retryable }}"
              then: { do: retry, attempts: 5, backoff: none, delay: 0.05 }
    next: { arcs: [{ step: sum }, { step: line }], spec: { mode: inclusive } }
  - step: sum
    tool:
      kind: python
      args: { values: "{{ start | map(attribute='v') | list }}" }
      code: "def main(values): return {'sum': sum(values)}"
    next: { arcs: [{ step: end }] }
  - step: line
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: sequential } }
    tool:
      - post: { kind: http, method: POST, url: "{{ workload.api }}/line/{{ iter.n }}", body: { seen: "{{ ctx.seen | default([]) }}" } }
      - keep:
          kind: noop
          spec:
            policy:
              rules:
                - else: { then: { do: continue, set_ctx: { seen: "{{ (ctx.seen | default([])) + [iter.n] }}" } } }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, args: { sum: "{{ sum.sum }}", seen: "{{ ctx.seen }}" } } }
"""
PATIENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: patient, path: faults/patient }
workload: { api: "" }
workflow:
  - { step: start, tool: { kind: wait, seconds: 0.4 }, next: { arcs: [{ step: ask }] } }
  - { step: ask, tool: { kind: wait, callback: true }, next: { arcs: [{ step: load }] } }
  - step: load
    loop: { in: [1, 2, 3, 4], iterator: n, spec: { mode: parallel } }
    tool: { kind: http, url: "{{ workload.api }}/load/{{ iter.n }}" }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, args: { ok: "{{ ask.ok }}", values: "{{ load | map(attribute='data.v') | list }}" } } }
"""
RESULT = {"sum": sum(n * n for n in range(10)), "seen": [1, 2, 3]}


class Api(ThreadingHTTPServer):
    """``asked``: idempotency key → what was asked under it. Every third item is refused the first time; the third load until ``mended``."""

    mended = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: defaultdict[str, set[tuple[str, bytes]]] = defaultdict(set)
        self.lock = threading.Lock()


class Answer(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        key = self.headers["Idempotency-Key"]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            first = key not in self.server.asked
            self.server.asked[key].add((self.path, body))
        number = int(self.path.rpartition("/")[2])
        refused = first and self.path.startswith("/item") and number % 3 == 0
        broken = self.path == "/load/3" and not self.server.mended
        self.send_response(503 if refused else 500 if broken else 200)
        text = json.dumps({"v": number * number}).encode()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with Api() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def noetl(ground: Ground, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "noetl.cli", *arguments, "--json", "--home", str(ground.home)]
    environ = {**os.environ, "NOETL_LEASE_SECONDS": "2"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)


@pytest.mark.full
@pytest.mark.soak("kills of processes")
@pytest.mark.parametrize("number", range(ROUNDS))
def test_noetl_resume_ends_what_noetl_run_began(
    ground: Ground, api: Api, tmp_path: Path, number: int
) -> None:
    rng = random.Random(f"command line {number}")
    api.asked.clear()
    file = tmp_path / "killed.yaml"
    file.write_text(PLAYBOOK)
    run = noetl(ground, "run", str(file), "--set", f"api=http://127.0.0.1:{api.server_port}")
    assert run.stdout is not None
    first = run.stdout.readline()
    killer = threading.Timer(rng.random() * 0.6, run.kill)
    killer.start()
    run.communicate(timeout=PATIENCE)
    killer.cancel()
    count(ground, run)
    execution_id = str(json.loads(first)["execution_id"])
    lines = noetl(ground, "resume", execution_id).communicate(timeout=PATIENCE)
    last = json.loads(lines[0].splitlines()[-1])
    assert (last["execution_id"], last["status"], last["error"]) == (execution_id, "completed", None), lines
    assert last["result"] == RESULT
    replayed = noetl(ground, "replay", execution_id)
    told = replayed.communicate(timeout=PATIENCE)
    assert replayed.returncode == 0, told
    assert all(len(asked) == 1 for asked in api.asked.values()), "one idempotency key, two different calls"
    assert len(api.asked) == 13, "a call was made under two keys"


def count(ground: Ground, process: subprocess.Popen[str]) -> None:
    """`analyze` explains what the process left."""
    ground.counts["kills"] += process.returncode == -signal.SIGKILL
    ground.explain()


def killed(ground: Ground, rng: random.Random, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What it told before it was killed, or ended by itself."""
    assert process.stdout is not None
    first = process.stdout.readline()
    killer = threading.Timer(rng.random() * 0.8, process.kill)
    killer.start()
    rest, _ = process.communicate(timeout=PATIENCE)
    killer.cancel()
    count(ground, process)
    whole = (first + rest).rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]


@pytest.mark.full
@pytest.mark.soak("kills of processes")
@pytest.mark.parametrize("number", range(max(1, ROUNDS // 2)))
def test_waits_answers_and_redrives_outlive_their_processes(
    ground: Ground, api: Api, tmp_path: Path, number: int
) -> None:
    rng = random.Random(f"patient {number}")
    api.asked.clear()
    api.mended = False
    file = tmp_path / "patient.yaml"
    file.write_text(PATIENT)
    began = noetl(ground, "run", str(file), "--set", f"api=http://127.0.0.1:{api.server_port}")
    execution_id = str(killed(ground, rng, began)[0]["execution_id"])

    def ended(*words: str) -> dict[str, Any]:
        """The last line of a command that nobody kills."""
        out, told = noetl(ground, *words).communicate(timeout=PATIENCE)
        assert out.strip(), told
        last: dict[str, Any] = json.loads(out.splitlines()[-1])
        return last

    assert ended("resume", execution_id)["status"] == "waiting"
    ground.explain()
    killed(ground, rng, noetl(ground, "callback", execution_id, "--set", "ok=true"))
    if ended("status", execution_id)["awaiting"]:
        noetl(ground, "callback", execution_id, "--set", "ok=true").communicate(timeout=PATIENCE)
    ended("resume", execution_id)
    assert ended("status", execution_id)["status"] == "failed"
    ground.explain()
    api.mended = True
    killed(ground, rng, noetl(ground, "redrive", execution_id))
    if ended("status", execution_id)["status"] == "failed":
        noetl(ground, "redrive", execution_id).communicate(timeout=PATIENCE)
    ended("resume", execution_id)
    last = ended("status", execution_id)
    assert (last["status"], last["error"]) == ("completed", None), last
    assert ended("result", execution_id) == {"ok": True, "values": [1, 4, 9, 16]}
    replayed = noetl(ground, "replay", execution_id)
    told = replayed.communicate(timeout=PATIENCE)
    assert replayed.returncode == 0, told
    keys = {path: [key for key, asked in api.asked.items() if (path, b"") in asked] for path in loads()}
    assert all(len(asked) == 1 for asked in api.asked.values()), "one idempotency key, two different calls"
    assert {path: len(keys[path]) for path in loads() if path != "/load/3"} == dict.fromkeys(
        loads()[:2] + loads()[3:], 1
    )


def loads() -> list[str]:
    return [f"/load/{number}" for number in (1, 2, 3, 4)]
