"""Samples of what queues, the clock and CloudFormation send, each through the handler it is for: loaded as Lambda loads it, over a real
Postgres and AWS within the process. (Those of the API and of the scheduler have tests of their own beside this one.)"""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noetl.adapters.aws.s3 import S3ProgramStore
from noetl.adapters.aws.sqs import SqsQueue
from noetl.adapters.postgres import Database, PostgresCatalog, PostgresExecutionStore
from noetl.domain.capability_tokens import KeyRing, fits, signed
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import encode_event
from noetl.domain.messages import Message, decode_message
from noetl.ports.executions.execution_store import CreatedExecution
from noetl.ports.queue import Outgoing
from noetl.runtime.aws import engine
from noetl.runtime.aws.telemetry import Invocation
from noetl.runtime.deployed_catalog import Registrar
from tests.contract.clouds import make_bucket
from tests.integration.functions.loading import deployed, load

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).resolve().parents[3]
EVENTS = ROOT / "events"
KEY = "the key that signed the samples"
RING = KeyRing.of([KEY])
HELLO = base64.b64decode(json.loads((EVENTS / "apigw/register.json").read_text())["body"]).decode()


class Deployment:
    """Queues, bucket, key and database, with the playbook of ``apigw/register.json`` registered."""

    def __init__(self, dsn: str, client: Any) -> None:
        self.dsn, self.sqs, self.s3 = dsn, client("sqs"), client("s3")
        make_bucket(self.s3)
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
        self.urls = {
            name: self.sqs.create_queue(QueueName=f"noetl-dev-{name}", Attributes=attributes)["QueueUrl"]
            for name, attributes in (
                *(("events.fifo", fifo), ("timers", {}), ("commands-io", {})),
                *(("events-dlq.fifo", fifo), ("timers-dlq", {}), ("commands-dlq", {})),
            )
        }
        self.secret = client("secretsmanager").create_secret(Name="tokens", SecretString=KEY)["ARN"]
        self.database = Database(dsn)
        self.store, self.catalog = PostgresExecutionStore(self.database), PostgresCatalog(self.database)
        registrar = Registrar(self.catalog, S3ProgramStore("results", self.s3))
        self.program = registrar.register(HELLO, source_name="hello.yaml").program

    def environment(self) -> dict[str, str]:
        return {
            "NOETL_ENV": "dev",
            "NOETL_DATABASE_URL": self.dsn,
            "NOETL_RESULTS_BUCKET": "results",
            "NOETL_EVENTS_QUEUE_URL": self.urls["events.fifo"],
            "NOETL_TIMERS_QUEUE_URL": self.urls["timers"],
            "NOETL_QUEUE_PREFIX": self.urls["commands-io"].removesuffix("io"),
            "NOETL_QUEUES": '{"noop": "io"}',
            "NOETL_WORKER": "io",
            "NOETL_TOKEN_SECRET_ARN": self.secret,
        }

    def messages(self, queue: str) -> list[Message]:
        """What lies in a queue, taken out."""
        found = []
        url = self.urls[queue]
        while got := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for one in got:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
                found.append(decode_message(one["Body"]))
        return found

    def begin(self) -> int:
        """Keep the start that ``engine_events.json`` brings, as the API has kept it when such a message is sent."""
        start = decode_message(sample("sqs/engine_events.json")["Records"][0]["body"]).event
        created = CreatedExecution(path=start.path, name="hello")
        self.store.create(start, created, owner="queue")
        return start.execution_id


@pytest.fixture
def deployment(database, monkeypatch):
    with deployed(Deployment, database, monkeypatch) as made:
        yield made


def sample(name: str) -> Any:
    return json.loads((EVENTS / name).read_text())


def invoke(function: str, name: str) -> Any:
    """Load the function anew, as a cold start does, and call it with a sample."""
    return load(function)(sample(name))


def ask(method: str, path: str, body: Any = None) -> Any:
    """Ask the API as its gateway does."""
    event = sample("apigw/cancel.json")
    http = {**event["requestContext"]["http"], "method": method, "path": path}
    event["requestContext"] = {**event["requestContext"], "http": http}
    text = json.dumps(body or {})
    headers = {**event["headers"], "content-length": str(len(text))}
    answer = load("api")(
        {**event, "rawPath": path, "headers": headers, "body": text, "isBase64Encoded": False}
    )
    assert answer["statusCode"] == 200, answer
    return json.loads(answer["body"])


def given_back(answer: dict[str, Any], name: str) -> list[int]:
    """Which records of a sample the queue has to keep."""
    ids = [one["itemIdentifier"] for one in answer["batchItemFailures"]]
    return [number for number, record in enumerate(sample(name)["Records"]) if record["messageId"] in ids]


def test_every_sample_is_listed_with_its_function():
    rows = re.findall(r"^\| `([^`]+)` \| `([a-z-]+)` \|", (EVENTS / "README.md").read_text(), re.MULTILINE)
    listed = {file.relative_to(EVENTS).as_posix() for pattern, _ in rows for file in EVENTS.glob(pattern)}
    assert listed == {file.relative_to(EVENTS).as_posix() for file in EVENTS.rglob("*.json")}
    functions = {path.name for path in (ROOT / "functions").iterdir()}
    assert {name.partition("-")[0] for _, name in rows} <= functions


def test_commands_of_samples_are_of_the_playbook_beside_them(deployment):
    for name in ("worker_commands", "engine_timers", "maintenance_dead_letters"):
        bodies = [record["body"] for record in sample(f"sqs/{name}.json")["Records"]]
        (command,) = [decode_message(body).command for body in bodies if '"command":{' in body]
        assert command.program == deployment.program.hash, (
            "the compiler makes another program of it now: make samples"
        )


def test_the_engine_moves_what_is_proven_and_refuses_what_is_not(deployment):
    execution_id = deployment.begin()
    assert given_back(invoke("engine", "sqs/engine_events.json"), "sqs/engine_events.json") == [3]
    assert deployment.store.info(execution_id).status == "completed", "a noop needs no worker"
    with psycopg.connect(deployment.dsn) as connection:
        refused = connection.execute(
            "SELECT count(*) FROM noetl.event WHERE execution_id = %s AND event_id LIKE 'refused:%%'",
            (execution_id,),
        ).fetchone()
        facts = connection.execute(
            "SELECT string_agg(facts::text, '') FROM noetl.event WHERE execution_id = %s AND lane >= 0",
            (execution_id,),
        ).fetchone()[0]
    assert refused == (1,)
    assert "Ada" in facts and "Mallory" not in facts


def test_delayed_messages_are_acted_upon_when_they_are_due(deployment):
    assert invoke("engine", "sqs/engine_timers.json") == {"batchItemFailures": []}
    (message,) = deployment.messages("commands-io")
    assert message.due == 0.0 and message.command.program == deployment.program.hash
    assert deployment.messages("timers") == [], "nothing waits again"


def test_a_worker_runs_its_command_and_gives_back_the_poison(deployment):
    assert given_back(invoke("worker", "sqs/worker_commands.json"), "sqs/worker_commands.json") == [1]
    (message,) = deployment.messages("events.fifo")
    assert message.event.outcome.status == "ok"
    assert fits(message.token, message.event, RING)


def test_dead_commands_are_answered(deployment):
    answer = invoke("maintenance", "sqs/maintenance_dead_letters.json")
    assert given_back(answer, "sqs/maintenance_dead_letters.json") == [2]
    (message,) = deployment.messages("events.fifo")
    assert message.event.outcome.error.code == "worker_lost"
    assert fits(message.token, message.event, RING)


def test_the_minute_publishes_what_nobody_did(deployment, monkeypatch):
    counted: list[str] = []
    count = Invocation.count
    monkeypatch.setattr(
        Invocation, "count", lambda self, name, *rest: (counted.append(name), count(self, name, *rest))
    )
    deployment.begin()
    with psycopg.connect(deployment.dsn) as connection:
        connection.execute("UPDATE noetl.outbox SET owner = 'until:1:killed'")
    assert invoke("maintenance", "scheduler/tick.json") == {"batchItemFailures": []}
    assert "Heartbeats" in counted, "an alarm rings when it is not counted"
    (message,) = deployment.messages("events.fifo")
    assert signed(message.token, encode_event(message.event), RING)
    counted.clear()
    assert invoke("maintenance", "scheduler/tick.json") == {"batchItemFailures": []}
    assert deployment.messages("events.fifo") == [], "it is the queue's now"
    with psycopg.connect(deployment.dsn) as connection:
        connection.execute("DELETE FROM noetl.outbox")
    counted.clear()
    assert invoke("maintenance", "scheduler/tick.json") == {"batchItemFailures": []}
    assert counted == ["Heartbeats"], "while nothing happens, nothing else is paid for"


def test_dead_letters_go_back_by_themselves_unless_the_engine_laid_them_aside(deployment, monkeypatch):
    """Those wait for an operator. While the deployment is not ready, all stay where they are."""
    deployment.begin()
    dead = SqsQueue(deployment.urls["events-dlq.fifo"], deployment.sqs, fifo=True)
    given_up, broken = (sample("sqs/engine_events.json")["Records"][number]["body"] for number in (0, 2))
    dead.send([Outgoing(given_up, "1", "a"), Outgoing(broken, "2", "b", why="no such value")])
    with psycopg.connect(deployment.dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE noetl.migration RENAME TO kept")
        invoke("maintenance", "scheduler/tick.json")
        assert deployment.messages("events.fifo") == [], "the schema is not what this version needs"
        connection.execute("ALTER TABLE noetl.kept RENAME TO migration")
    invoke("maintenance", "scheduler/tick.json")
    (message,) = deployment.messages("events.fifo")
    assert message == decode_message(given_up)
    listed = invoke("maintenance", "maintenance/dead_letters.json")
    assert [one["why"] for one in listed["events"]] == ["no such value"] and listed["timers"] == []
    answer = ask("GET", "/api/dead-letters")
    assert [(one["queue"], one["count"], one["read"]) for one in answer["queues"]] == [
        ("events", 1, 1),
        ("timers", 0, 0),
    ]
    (letter,) = answer["letters"]
    assert letter["reason"] == "the engine laid it aside: no such value" and letter["kind"] == ""
    wish = {"ids": [letter["id"]]}
    dry = ask("POST", "/api/dead-letters/retry", {**wish, "dry_run": True})
    assert (dry["ids"], dry["left"]) == ([letter["id"]], 0)
    done = ask("POST", "/api/dead-letters/retry", wish)
    assert (done["ids"], done["missing"], done["left"]) == ([letter["id"]], [], 0)
    sent = deployment.sqs.receive_message(QueueUrl=deployment.urls["events.fifo"])["Messages"]
    assert [one["Body"] for one in sent] == [broken]
    again = ask("POST", "/api/dead-letters/retry", wish)
    assert (again["ids"], again["missing"]) == ([], [letter["id"]]), "a repeat finds nothing left"
    dead.send([Outgoing(broken, "3", "c", why="no such value")])
    answer = invoke("maintenance", "maintenance/retry_dead_letters.json")
    assert answer == {"events": {"sent": 1, "left": 0}, "timers": {"sent": 0, "left": 0}}
    assert len(deployment.sqs.receive_message(QueueUrl=deployment.urls["events.fifo"])["Messages"]) == 1


def test_a_batch_is_given_back_with_growing_pauses_while_the_engine_cannot_be_opened(deployment, monkeypatch):
    """Its secrets cannot be read: that is an outage, too, and no message is worse off for it."""
    pauses: list[int] = []

    def refuse(settings: Any) -> Any:
        raise InfrastructureError("secretsmanager: AccessDenied", code="aws_refused", retryable=False)

    monkeypatch.setattr(engine, "open_parts", refuse)
    monkeypatch.setattr(SqsQueue, "nack", lambda queue, found, seconds=0: pauses.append(seconds))
    event = sample("sqs/engine_events.json")
    for number, record in enumerate(event["Records"]):
        record["attributes"]["ApproximateReceiveCount"] = str(1 + number)
        record["eventSourceARN"] = "arn:aws:sqs:us-east-1:123456789012:noetl-dev-events.fifo"
    answer = load("engine")(event)
    assert given_back(answer, "sqs/engine_events.json") == [0, 1, 2, 3] and pauses == [5, 10, 20, 40]


def test_the_schema_is_made_and_outlives_its_stack(deployment):
    with psycopg.connect(deployment.dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA noetl CASCADE")
    made = invoke("migrate", "cloudformation/migration_create.json")
    assert made["Data"]["Applied"].startswith("migrations/0048_tables, ")
    assert invoke("migrate", "cloudformation/migration_delete.json") == {
        "PhysicalResourceId": "NoetlMigration"
    }
    assert invoke("migrate", "cloudformation/migration_create.json")["Data"] == {"Applied": ""}


def test_the_playbooks_of_a_deployment_are_registered(deployment):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("playbooks/other.yaml", HELLO.replace("samples/hello", "samples/other"))
        made.writestr("elsewhere/ignored.yaml", HELLO.replace("samples/hello", "samples/ignored"))
    deployment.s3.put_object(Bucket="results", Key="playbooks.zip", Body=archive.getvalue())
    assert invoke("migrate", "cloudformation/playbooks_update.json")["Data"] == {"Registered": "1"}
    assert deployment.catalog.get("samples/other", None) is not None
    assert deployment.catalog.get("samples/ignored", None) is None
