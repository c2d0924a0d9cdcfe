"""The API over stores in memory, with the real engine and worker behind it: whatever is published is handled when a test says so."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from noetl.adapters.embedded.credentials import FileCredentials
from noetl.api.deps import ApiDeps
from noetl.api.http.access import SCOPES
from noetl.api.http.browser_sessions import BrowserSessions
from noetl.api.http.dispatch import Api
from noetl.api.http.exchange import Principal
from noetl.api.http.gateway import make_resolver
from noetl.api.http.local_tokens import LocalTokens
from noetl.api.http.openapi import document
from noetl.api.http.routing import Router
from noetl.api.table import ROUTES, Route
from noetl.domain.callbacks import proofs
from noetl.domain.capability_tokens import KeyRing, grant
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NoetlError, NotFoundError
from noetl.domain.events import Event
from noetl.domain.workers.command_token import HEADER, Capability
from noetl.domain.workers.lease_owners import offered
from noetl.dsl.program import Program
from noetl.ports.executions.execution_store import Published
from noetl.ports.gauges import QueueGauge
from noetl.ports.test_runs import TestedBranch, TestedCase, TestRun
from noetl.services.automations.schedules import ScheduleDeps
from noetl.services.messaging.backpressure import Backpressure
from noetl.services.orchestrator.authenticate import MessageAuthenticator
from noetl.services.orchestrator.ingest_worker_events import EventsDeps
from noetl.services.worker.http_worker_leases import Claims
from noetl.services.worker.worker_credentials import KnownCredentials
from tests.doubles.event_batches import MemoryEventBatches
from tests.doubles.inspection import MemoryInspection
from tests.doubles.saved_views import MemorySavedViews
from tests.doubles.schedules import MemorySchedules
from tests.doubles.workers import MemoryWorkers
from tests.unit.cli.fake_runtime import Database, FakeHistorySql, MemoryRuntime

ARN = "arn:aws:sts::123456789012:assumed-role/Deploy/ci"
LOOPED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: loops, path: demo/loops}
workflow:
  - step: start
    loop: {in: "{{ range(7) | list }}", iterator: n, spec: {mode: parallel, policy: {failure: {mode: best_effort}}}}
    tool: {kind: double, value: "{{ 6 / (iter.n % 3) }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: double, value: 1}
"""
HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: demo/hello}
workload: {n: 21}
workflow:
  - step: start
    tool: {kind: double, value: "{{ workload.n }}"}
"""
GATED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: gated, path: demo/gated}
workload: {}
workflow:
  - step: start
    tool: {kind: double, value: 1}
    next: {arcs: [{step: gate}]}
  - step: gate
    spec:
      policy:
        admit: {rules: [{when: "{{ ctx.approved | default(false) }}", then: {allow: true}}, {else: {then: {allow: false}}}]}
    tool: {kind: double, value: 4}
"""
BROKEN = HELLO.replace("kind: double", "kind: doubel")
FAILING = HELLO.replace("demo/hello", "demo/failing").replace('double, value: "{{ workload.n }}"', "boom")

_numbers = itertools.count(1)
_ROUTER = Router(ROUTES)


@functools.cache
def openapi() -> dict[str, Any]:
    """The document of the API, which a test that needs it makes: every process of the suite imports this module."""
    return document()


@functools.cache
def operation(name: str) -> Mapping[str, Any]:
    """What the document says of one operation."""
    (found,) = [
        one for path in openapi()["paths"].values() for one in path.values() if one["operationId"] == name
    ]
    return found


class Reply:
    def __init__(self, raw: dict[str, Any]) -> None:
        self.status: int = raw["statusCode"]
        self.headers: dict[str, str] = raw["headers"]
        self.text: str = raw["body"]

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    def __repr__(self) -> str:
        return f"<{self.status} {self.text[:300]}>"


@dataclass
class FakePublisher:
    sent: list[Event] = field(default_factory=list)
    away: bool = False

    def owner(self) -> str:
        return "api-invocation"

    def events(self, owner: str, events: Sequence[Event]) -> None:
        if self.away:
            raise InfrastructureError("the queue does not answer", code="aws_unreachable")
        self.sent += events


def shown_command(execution_id: int, keys: KeyRing) -> dict[str, str]:
    """The header of a worker that was given a command of ``execution_id``."""
    command = Command(execution_id, "1", 1, "start", "p", "io")
    return {HEADER: Capability.of(command, grant(command, keys)).header()}


class FakeTestRunner:
    """Passes every test file."""

    def run(self, files: Mapping[str, str]) -> TestRun:
        case = TestedCase("one", 1, True, "completed", 1.0, ["start"], {}, [])
        return TestRun([case], [TestedBranch(1, 1, "step", "step start", True)], [], 1)


class Ground:
    """``ask`` sends a request; ``settle`` lets the engine and workers finish what was published."""

    def __init__(
        self,
        auth: str = "iam",
        grants: dict[str, str] | None = None,
        workers: tuple[str, ...] = (),
        **deps: Any,
    ) -> None:
        self.database = Database()
        self.runtime = MemoryRuntime(self.database)
        self.store = self.database.store
        self.publisher = FakePublisher()
        self.kept: dict[str, Program] = {}
        self.logs: list[str] = []
        self.reconnected = 0
        self.failing: dict[str, NoetlError] = {}
        self.fires = MemorySchedules()
        self.deps = ApiDeps(
            store=self.store,
            catalog=self.database.catalog,
            schedules=ScheduleDeps(
                self.database.schedules,
                self.fires,
                self.database.catalog,
                self.database.programs,
                self.database.clock,
            ),
            triggers=self.database.triggers,
            variables=self.store,
            saved_views=MemorySavedViews(self.database.clock),
            inspection=MemoryInspection(self.store),
            metrics=lambda: "noetl_live 0\n",
            history_sql=FakeHistorySql(),
            test_runner=FakeTestRunner(),
            credentials=self.database.credentials,
            names=KnownCredentials(self.database.credentials.store, FileCredentials(None)),
            events=self._events(),
            workers=Claims(MemoryWorkers(self.store), self.store, {"io"}, keeps_pools=True),
            results=self.database.results,
            prune=self.database.prune,
            task_logs=self.database.task_logs,
            programs=self.database.programs,
            compile=self.database.programs.cache.compile,
            kinds=lambda: self.database.programs.cache.kinds,
            keep=lambda program: self.kept.__setitem__(program.hash, program),
            publisher=self.publisher,
            link=lambda uri, seconds, store: (
                f"https://bucket.example/{uri.rpartition('/')[2]}?expires={seconds}"
            ),
            linked=_linked,
            gauges=lambda: [QueueGauge("events.fifo", 3, 1, 0), QueueGauge("commands-io", 7, 2, 1, 4)],
            pressure=Backpressure(MemoryInspection(self.store).backlog, 1000, lambda: 0.0),
            checks={"database": lambda: self._check("database"), "bucket": lambda: self._check("bucket")},
            clock=self.database.clock,
            reconnect=self._reconnect,
            log=self.logs.append,
            sessions=BrowserSessions(
                Path(tempfile.gettempdir()) / f"noetl-sessions-{next(_numbers)}.json",
                self,
                self.database.clock,
            ),
            tokens=LocalTokens(self._folder() / "tokens.json", self.database.clock),
        )
        self.deps = replace(self.deps, **deps)
        self.runtime.deps = replace(self.runtime.deps, proofs=lambda found: proofs(found, self.keys))
        self.opened = 0
        self.api = Api(
            self._open, auth, grants or {}, {"stack": "Noetl-test", "version": "1"}, self.logs.append, workers
        )
        self.resolve = make_resolver(self.api)

    def _events(self) -> EventsDeps:
        self.keys = KeyRing.of(["a key of this test"])
        self.forwarded: list[Event] = []
        self.refusals: list[str] = []
        self.signs: list[tuple[int, str, int, int]] = []
        door = MessageAuthenticator(
            self.store, self.database.results, lambda fresh: self.keys, self.database.clock, self.logs.append
        )
        return EventsDeps(
            door,
            self.store,
            MemoryEventBatches(self.database.clock),
            forward=lambda found: self.forwarded.extend(event for _, event in found),
            refused=self.refusals.append,
            renew_lease=lambda *command: self.signs.append(command),
        )

    def _folder(self) -> Path:
        made = tempfile.mkdtemp(prefix="noetl-ground-")
        weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return Path(made)

    def of_account(self, account: str) -> Principal | None:
        return Principal(account, "iam", account, SCOPES)

    def _open(self) -> ApiDeps:
        self.opened += 1
        return self.deps

    def _reconnect(self) -> None:
        self.reconnected += 1

    def _check(self, name: str) -> None:
        if name in self.failing:
            raise self.failing[name]

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        reply = Reply(self.resolve(request(method, path, body, **options), None))
        check_documented(method, path, reply.status)
        return reply

    def register(self, text: str = HELLO) -> Any:
        reply = self.ask("POST", "/api/catalog/register", text, headers={"content-type": "application/yaml"})
        assert reply.status in (200, 201), reply
        return reply.json

    def start(self, path: str = "demo/hello", **body: Any) -> str:
        reply = self.ask("POST", "/api/executions", {"path": path, **body})
        assert reply.status == 201, reply
        return reply.json["execution_id"]

    def settle(self) -> None:
        self.runtime.events += self.publisher.sent
        self.publisher.sent = []
        self.store.heartbeat(self.runtime.owner, 1e9)
        self.runtime.run_until([])

    def decide(self) -> None:
        """Let the engine handle what was published, and whatever follows; no command is run."""
        self.store.heartbeat(self.runtime.owner, 1e9)
        batch, self.publisher.sent = [*self.publisher.sent, *self.runtime.events], []
        while batch:
            self.runtime.events = []
            self.runtime._handle(batch)
            batch = self.runtime.events

    def issued(self, text: str = HELLO) -> Command:
        """The first command of an execution that was just started; nobody runs it."""
        self.start(self.register(text)["path"])
        self.store.heartbeat(self.runtime.owner, 1e9)
        self.runtime._handle(self.publisher.sent)
        self.publisher.sent = []
        command = self.runtime.commands.pop()
        assert isinstance(command, Command)
        return command

    def offered(self, text: str = HELLO) -> Command:
        """The same, for workers of the pool ``io``."""
        command = self.issued(text)
        self.store.heartbeat(offered("io"), 1e9)
        self.store.hand_over(self.runtime.owner, Published(commands=[command]), heir=offered("io"))
        return command

    def capability(self, command: Command) -> Capability:
        """What a worker is given with a command."""
        return Capability.of(command, grant(command, self.keys))

    def shown(self, execution_id: str) -> dict[str, str]:
        """The header of a worker that was given a command of this execution."""
        return shown_command(int(execution_id), self.keys)

    def headers_for(self, route: Route, execution_id: object) -> dict[str, str]:
        """What a route asks for besides a scope."""
        return self.shown(str(execution_id)) if route.of_command else {}

    def run(self, text: str = HELLO, **body: Any) -> str:
        """Register, start, and let it end."""
        path = self.register(text)["path"]
        execution_id = self.start(path, **body)
        self.settle()
        return execution_id


def check_documented(method: str, path: str, status: int) -> None:
    """A route answers nothing that docs/openapi.json does not know (our own defects apart)."""
    found = _ROUTER.find(method, path)
    if found is not None and status != 500:
        assert str(status) in operation(found[0].name)["responses"], (found[0].name, status)


def _linked(token: str) -> tuple[str, str]:
    if token != "token-of-x":
        raise NotFoundError("no link", code="link_invalid")
    return "noetl://execution/1/result/start/x", "memory"


def request(
    method: str,
    path: str,
    body: Any = None,
    *,
    query: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    authorizer: dict[str, Any] | None = None,
    base64: bool = False,
) -> dict[str, Any]:
    """An event of an HTTP API (payload 2.0)."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **(headers or {})},
        "queryStringParameters": query or {},
        "requestContext": {
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "test",
            },
            "requestId": f"request-{next(_numbers)}",
            "stage": "$default",
            "authorizer": {"iam": {"userArn": ARN}} if authorizer is None else authorizer,
        },
        "body": text,
        "isBase64Encoded": base64,
    }
