"""Workers that fetch their commands from ``noetl serve`` over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from noetl.domain.capability_tokens import KeyRing
from noetl.domain.commands import Command
from noetl.domain.kinds import TaskResult
from noetl.domain.messages import decode_message
from noetl.kinds.registry import Registry
from noetl.ports.workers import Seen
from noetl.runtime.server import serve as serving
from noetl.runtime.server.http_connection import Connection
from noetl.runtime.server.http_worker import HttpWorker, WorkerOptions
from noetl.runtime.server.serve import Server
from noetl.runtime.settings import Settings
from tests.integration.api.test_serve import Client, Serve, serve  # noqa: F401
from tests.parts import parted
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

WORK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: work, path: demo/work }
workload: { n: 3 }
workflow:
  - step: start
    tool: { kind: noop, args: { n: "{{ workload.n }}" } }
    next: many
  - step: many
    loop: { in: "{{ range(12) | list }}", iterator: i, mode: parallel }
    tool: { kind: python, code: "def main(i):\\n    return i * i", args: { i: "{{ i }}" } }
    next: large
  - step: large
    tool: { kind: python, code: "def main():\\n    print('pack')\\n    return {'text': 'x' * 90000, 'n': 7}", spec: { result: { store: db } } }
"""


@pytest.fixture
def server(serve: Serve) -> Iterator[Server]:  # noqa: F811
    with serve(external=("python",), worker_lease=1.2) as made:
        yield made


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.address, server.tokens.add("tester", ["admin", "worker"]))


def claim(client: Client, name: str, limit: int = 1) -> list:
    def claimed() -> list:
        status, found = client("POST", "/api/commands/claim", {"name": name, "limit": limit})
        assert status == 200, found
        return found["commands"]

    return wait_until(claimed, "a command to claim")


def register(client: Client, name: str, **more) -> None:
    body = {"name": name, "pool": "python", "capacity": 2, **more}
    assert client("POST", "/api/worker/pool/register", body)[0] == 200


@contextmanager
def working(
    address: str, token: str, capacity: int, home: Path, kinds: Registry | None = None
) -> Iterator[HttpWorker]:
    """Run a worker in a thread; it has ended after the block."""
    worker = HttpWorker(
        WorkerOptions(address, token, "python", capacity, grace=2.0),
        Settings(home, None, python_workers=1),
        kinds,
    )
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE)
        worker.close()
    assert not thread.is_alive()


def test_a_worker_runs_what_its_server_leaves_to_it(server, client, tmp_path):
    client.register(WORK)
    execution_id = client.start("demo/work")
    with working(server.address, client.token, 2, tmp_path / "worker"):
        client.until(execution_id, "completed")
    _, found = client("GET", f"/api/executions/{execution_id}/result")
    assert found["result"] == {"text": "x" * 90000, "n": 7}
    _, told = client("GET", f"/api/executions/{execution_id}/events")
    _, printed = client("GET", f"/api/executions/{execution_id}/logs")
    assert [(line["step"], line["line"]) for line in printed["lines"]] == [("large", "pack")]
    assert "'store': 'db'" in str(told), (
        "the server kept it in the tier that was asked for, and the worker knows"
    )
    _, found = client(
        "POST", "/api/context/render", {"execution_id": execution_id, "template": "{{ many | sum }}"}
    )
    assert found["rendered"] == sum(i * i for i in range(12)), found
    assert client("GET", "/api/worker/pools")[1] == {"workers": [], "pools": []}, "it said goodbye"


FAMILY = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: demo/parent }
workflow:
  - { step: start, tool: { kind: python, code: "result = {'text': 'x' * 90000}" }, next: below }
  - { step: below, tool: { kind: playbook, path: demo/child, args: { given: "{{ start }}" } }, next: last }
  - step: last
    tool: { kind: python, code: "result = [len(mine['text']), len(back['text'])]", args: { mine: "{{ start }}", back: "{{ below }}" } }
"""
CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child, path: demo/child }
workload: { given: {} }
workflow:
  - step: start
    tool: { kind: python, code: "result = {'text': given['text'] * 2}", args: { given: "{{ workload.given }}" } }
"""


def test_a_worker_reads_large_values_that_went_down_to_a_child_and_came_back(server, client, tmp_path):
    client.register(CHILD)
    client.register(FAMILY)
    execution_id = client.start("demo/parent")
    with working(server.address, client.token, 2, tmp_path / "worker"):
        assert client.until(execution_id, "completed", "failed")["status"] == "completed"
    assert client("GET", f"/api/executions/{execution_id}/result")[1]["result"] == [90_000, 180_000]


def test_a_silent_worker_loses_its_command_to_another_and_its_late_answer_counts_for_nothing(server, client):
    client.register(WORK)
    execution_id = client.start("demo/work")
    register(client, "silent", capacity=1)
    register(client, "able", capacity=100)
    (first,) = claim(client, "silent")
    message = decode_message(first["message"])
    assert message.command is not None and message.command.execution_id == int(execution_id)
    claims: list[dict] = []

    def lost() -> bool:
        claims.extend(claim(client, "able"))
        return claims[-1]["command_id"] == first["command_id"]

    wait_until(lost, "the command of the silent worker")
    found = claims[-1]
    assert found["attempt"] == first["attempt"] + 1
    pools = {one["name"]: one["running"] for one in client("GET", "/api/worker/pools")[1]["workers"]}
    assert pools["silent"] == 0
    assert client("POST", "/api/worker/pool/deregister", {"name": "able"})[0] == 200
    assert client("POST", "/api/worker/pool/heartbeat", {"name": "able"})[0] == 404
    _, status = client("GET", f"/api/executions/{execution_id}/status")
    assert status["status"] == "running"


@pytest.fixture
def patient(serve: Serve) -> Iterator[Client]:  # noqa: F811
    """The client of a server that takes a command from no worker while a test lasts."""
    with serve(external=("python",), worker_lease=10 * PATIENCE) as made:
        yield Client(made.address, made.tokens.add("tester", ["admin", "worker"]))


def test_a_worker_that_works_is_full_and_giving_back_frees_its_command_at_once(patient):
    """How long signs of life keep a command is a matter of the store, whose tests have a clock of their own."""
    client = patient
    client.register(WORK)
    client.start("demo/work")
    register(client, "slow", capacity=1)
    register(client, "other", capacity=1)
    (held,) = claim(client, "slow")
    assert client("POST", "/api/commands/claim", {"name": "slow"})[1]["commands"] == [], "it is full"
    sign = {"name": "command.heartbeat", "command": held["command"]}
    status, told = client("POST", "/api/events", sign)
    assert (status, told["wanted"]) == (202, True)
    (slow,) = [one for one in client("GET", "/api/worker/pools")[1]["workers"] if one["name"] == "slow"]
    assert slow["running"] == 1
    assert client("POST", "/api/commands/give-back", {"command": held["command"]})[0] == 200
    forged = KeyRing.of(["somebody else's secret"])
    assert forged and client("POST", "/api/commands/give-back", {"command": "x"})[0] == 422
    assert client("POST", "/api/events", sign)[1]["wanted"] is False, (
        "a further attempt of it is for somebody else"
    )
    found = [claim(client, "slow")[0]["command_id"]]
    assert found


ONE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one, path: demo/one }
workflow: [{ step: start, tool: { kind: python, code: "result = 1" } }]
"""


@contextmanager
def claiming(server: Server, client: Client, name: str) -> Iterator[list]:
    """Claim in another thread, and wait for a command there; the block begins when the server waits."""
    found: list = []
    before = waiting_claims(server)
    body = {"name": name, "wait": WAIT}
    thread = threading.Thread(
        target=lambda: found.extend(client("POST", "/api/commands/claim", body)[1]["commands"]), daemon=True
    )
    thread.start()
    wait_until(lambda: waiting_claims(server) == before + 1, "a claim that waits")
    yield found
    thread.join(PATIENCE)
    assert not thread.is_alive()


@contextmanager
def waiting_by_hand(server: Server, client: Client, name: str) -> Iterator[None]:
    """Claim and wait over a connection of its own, which is closed at the end without an answer."""
    host, port = server.address.removeprefix("http://").split(":")
    before = waiting_claims(server)
    body = json.dumps({"name": name, "wait": WAIT})
    head = (
        f"POST /api/commands/claim HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {client.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as made:
        made.sendall((head + body).encode())
        wait_until(lambda: waiting_claims(server) == before + 1, "a claim that waits")
        yield


def waiting_claims(server: Server) -> int:
    return len(server.workers.news._waiting.get("python", ()))


WAIT = 60


@pytest.fixture
def unlooking(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:  # noqa: F811
    """A server that looks for commands only when one was offered."""
    monkeypatch.setattr(serving, "LOOK_SECONDS", 2.0 * WAIT)
    with serve(external=("python",), worker_lease=10 * PATIENCE) as made:
        yield made


@pytest.fixture
def starter(unlooking: Server) -> Client:
    """A client of this server, which has the playbook of one step."""
    client = Client(unlooking.address, unlooking.tokens.add("tester", ["admin", "worker"]))
    client.register(ONE)
    return client


def test_a_claim_that_waits_gets_a_command_when_it_is_offered(unlooking: Server, starter: Client) -> None:
    for name in ("first", "second"):
        register(starter, name)
    with claiming(unlooking, starter, "first") as first, claiming(unlooking, starter, "second") as second:
        starter.start("demo/one")
        wait_until(lambda: first, "the claim that has waited longest")
        assert not second
        starter.start("demo/one")
    assert len(first) == len(second) == 1
    assert first[0]["execution_id"] != second[0]["execution_id"]


def test_a_command_goes_to_no_worker_that_has_gone_while_it_waited(
    unlooking: Server, starter: Client
) -> None:
    """Its lease would keep the command from others."""
    for name in ("gone", "here"):
        register(starter, name)
    with waiting_by_hand(unlooking, starter, "gone"):
        pass
    with claiming(unlooking, starter, "here") as found:
        starter.start("demo/one")
    assert len(found) == 1


def test_a_command_that_was_claimed_for_a_worker_that_has_gone_meanwhile_goes_to_another(
    unlooking: Server, starter: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gone", "here"):
        register(starter, name)
    claims, take = unlooking.workers, unlooking.workers._take
    leaving, left = threading.Event(), threading.Event()

    def slow(seen: Seen, limit: int, only: tuple[int, str] | None) -> Sequence[Command]:
        found = take(seen, limit, only)
        if found and seen.worker.name == "gone":
            leaving.set()
            assert left.wait(PATIENCE)
        return found

    monkeypatch.setattr(claims, "_take", slow)
    gone, lost = threading.Event(), Connection.connection_lost

    def noted(connection: Connection, exc: Exception | None) -> None:
        unanswered = connection.working  # those of requests that were answered close as well
        lost(connection, exc)
        if unanswered:
            gone.set()

    monkeypatch.setattr(Connection, "connection_lost", noted)
    with waiting_by_hand(unlooking, starter, "gone"):
        starter.start("demo/one")
        assert leaving.wait(PATIENCE)
    assert gone.wait(PATIENCE)
    left.set()
    assert claim(starter, "here")


def test_a_claim_that_waits_gets_nothing_once_its_token_is_removed(
    unlooking: Server, starter: Client
) -> None:
    other = Client(unlooking.address, unlooking.tokens.add("leaver", ["worker"]))
    register(other, "leaver-1")
    register(starter, "here")
    with claiming(unlooking, other, "leaver-1") as refused:
        unlooking.tokens.remove("leaver")
        starter.start("demo/one")
    assert refused == [] and claim(starter, "here")


def test_a_command_passes_by_workers_that_cannot_have_it(unlooking: Server, starter: Client) -> None:
    for name, capacity in (("full", 1), ("left", 1), ("idle", 1)):
        register(starter, name, capacity=capacity)
    starter.start("demo/one")
    claim(starter, "full")
    with (
        claiming(unlooking, starter, "full") as full,
        waiting_by_hand(unlooking, starter, "left"),
        claiming(unlooking, starter, "idle") as found,
    ):
        starter("POST", "/api/worker/pool/deregister", {"name": "left"})
        starter.start("demo/one")
        wait_until(lambda: found, "the worker that has room")
        unlooking.workers.news.release()
    assert full == []


def test_a_server_that_ends_answers_the_claims_that_wait(serve: Serve) -> None:  # noqa: F811
    with serve(external=("python",)) as server:
        client = Client(server.address, server.tokens.add("tester", ["admin", "worker"]))
        register(client, "idle")
        with claiming(server, client, "idle") as found:
            server.workers.news.release()
        assert found == []


CALLS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: calls, path: demo/calls }
workload: { n: 2 }
workflow:
  - step: start
    tool: [ { kind: python, name: first, code: "result = 1" }, { kind: python, name: second, code: "result = 2" } ]
"""
ITEMS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: calls, path: demo/calls }
workload: { n: 2 }
workflow:
  - step: start
    loop: { in: [1, 2], iterator: i, mode: sequential }
    tool: { kind: python, name: each, code: "result = i" }
"""


class Held(Registry):
    """The kinds there are; a call tells its label and waits until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.may_end = threading.Event()

    def run(self, name, raw_params, context):
        self.calls.append(context.task)
        assert self.may_end.wait(PATIENCE)
        return TaskResult(len(self.calls))


@pytest.mark.parametrize(
    ("playbook", "cancelled"),
    parted([(CALLS, True), (ITEMS, True), (CALLS, False), (ITEMS, False)], [(ITEMS, True)]),
)
def test_a_worker_begins_no_call_after_its_execution_was_cancelled(patient, tmp_path, playbook, cancelled):
    """And it goes on where nobody has cancelled anything."""
    patient.register(playbook)
    execution_id = patient.start("demo/calls")
    kinds = Held()
    with working(patient.address, patient.token, 1, tmp_path / "worker", kinds) as worker:
        try:
            wait_until(lambda: kinds.calls, "the first call")
            if cancelled:
                status, _ = patient("POST", f"/api/executions/{execution_id}/cancel", {"reason": "test"})
                assert status in (200, 202)
                patient.until(execution_id, "cancelled")
            kinds.may_end.set()
            wait_until(lambda: worker.loop.running == 0, "the end of the command")
        finally:
            kinds.may_end.set()
    assert len(kinds.calls) == (1 if cancelled else 2)
    patient.until(execution_id, "cancelled" if cancelled else "completed")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/api/worker/pool/register", {"name": "w", "pool": "gpu"}, 422, "pool_unknown"),
        ("POST", "/api/worker/pool/register", {"name": "", "pool": "io"}, 422, "body_invalid"),
        ("POST", "/api/worker/pool/register", {"name": "w", "capacity": 0}, 422, "body_invalid"),
        ("POST", "/api/commands/claim", {"name": "nobody"}, 404, "worker_not_found"),
        ("POST", "/api/worker/pool/deregister", {"name": "nobody"}, 404, "worker_not_found"),
        ("GET", "/api/programs/nothing", None, 404, None),
        ("GET", "/api/result/resolve?ref=noetl://execution/1/result/a/../b", None, 400, "invalid_reference"),
        ("GET", "/api/result/resolve?ref=file:///etc/passwd", None, 400, "invalid_reference"),
        ("PUT", "/api/result/7/x", "[1]", 403, "command_refused"),
    ],
)
def test_what_does_not_fit_is_refused(server, client, method, path, body, status, code):
    found, answer = client(method, path, body)
    assert found == status and code in (None, answer["code"]), answer


def test_a_server_names_the_pools_it_can_leave_to_others(serve: Serve):  # noqa: F811
    from noetl.domain.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match="no pool 'gpu'"), serve(external=("gpu",)):
        pass


def test_the_command_reads_its_token_from_a_file(tmp_path: Path):
    from typer.testing import CliRunner

    from noetl.cli.app import app

    asked = [
        "worker",
        "start",
        "--server",
        "http://127.0.0.1:1",
        "--home",
        str(tmp_path),
        "--token-file",
        "nowhere",
    ]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code != 0 and "nowhere" in str(found.exception)
