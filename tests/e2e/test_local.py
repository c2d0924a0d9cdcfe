"""`noetl local` and `noetl invoke` on the real deployment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noetl.local import state
from noetl.local.layout import Layout
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def _noetl(deployment: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "noetl.cli", *arguments, "--home", str(deployment.home)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_status_tells_what_runs(deployment: Any) -> None:
    ran = _noetl(deployment, "local", "status", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["up"] and found["ready"]
    assert found["endpoint"] == deployment.endpoint
    recorded = state.load(Layout(deployment.home / "local"))
    assert recorded is not None
    assert found["emulator"]["pid"] == recorded.emulator.pid
    assert found["postgres"]["port"] == recorded.postgres_port


def test_the_api_answers(deployment: Any) -> None:
    answer = deployment.api("GET", "/health")
    assert answer.status == 200, answer


def test_the_database_is_real_and_migrated(deployment: Any) -> None:
    owner = f"noetl/{deployment.environment}/database/owner"
    answer = deployment.client("secretsmanager").get_secret_value(SecretId=owner)
    value = json.loads(answer["SecretString"])
    with psycopg.connect(
        host=value["host"],
        port=value["port"],
        user=value["username"],
        password=value["password"],
        dbname=value["dbname"],
    ) as connection:
        assert connection.execute("SELECT count(*) FROM noetl.execution").fetchone() is not None


def test_a_function_is_called_with_a_file(deployment: Any, tmp_path: Path) -> None:
    event = tmp_path / "tick.json"
    event.write_text('{"noetl": "tick"}')
    ran = _noetl(deployment, "invoke", "maintenance", str(event), "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["error"] is None
    health = _noetl(deployment, "invoke", "api", str(ROOT / "events/apigw/health.json"))
    assert health.returncode == 0, health.stderr
    assert json.loads(health.stdout)["statusCode"] == 200
    missing = _noetl(deployment, "invoke", "no-such-function", str(event))
    assert missing.returncode == 2
    assert "there are: api" in missing.stderr


def test_logs_are_those_of_the_functions(deployment: Any) -> None:
    deployment.api("GET", "/health")
    ran = _noetl(deployment, "local", "logs", "api", "--json")
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert lines and {line["function"] for line in lines} == {"api"}


def test_a_second_stack_cannot_take_the_same_port(deployment: Any, tmp_path: Path) -> None:
    port = deployment.endpoint.rsplit(":", 1)[1]
    ran = subprocess.run(
        [sys.executable, "-m", "noetl.cli", "local", "up", "--port", port, "--home", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=Path(__file__).parent,
    )
    assert ran.returncode == 3
    assert f"port {port}" in ran.stderr and "is taken" in ran.stderr


@pytest.mark.parametrize(
    ("service", "question", "answer"),
    [
        ("sqs", "list_queues", "QueueUrls"),
        ("s3", "list_buckets", "Buckets"),
        ("lambda", "list_functions", "Functions"),
        ("scheduler", "list_schedule_groups", "ScheduleGroups"),
        ("kms", "list_keys", "Keys"),
        ("events", "list_rules", "Rules"),
    ],
)
def test_localstack_client_talks_to_it(deployment: Any, service: str, question: str, answer: str) -> None:
    assert getattr(deployment.client(service), question)()[answer]
