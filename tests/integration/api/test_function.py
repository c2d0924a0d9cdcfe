"""The function as it is deployed: its handler with its environment, AWS in the process, a real Postgres."""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from moto import mock_aws

from noetl.adapters.aws import clients
from noetl.adapters.aws.clients import make_client
from noetl.domain.capability_tokens import KeyRing, signed
from noetl.domain.events import Start, encode_event
from noetl.domain.ids import KEPT_START
from noetl.domain.messages import decode_message
from noetl.domain.workers.lease_owners import QUEUE
from noetl.runtime.aws.telemetry import Telemetry
from tests.integration.api.conftest import EVENTS, Reply

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).parents[3]
KEY = "a key of at least sixteen characters"
PREFIX = "noetl-test"
_numbers = itertools.count(1)


class Context:
    aws_request_id = "lambda-request-1"


class Function:
    """``ask`` sends a sample event; ``log``: what the invocations said, a JSON line each."""

    def __init__(self, module: ModuleType, dsn: str, stream: io.StringIO) -> None:
        self.module, self.dsn, self.stream = module, dsn, stream

    def ask(self, name: str, execution_id: str = "382358247895465985", **changes: Any) -> Reply:
        text = (EVENTS / f"{name}.json").read_text("utf-8").replace("382358247895465985", execution_id)
        event = json.loads(text)
        event["requestContext"]["authorizer"] = {"iam": {"userArn": "arn:aws:iam::123456789012:user/ann"}}
        return Reply(self.module.handler({**event, **changes}, Context()))

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def rows(self, query: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            return admin.execute(query, values).fetchall()

    def connections(self) -> int:
        found = self.rows(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'noetl'"
        )
        return int(found[0][0])


@pytest.fixture
def function(
    database: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Function]:
    """Load the handler. A test may give it other settings, as the fixture's parameter."""
    with mock_aws():
        for name, value in (
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "x"),
            ("AWS_SECRET_ACCESS_KEY", "y"),
        ):
            monkeypatch.setenv(name, value)
        clients.forget_clients()
        environment = build(database) | getattr(request, "param", {})
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        stream = io.StringIO()
        telemetry = Telemetry(f"api-{next(_numbers)}", stream)
        monkeypatch.setattr("noetl.runtime.aws.telemetry.telemetry", telemetry)
        monkeypatch.setattr("noetl.runtime.aws.api.telemetry", telemetry)
        spec = importlib.util.spec_from_file_location(
            "api_handler", ROOT / "functions" / "api" / "handler.py"
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield Function(module, database, stream)
        if module.api._database is not None:
            module.api._database.close()
        clients.forget_clients()


BY_QUEUE = pytest.mark.parametrize(
    "function", [{"NOETL_DIRECT_STARTS": "0"}], indirect=True, ids=["by queue"]
)
"""The API leaves each start to the engine function, as it does when it cannot decide one itself."""


def build(database: str) -> dict[str, str]:
    """What the stacks would make, and tell the function."""
    s3, sqs = make_client("s3"), make_client("sqs")
    s3.create_bucket(Bucket="results")
    urls = {}
    for name in ("events.fifo", "events-dlq.fifo", "timers", "timers-dlq", "commands-io", "commands-dlq"):
        attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        urls[name] = sqs.create_queue(QueueName=f"{PREFIX}-{name}", Attributes=attributes)["QueueUrl"]
    secret = make_client("secretsmanager").create_secret(Name="tokens", SecretString=KEY)
    return {
        "NOETL_ENV": "test",
        "NOETL_DATABASE_URL": database,
        "NOETL_RESULTS_BUCKET": "results",
        "NOETL_EVENTS_QUEUE_URL": urls["events.fifo"],
        "NOETL_TIMERS_QUEUE_URL": urls["timers"],
        "NOETL_QUEUE_PREFIX": urls["commands-io"].removesuffix("io"),
        "NOETL_QUEUES": '{"noop": "io"}',
        "NOETL_WORKERS": '{"io": 10}',
        "NOETL_TOKEN_SECRET_ARN": secret["ARN"],
        "NOETL_DEPLOYMENT": '{"stack": "noetl-test", "version": "7"}',
    }


@BY_QUEUE
def test_a_start_is_on_the_engines_queue_signed_and_handed_over(function):
    registered = function.ask("register").json
    stored = make_client("s3").list_objects_v2(Bucket="results")["Contents"]
    assert [one["Key"] for one in stored] == [f"programs/v1/{registered['program']}.json"]
    execution_id = function.ask("execute").json["execution_id"]
    (message,) = make_client("sqs").receive_message(
        QueueUrl=function.module.api.settings.events_queue, AttributeNames=["All"], MaxNumberOfMessages=10
    )["Messages"]
    assert message["Attributes"]["MessageGroupId"] == execution_id
    found = decode_message(message["Body"])
    assert isinstance(found.event, Start) and str(found.event.execution_id) == execution_id
    assert found.event.payload == {"name": "Ann"} and found.event.principal.endswith("user/ann")
    assert signed(found.token, encode_event(found.event), KeyRing.of([KEY]))
    ((event_id, owner),) = function.rows("SELECT event_id, owner FROM noetl.outbox")
    assert event_id.startswith(KEPT_START) and owner == QUEUE


@BY_QUEUE
def test_what_cannot_be_sent_is_left_for_maintenance(function):
    function.ask("register")
    make_client("sqs").delete_queue(QueueUrl=function.module.api.settings.events_queue)
    assert function.ask("execute").status == 201
    ((event_id, owner),) = function.rows("SELECT event_id, owner FROM noetl.outbox")
    assert event_id.startswith(KEPT_START) and owner.startswith("until:")
    assert any("left for maintenance" in line["message"] for line in function.log())


def test_every_invocation_says_what_it_did_in_one_line(function):
    function.ask("register")
    execution_id = function.ask("execute").json["execution_id"]
    function.ask("status", execution_id)
    lines = [line for line in function.log() if line["message"] == "done"]
    assert [(one["method"], one["status"], one.get("execution_id")) for one in lines] == [
        ("POST", 201, None),
        ("POST", 201, execution_id),
        ("GET", 200, execution_id),
    ]
    assert all("_aws" not in one and one["request_id"] == "lambda-request-1" for one in lines)


def test_health_is_answered_when_nothing_else_can_be(function, monkeypatch):
    monkeypatch.setattr("noetl.runtime.aws.api._deps", lambda *args: 1 / 0)
    assert function.ask("health").json["deployment"] == {"stack": "noetl-test", "version": "7"}
    broken = function.ask("catalog")
    assert (broken.status, broken.json["code"]) == (500, "internal_error")


def test_ready_looks_at_everything_a_request_needs(function):
    assert function.ask("ready").json == {
        "status": "ready",
        "checks": {"database": "ok", "queues": "ok", "results": "ok"},
    }
    make_client("sqs").delete_queue(QueueUrl=function.module.api.settings.timers_queue)
    with psycopg.connect(function.dsn, autocommit=True) as admin:
        admin.execute("DROP SCHEMA noetl CASCADE")
    reply = function.ask("ready")
    assert reply.status == 503
    assert reply.json["checks"] == {
        "database": "database_not_migrated",
        "queues": "aws_rejected",
        "results": "ok",
    }


@BY_QUEUE
def test_queues_are_gauged(function):
    function.ask("register")
    function.ask("execute")
    found = {one["name"]: one for one in function.ask("queue").json["queues"]}
    assert (
        found.keys() == {"events", "timers", "commands-io", "commands-dlq"}
        and found["events"]["waiting"] == 1
    )


def test_connections_are_kept_or_closed_as_the_deployment_says(function):
    function.ask("catalog")
    assert function.connections() == 1
    object.__setattr__(function.module.api.settings, "close_connections", True)
    assert function.ask("catalog").status == 200
    assert function.connections() == 0
    assert function.ask("catalog").status == 200


def test_the_function_starts_without_compiler_and_resource_layer():
    code = """
import os, sys, time
os.environ.update(NOETL_ENV="test", NOETL_RESULTS_BUCKET="b", AWS_REGION="us-east-1", POWERTOOLS_SERVICE_NAME="api")
sys.path.insert(0, sys.argv[1])
began = time.perf_counter()
import handler
print(f"{(time.perf_counter() - began) * 1000:.0f}", *{name.partition(".")[0] for name in sys.modules})
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "functions" / "api")],
        capture_output=True,
        text=True,
        check=True,
    )
    milliseconds, *found = result.stdout.split()
    print(f"import of the api function: {milliseconds} ms")
    assert "botocore" in found
    assert not set(found) & {"pydantic", "yaml", "jinja2", "jsonschema", "duckdb", "rich", "typer"}
