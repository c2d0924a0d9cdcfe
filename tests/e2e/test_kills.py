"""Functions of the deployment are killed again and again while executions run: nothing is lost, doubled or stuck.

``NOETL_SOAK_EMULATOR_KILLS=500`` kills as often; ``NOETL_FIRST_SEED`` is the seed of the first round.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.remote import Remote
from tests.e2e.test_outages import short_back_off
from tests.properties.accounts import family
from tests.properties.invariants import audit_one, check_ended
from tests.waiting import PATIENCE, wait_until

KILLS = int(os.environ.get("NOETL_SOAK_EMULATOR_KILLS") or 10)
SEED = int(os.environ.get("NOETL_FIRST_SEED") or 1)
KILLS_OF_A_ROUND = 100
EXECUTIONS = 30
"""Of a round, of all playbooks in turn."""
FUNCTIONS = ("engine", "decide", "worker-io", "worker-python")
STEPS, ITEMS = 20, 40
BACK_SECONDS = 10
"""After which a message of a killed function comes back."""
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: e2e/{name} }}\nworkload: {{ url: '' }}\nworkflow:\n"
AGAIN = (
    "spec: { timeout: 60, policy: { rules: [{ when: \"{{ outcome.status == 'error' and outcome.error.kind == 'worker_lost' }}\","
    " then: { do: retry, attempts: 100, delay: 0.1 } }] } }"
)
"""A call whose workers die three times has failed: it may be what kills them. Here it is not."""
CALL = 'kind: http, url: "{{ workload.url }}/%s", ' + AGAIN
CHAIN = HEAD.format(name="killed_chain") + "".join(
    f"  - step: {'start' if number == 0 else f's{number}'}\n    tool: {{ {CALL % number} }}\n"
    + (f"    next: {{ arcs: [{{ step: s{number + 1} }}] }}\n" if number + 1 < STEPS else "")
    for number in range(STEPS)
)
LOOP = (
    HEAD.format(name="killed_loop")
    + f'  - step: start\n    loop: {{ in: "{{{{ range({ITEMS}) | list }}}}", iterator: item, spec: {{ mode: parallel, max_in_flight: 4 }} }}\n'
    + f"    tool: {{ {CALL % '{{ item }}'} }}\n    next: {{ arcs: [{{ step: sum }}] }}\n"
    + '  - step: sum\n    tool: { kind: python, args: { all: "{{ start }}" }, '
    + "code: \"result = sorted(one['data']['n'] for one in all)\", "
    + AGAIN
    + " }\n"
)
FORK = (
    HEAD.format(name="killed_fork")
    + "  - step: start\n    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }\n"
    + "".join(
        f"  - step: {name}\n    tool: {{ {CALL % name} }}\n    next: {{ arcs: [{{ step: both }}] }}\n"
        for name in "ab"
    )
    + "  - step: both\n    spec: { join: all }\n"
    + '    tool: { kind: python, args: { a: "{{ a.n }}", b: "{{ b.n }}" }, code: "result = [a, b]", '
    + AGAIN
    + " }\n"
)
WANTED: dict[str, tuple[str, list[str]]] = {
    "chain": (CHAIN, [str(number) for number in range(STEPS)]),
    "loop": (LOOP, [str(number) for number in range(ITEMS)]),
    "fork": (FORK, ["a", "b"]),
}


@dataclass
class Service:
    """Answers the last part of the path as ``n``, and keeps the idempotency key of each request."""

    keys: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, path: str, key: str) -> None:
        with self.lock:
            self.keys[path].add(key)
            self.asked += 1


@contextmanager
def serving(service: Service) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            service.note(self.path, self.headers.get("idempotency-key", ""))
            body = json.dumps({"n": self.path.rpartition("/")[2]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing: a worker that is killed leaves its connection."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def soon_back(deployment: Any) -> Iterator[None]:
    """Messages of a killed function come back soon."""
    with ExitStack() as stack:
        for queue in ("commands-io", "commands-python", "events.fifo"):
            stack.enter_context(deployment.visibility(queue, BACK_SECONDS))
        stack.enter_context(short_back_off(deployment, *FUNCTIONS))
        yield


@pytest.mark.full
def test_nothing_is_lost_doubled_or_stuck(deployment: Any, remote: Remote, soon_back: None) -> None:
    killed: Counter[str] = Counter()
    seed = SEED
    while killed.total() < KILLS:
        play(deployment, remote, seed, min(KILLS_OF_A_ROUND, KILLS - killed.total()), killed)
        print(f"seed {seed}: {killed.total()} of {KILLS} kills, {dict(killed)}", flush=True)
        seed += 1


def play(deployment: Any, remote: Remote, seed: int, kills: int, killed: Counter[str]) -> None:
    """Start executions, kill functions between what they do, and judge every execution at its end."""
    rng, service = random.Random(seed), Service()
    with serving(service) as address:
        made = {name: remote.register(text)["catalog_id"] for name, (text, _) in WANTED.items()}
        begun = [
            (name, remote.start(playbook_id=made[name], payload={"url": f"{address}/{number}"}))
            for number, name in enumerate(name for _ in range(EXECUTIONS // len(WANTED)) for name in WANTED)
        ]
        left, open_ones = kills, {one: name for name, one in begun}
        while open_ones and left > 0:
            before = service.asked
            for name in rng.sample(FUNCTIONS, len(FUNCTIONS)):
                if found := deployment.kill(name):
                    killed[name] += found
                    left -= found
                    break
            wait_until(
                lambda before=before: service.asked > before or not still_open(remote, open_ones), "progress"
            )
        for _, execution_id in begun:
            run = remote.follow(execution_id, seconds=10 * PATIENCE)
            assert run.status == "completed", (seed, execution_id, run.error)
    for number, (name, execution_id) in enumerate(begun):
        judge(remote, service, f"/{number}", name, execution_id)


def still_open(remote: Remote, executions: dict[str, str]) -> bool:
    """Forget those that have ended; return whether any is left."""
    for execution_id in [one for one in executions if remote.status(one)["ended"]]:
        del executions[execution_id]
    return bool(executions)


def judge(remote: Remote, service: Service, place: str, name: str, execution_id: str) -> None:
    """Every call was made, each with one key; the result is right; the history obeys its laws."""
    calls = WANTED[name][1]
    assert {path for path in service.keys if path.startswith(f"{place}/")} == {
        f"{place}/{one}" for one in calls
    }
    assert all(len(service.keys[f"{place}/{one}"]) == 1 for one in calls), (
        "a call that was made as another one"
    )
    run = remote.seen(execution_id)
    wanted: dict[str, Any] = {"chain": {"n": str(STEPS - 1)}, "loop": sorted(calls), "fork": ["a", "b"]}
    found = run.result if name != "chain" else run.result["data"]
    assert found == wanted[name], execution_id
    store = remote.store
    members = family(store.executions(limit=100_000), int(execution_id))
    for info in members:
        audit_one(store, info)
        applied = Counter(row.event_id for row in store.events(info.execution_id, limit=100_000))
        assert max(applied.values()) == 1, f"{execution_id} was moved on twice by {applied.most_common(1)}"
    check_ended(store, members)
