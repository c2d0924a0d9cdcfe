"""The scheduler's function: loaded as Lambda loads it, over a real Postgres and AWS within the process, invoked with the samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noetl.adapters.aws.s3 import S3ProgramStore
from noetl.adapters.postgres import Database, PostgresCatalog, PostgresExecutionStore
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.domain.capability_tokens import KeyRing, signed
from noetl.domain.errors import NoetlError
from noetl.domain.events import encode_event
from noetl.domain.messages import decode_message
from noetl.runtime.deployed_catalog import Registrar
from noetl.services.automations.register_schedules import register_schedule
from tests.contract.clouds import make_bucket
from tests.integration.functions.loading import deployed, load

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).resolve().parents[3]
KEY = "the key of the deployment"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: it, path: {path}{more} }}\nworkflow:\n  - step: start\n"
DAILY = ", schedule: { name: reports.daily, cron: 0 6 * * *, timezone: Europe/Berlin, payload: { days: 1 } }"


def sample(name: str) -> Any:
    return json.loads((ROOT / "events" / name).read_text())


class Deployment:
    def __init__(self, dsn: str, client: Any) -> None:
        self.dsn, self.sqs = dsn, client("sqs")
        make_bucket(client("s3"))
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
        self.events = self.sqs.create_queue(QueueName="events.fifo", Attributes=attributes)["QueueUrl"]
        self.secret = client("secretsmanager").create_secret(Name="tokens", SecretString=KEY)["ARN"]
        self.database = Database(dsn)
        self.store, self.schedules = (
            PostgresExecutionStore(self.database),
            PostgresScheduleStore(self.database),
        )
        self.registrar = Registrar(PostgresCatalog(self.database), S3ProgramStore("results", client("s3")))
        for path, more in (("reports/daily", DAILY), ("import_orders", "")):
            done = self.registrar.register(HEAD.format(path=path, more=more), source_name="it.yaml")
            register_schedule(path, done.program, store=self.schedules, schedules=None, now=1_772_400_000.0)

    def environment(self) -> dict[str, str]:
        return {
            "NOETL_ENV": "test",
            "NOETL_DATABASE_URL": self.dsn,
            "NOETL_RESULTS_BUCKET": "results",
            "NOETL_EVENTS_QUEUE_URL": self.events,
            "NOETL_TOKEN_SECRET_ARN": self.secret,
            "NOETL_TRIGGER_QUEUES": '{"orders": ["import_orders"]}',
        }

    def published(self) -> list[Any]:
        """What is on the engine's queue, checked against its signature."""
        found = []
        while messages := self.sqs.receive_message(QueueUrl=self.events, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for one in messages:
                self.sqs.delete_message(QueueUrl=self.events, ReceiptHandle=one["ReceiptHandle"])
                message = decode_message(one["Body"])
                assert signed(message.token, encode_event(message.event), KeyRing.of([KEY]))
                found.append(message.event)
        return found


@pytest.fixture
def deployment(database, monkeypatch):
    with deployed(Deployment, database, monkeypatch) as made:
        yield made


@pytest.fixture
def handler(deployment):
    return load("scheduler")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("scheduler/daily_report.json", "reports/daily"),
        ("eventbridge/refund.json", "import_orders"),
        ("s3/object_created.json", "import_orders"),
        ("s3/object_deleted.json", "import_orders"),
    ],
)
def test_a_sample_is_started_and_published_once(deployment, handler, name, path):
    assert handler(sample(name)) is None
    (event,) = deployment.published()
    assert event.path == path
    told = {"days": 1, "schedule": {"name": "reports.daily", "at": "2026-03-02T05:00:00Z"}}
    assert event.payload == (told if path == "reports/daily" else {"event": sample(name)["event"]})
    assert deployment.store.info(event.execution_id).status == "running"
    assert handler(sample(name)) is None
    assert deployment.published() == [] and len(deployment.store.executions(limit=9)) == 1
    assert deployment.store.undelivered("maintenance", 10) == [], "what was published belongs to the queue"


def test_messages_are_started_one_by_one_and_the_poison_is_given_back(deployment, handler):
    invocation = sample("sqs/orders.json")
    invocation["Records"][1]["eventSourceARN"] = "arn:aws:sqs:us-east-1:123456789012:refunds"
    poison = invocation["Records"][1]["messageId"]
    assert handler(invocation) == {"batchItemFailures": [{"itemIdentifier": poison}]}
    (event,) = deployment.published()
    assert event.payload["event"]["body"] == {"order": 4711, "items": ["A-1", "B-7"]}
    assert handler(sample("sqs/orders.json")) == {"batchItemFailures": []}
    (event,) = deployment.published()
    assert event.payload["event"]["body"] == "plain text"


def test_what_cannot_be_published_is_left_for_maintenance(deployment, handler):
    deployment.sqs.delete_queue(QueueUrl=deployment.events)
    assert handler(sample("eventbridge/refund.json")) is None
    assert len(deployment.store.executions(limit=9)) == 1
    with psycopg.connect(deployment.dsn) as connection:
        ((owner,),) = connection.execute("SELECT owner FROM noetl.outbox").fetchall()
    assert owner.startswith("until:"), "its owner is over soon"


def test_a_connection_that_was_lost_in_between_is_made_anew(deployment, handler):
    handler(sample("eventbridge/refund.json"))
    with psycopg.connect(deployment.dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    handler(sample("s3/object_created.json"))
    assert len(deployment.published()) == 2


def test_an_event_that_starts_nothing_is_an_error_so_that_it_is_kept(deployment, handler):
    for broken in ({**sample("eventbridge/refund.json"), "path": "gone"}, {"source": "aws.s3"}):
        with pytest.raises(NoetlError):
            handler(broken)
    assert deployment.published() == []
