"""One deployment for all end-to-end tests: `noetl local up` with a home and ports of its own, taken down at the end.

The tests of this folder share it, so xdist gets them as one group. What a run that was killed left running is stopped by the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import localstack_client.session
import pytest
from psycopg import conninfo

from noetl.adapters.postgres import PostgresExecutionStore
from noetl.local import aws, state
from noetl.local.emulator import free_port
from noetl.local.layout import Layout
from tests.e2e.remote import Remote
from tests.e2e.script_server import make_site
from tests.notes import NOTES
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
HOMES = Path(tempfile.gettempdir())
RUNNING = "NOETL_E2E_HOME"
"""Home of a deployment that is up already, for those who write tests; it is left as it is.

``noetl local up --home HOME --functions-site "$(python -m tests.e2e.script_server HOME)"``
"""
UP_SECONDS = 600
PORTS, TAKEN = 3, "is already in use"
"""How many ports are tried, and what the emulator says of one that it does not get."""
TEST_SECONDS = 900
"""Of a test: the first one waits for the deployment."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/e2e/") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@dataclass(frozen=True)
class Answer:
    """Of the API. ``body`` is the decoded JSON, or text when it is none."""

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Deployment:
    """The deployed system. ``url`` is the API's, without a slash at its end; ``endpoint`` the emulator's."""

    environment: str
    endpoint: str
    url: str
    outputs: Mapping[str, Mapping[str, str]]
    home: Path

    def api(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Ask the API; ``body`` is sent as JSON. Statuses that mean failure are answers, too."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return _answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return _answer(refused.code, refused.headers, refused.read())

    def client(self, service: str) -> Any:
        """A boto3 client of the emulator, made by localstack-client."""
        host = self.endpoint.removeprefix("http://")
        return localstack_client.session.Session(localstack_host=host).client(service)

    def output(self, name: str) -> str:
        """An output of any stack."""
        found = [values[name] for values in self.outputs.values() if name in values]
        assert len(found) == 1, f"output {name}: {found} in {json.dumps(self.outputs, indent=1)}"
        return found[0]

    def queue_url(self, name: str) -> str:
        """The URL of ``noetl-<environment>-<name>``, such as ``commands-dlq``."""
        url: str = self.client("sqs").get_queue_url(QueueName=f"noetl-{self.environment}-{name}")["QueueUrl"]
        return url

    def queue_depth(self, name: str) -> int:
        """Messages in a queue, waiting, delayed or being handled."""
        return self._messages(name, "", "Delayed", "NotVisible")

    def in_flight(self, name: str) -> int:
        """Messages of a queue that are being handled."""
        return self._messages(name, "NotVisible")

    def _messages(self, name: str, *kinds: str) -> int:
        counts = [f"ApproximateNumberOfMessages{kind}" for kind in kinds]
        answer = self.client("sqs").get_queue_attributes(QueueUrl=self.queue_url(name), AttributeNames=counts)
        return sum(int(answer["Attributes"][count]) for count in counts)

    def database(self) -> str:
        """Connection string of the deployed database, as its owner."""
        owner = self.client("secretsmanager").get_secret_value(
            SecretId=f"noetl/{self.environment}/database/owner"
        )
        value = json.loads(owner["SecretString"])
        return conninfo.make_conninfo(
            host=value["host"],
            port=value["port"],
            user=value["username"],
            password=value["password"],
            dbname=value["dbname"],
        )

    def function(self, name: str) -> str:
        """A function's full name: ``engine`` is ``noetl-<environment>-engine``."""
        return f"noetl-{self.environment}-{name}"

    def invoke(self, name: str, payload: Any) -> tuple[Any, dict[str, str] | None]:
        """Call a function; gives its answer, or its error."""
        return aws.invoke(self.client("lambda"), self.function(name), payload)

    def logs(self, name: str, since: float = 0.0) -> list[str]:
        """Every line that a function has printed since then (Unix time)."""
        full = self.function(name)
        groups = aws.functions(self.client("lambda"))
        lines = aws.log_lines(self.client("logs"), {full: groups[full]}, since, follow=False)
        return [str(entry["line"]) for entry in lines]

    @contextlib.contextmanager
    def visibility(self, name: str, seconds: int) -> Iterator[None]:
        """How soon a message that was not acknowledged comes back; deployed it is the function's timeout.

        For the length of the block: with a short time a slow machine delivers again what is being worked on.
        """
        sqs, url, attribute = self.client("sqs"), self.queue_url(name), "VisibilityTimeout"
        before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[attribute])["Attributes"][attribute]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={attribute: str(seconds)})
        try:
            yield
        finally:
            sqs.set_queue_attributes(QueueUrl=url, Attributes={attribute: before})

    @contextlib.contextmanager
    def receives(self, name: str, count: int) -> Iterator[None]:
        """How often a message of this queue is delivered before it is a dead letter; deployed it is 500 times. For the length of the block."""
        sqs, url, attribute = self.client("sqs"), self.queue_url(name), "RedrivePolicy"
        before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[attribute])["Attributes"][attribute]
        policy = {**json.loads(before), "maxReceiveCount": count}
        sqs.set_queue_attributes(QueueUrl=url, Attributes={attribute: json.dumps(policy)})
        try:
            yield
        finally:
            sqs.set_queue_attributes(QueueUrl=url, Attributes={attribute: before})

    def event_source(self, name: str) -> dict[str, Any]:
        """The mapping that gives a function the messages of its only queue."""
        (mapping,) = self.client("lambda").list_event_source_mappings(FunctionName=self.function(name))[
            "EventSourceMappings"
        ]
        return dict(mapping)

    @contextlib.contextmanager
    def concurrency(self, name: str, count: int) -> Iterator[None]:
        """How many invocations a function may have at once for its queue, at least two; deployed a worker has four. For the length of the block.

        A test that holds the answers of several commands back needs one for each: how many of them share an invocation is a matter of speed.
        """
        client, mapping = self.client("lambda"), self.event_source(name)
        client.update_event_source_mapping(
            UUID=mapping["UUID"], ScalingConfig={"MaximumConcurrency": max(2, count)}
        )
        try:
            yield
        finally:
            client.update_event_source_mapping(UUID=mapping["UUID"], ScalingConfig=mapping["ScalingConfig"])

    def kill(self, name: str) -> int:
        """Kill every process that runs this function at the moment; gives how many there were."""
        place = f"{self.home / 'local' / 'tmp' / 'ministack-lambda-'}{self.function(name)}-"
        killed = 0
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if any(part.startswith(place) for part in entry.read_text().split("\0")):
                    os.kill(int(entry.parent.name), signal.SIGKILL)
                    killed += 1
        return killed


@pytest.fixture(scope="session")
def deployment() -> Iterator[Deployment]:
    if shutil.which("node") is None and not os.environ.get("CI"):
        pytest.skip("needs Node for the CDK command line")
    if running := os.environ.get(RUNNING):
        deployed, began = _attached(Path(running)), time.time()
        yield deployed
        _count_batches(deployed, began)
        return
    with fresh_deployment() as deployed:
        began = time.time()
        yield deployed
        _count_batches(deployed, began)


@contextlib.contextmanager
def fresh_deployment() -> Iterator[Deployment]:
    """Bring up a deployment with a home and ports of its own; take it down at the end."""
    _stop_orphans()
    home = Path(tempfile.mkdtemp(prefix=f"noetl-e2e-{os.getpid()}-", dir=HOMES))
    try:
        up = _up(home, str(make_site(home)))
        if up.returncode:
            logs = _local("logs", "--minutes", "5", home=home).stdout
            pytest.fail(
                f"noetl local up ended with {up.returncode}:\n{up.stdout[-1500:]}\n{up.stderr[-6000:]}\n"
                f"the functions said:\n{logs[-6000:]}"
            )
        last = json.loads(up.stdout.splitlines()[-1])
        assert last["event"] == "up", up.stdout
        deployed = Deployment("local", last["endpoint"], last["api"], last["outputs"], home)
        yield deployed
    finally:
        _remove(home)


@pytest.fixture(scope="session")
def remote(deployment: Deployment) -> Iterator[Remote]:
    """Playbooks on the deployment."""
    store = PostgresExecutionStore(deployment.database())
    yield Remote(deployment, store)
    store.close()


def _count_batches(deployment: Deployment, since: float) -> None:
    """What the engine says of its invocations, for the summary of the session."""
    sizes, trips = [], 0
    for line in deployment.logs("engine", since):
        with contextlib.suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict) and "messages" in told:
                sizes.append(int(told["messages"]))
                trips += int(told.get("round_trips", 0))
    if sizes:
        NOTES.append(
            f"e2e: {sum(sizes)} messages in {len(sizes)} invocations of the engine: {sum(sizes) / len(sizes):.2f} per batch, "
            f"at most {max(sizes)}; {trips / len(sizes):.1f} round trips per invocation"
        )


def _attached(home: Path) -> Deployment:
    """The deployment that was brought up in this home; it stays up."""
    found = state.load(Layout(home / "local"))
    assert found is not None and found.api is not None, f"nothing is up in {home}"
    return Deployment("local", found.endpoint, found.api, found.outputs, home)


def _answer(status: int, headers: Mapping[str, str], data: bytes) -> Answer:
    text = data.decode()
    try:
        body = json.loads(text) if text else None
    except ValueError:
        body = text
    return Answer(status, {name.lower(): value for name, value in headers.items()}, body)


def _local(command: str, *options: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "noetl.cli", "local", command, *options, "--home", str(home)],
        capture_output=True,
        text=True,
        timeout=UP_SECONDS,
        check=False,
        cwd=ROOT,
    )


def _up(home: Path, site: str) -> subprocess.CompletedProcess[str]:
    """Bring the deployment up; on another port, if a test of another process has taken the first one meanwhile."""
    for _ in range(PORTS):
        up = _local(
            *("up", "--json", "--port", str(free_port()), "--project", str(ROOT)),
            *("--functions-site", site),
            home=home,
        )
        if TAKEN not in up.stderr:
            break
    return up


def _remove(home: Path) -> None:
    _local("down", "--purge", home=home)
    shutil.rmtree(home, ignore_errors=True)


def _stop_orphans() -> None:
    """A run that was killed could not take its deployment down."""
    for home in HOMES.glob("noetl-e2e-*"):
        owner = re.match(r"noetl-e2e-(\d+)-", home.name)
        if owner and not _lives(int(owner[1])):
            _remove(home)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
