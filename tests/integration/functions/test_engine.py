"""The engine's function as Lambda loads it, with the worker's service, over a real Postgres and AWS within the process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.aws.s3 import S3ProgramStore, S3ResultStore
from noetl.adapters.aws.sqs import SqsQueue
from noetl.adapters.postgres import Database, PostgresCatalog, PostgresExecutionStore
from noetl.domain.capability_tokens import KeyRing
from noetl.kinds.registry import default_registry
from noetl.runtime.authentic_programs import AuthenticPrograms
from noetl.runtime.aws.telemetry import telemetry
from noetl.runtime.deployed_catalog import Registrar
from noetl.runtime.stored_programs import StoredPrograms
from noetl.services.executions.start_execution import StartRequest, start_execution
from noetl.services.messaging.send_events import EventSender
from noetl.services.queries.read_execution import result
from noetl.services.worker.batch_deps import BatchDeps
from noetl.services.worker.consume_commands import work_batch
from noetl.services.worker.worker_deps import WorkerDeps
from tests.contract.clouds import make_bucket
from tests.integration.functions.loading import deployed, load
from tests.parts import parted
from tests.properties.world import NoCredentials
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
KEY = "the key of the deployment"
KEYS = KeyRing.of([KEY])
TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: it, path: it }
workflow:
  - step: start
    tool: { kind: python, args: { n: "{{ workload.n }}" }, code: "result = {'n': n}" }
    next: [end]
  - { step: end, tool: { kind: python, args: { n: "{{ start.n }}" }, code: "result = {'m': n * 2}" } }
"""
HEAVY = {"pydantic", "jsonschema", "yaml", "yamlcore", "httpx"}


class Deployment:
    def __init__(self, dsn: str, client: Any) -> None:
        self.sqs, self.dsn = client("sqs"), dsn
        make_bucket(client("s3"))
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
        self.urls = {
            name: self.sqs.create_queue(QueueName=name, Attributes=fifo if name.endswith(".fifo") else {})[
                "QueueUrl"
            ]
            for name in ("events.fifo", "timers", "commands-plain", "commands-mixed")
        }
        self.secret = client("secretsmanager").create_secret(Name="tokens", SecretString=KEY)["ARN"]
        self.database = Database(dsn)
        self.results = S3ResultStore("results", client("s3"))
        self.store = PostgresExecutionStore(self.database)
        stored = AuthenticPrograms(S3ProgramStore("results", client("s3")), lambda fresh: KEYS)
        self.program = (
            Registrar(PostgresCatalog(self.database), stored).register(TEXT, source_name="it.yaml").program
        )
        self.events = SqsQueue(self.urls["events.fifo"], self.sqs, fifo=True)
        worker = WorkerDeps(StoredPrograms(stored), default_registry(), self.results, NoCredentials())
        commands = SqsQueue(self.urls["commands-plain"], self.sqs, fifo=False)
        self.worker = BatchDeps(worker, commands, self.events, {"io": 4})

    def environment(self) -> dict[str, str]:
        return {
            "NOETL_ENV": "test",
            "NOETL_DATABASE_URL": self.dsn,
            "NOETL_CLOSE_CONNECTIONS": "1",
            "NOETL_RESULTS_BUCKET": "results",
            "NOETL_EVENTS_QUEUE_URL": self.urls["events.fifo"],
            "NOETL_TIMERS_QUEUE_URL": self.urls["timers"],
            "NOETL_QUEUE_PREFIX": self.urls["commands-plain"].removesuffix("plain"),
            "NOETL_QUEUES": '{"python": "plain"}',
            "NOETL_WORKERS": '{"plain": 4}',
            "NOETL_TOKEN_SECRET_ARN": self.secret,
        }

    def start(self, number: int) -> int:
        sender = EventSender(self.store, self.events, self.results, lambda: KEYS, "api", time.time, 10**6)
        owner = sender.owner()
        started = start_execution(
            self.program,
            StartRequest({"n": number}),
            self.store,
            owner=owner,
            now_ms=int(time.time() * 1000),
            random_bits=number,
        )
        assert started.event is not None
        sender.events(owner, [started.event])
        return started.execution_id

    def invocation(self) -> dict[str, Any] | None:
        """What Lambda would hand to the engine next."""
        got = self.events.receive(10)
        records = [
            {
                "messageId": one.message_id,
                "receiptHandle": one.receipt,
                "body": one.body,
                "attributes": {
                    "ApproximateReceiveCount": str(one.received),
                    "SentTimestamp": "1",
                    "MessageGroupId": one.group,
                },
                "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:events.fifo",
            }
            for one in got
        ]
        self.events.ack(got)
        return {"Records": records} if records else None

    def work(self) -> int:
        got = self.worker.commands.receive(10)
        worked = work_batch(got, self.worker)
        assert worked.give_back == []
        self.worker.commands.ack(got)
        return len(got)


@pytest.fixture
def deployment(database, monkeypatch):
    with deployed(Deployment, database, monkeypatch) as made:
        yield made


@pytest.fixture
def engine(deployment):
    return load("engine")


@pytest.mark.postgres
@pytest.mark.parametrize("size", parted([1, 4, 10], [1, 10]))
def test_executions_go_from_start_to_end_in_three_round_trips_per_batch(
    deployment, engine, monkeypatch, size
):
    said = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", said)
    roots = [deployment.start(number) for number in range(size)]
    batches = 0
    while (event := deployment.invocation()) is not None:
        assert len(event["Records"]) == size
        assert engine(event) == {"batchItemFailures": []}
        deployment.work()
        batches += 1
    assert batches == 3, "the start, and the end of each step"
    for number, root in enumerate(roots):
        assert deployment.store.info(root).status == "completed"
        assert result(deployment.store, deployment.results, root) == {"m": number * 2}
        assert not any(deployment.store.open_work(root).values())
    lines = [json.loads(line) for line in said.getvalue().splitlines() if line.startswith("{")]
    summaries = [line for line in lines if line["message"] == "done"]
    assert len(summaries) == batches
    for line in summaries:
        named = line.get("execution_ids") or [line["execution_id"]]
        assert sorted(named) == sorted(map(str, roots))
        assert (line["messages"], line["events"]) == (size, size)
        assert "_aws" not in line, "nothing went wrong, so no metric is defined"
    trips = [line["round_trips"] for line in summaries]
    print(f"round trips per batch of {size}: {trips}")
    assert max(trips) <= 3


def test_the_engine_is_imported_without_what_it_never_needs():
    """A cold start costs what is imported: no compiler, no schema library, no resource layer. The time is printed, not judged."""
    code = (
        "import sys, time; began = time.perf_counter(); import handler; took = time.perf_counter() - began; "
        "import json; print(json.dumps([took, sorted(sys.modules)]))"
    )
    settings = {"NOETL_ENV": "test", "NOETL_RESULTS_BUCKET": "results", "PATH": os.environ["PATH"]}
    libraries = os.pathsep.join(
        [str(ROOT / "layers" / "core" / "python"), *(entry for entry in sys.path if entry)]
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "functions" / "engine",
        env=settings | {"PYTHONPATH": libraries, "POWERTOOLS_SERVICE_NAME": "engine"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    took, modules = json.loads(done.stdout)
    print(f"the engine's function is imported in {took * 1000:.0f} ms")
    assert not HEAVY & set(modules)
    assert "noetl.services.orchestrator.consume_events" in modules and "psycopg" in modules
