"""How a worker is wired on AWS. No request is made: clients are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.adapters.aws.clients import forget_clients
from noetl.domain.errors import InvalidInputError
from noetl.runtime.aws import engine as cloud_engine
from noetl.runtime.aws import worker as cloud_worker
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.worker import CloudWorker, open_worker, reachable
from tests.unit.services.batch_bench import Bench
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[4]

ENVIRONMENT = {
    "NOETL_ENV": "test",
    "NOETL_RESULTS_BUCKET": "b",
    "NOETL_WORKER": "io",
    "NOETL_QUEUE_PREFIX": "https://sqs.eu-central-1.amazonaws.com/1/noetl-test-commands-",
    "NOETL_EVENTS_QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/1/noetl-test-events.fifo",
    "NOETL_QUEUES": '{"http":"io","postgres":"io","playbook":"io","python":"python","gone":"io"}',
}


@pytest.fixture(autouse=True)
def aws(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "eu-central-1")
    monkeypatch.setattr(cloud_worker, "WORK_FOLDER", str(tmp_path / "work"))
    forget_clients()
    yield
    forget_clients()


def opened(**changes: str) -> CloudWorker:
    return open_worker(CloudSettings.from_env(ENVIRONMENT | changes))


@pytest.mark.parametrize("name", ["NOETL_WORKER", "NOETL_QUEUE_PREFIX", "NOETL_EVENTS_QUEUE_URL"])
def test_a_missing_setting_is_named(name):
    with pytest.raises(InvalidInputError, match=name):
        opened(**{name: ""})


@pytest.mark.parametrize("value", ["5,1801", "5,43200", "0,900", "900,5", "5", "soon,900"])
def test_a_back_off_that_outlasts_retention_is_refused(value):
    """A start that comes again an hour after its execution ended might find it removed."""
    with pytest.raises(InvalidInputError, match=r"NOETL_BACK_OFF.*at most 1800"):
        opened(NOETL_BACK_OFF=value)
    assert opened(NOETL_BACK_OFF="5,1800").deps.back_off.most == 1800


@pytest.mark.parametrize(("worker", "capacity"), [("io", 10), ("python", 3), ("mixed", 3)])
def test_a_worker_runs_as_many_commands_as_its_kinds_bear(monkeypatch, worker, capacity):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    found = opened(NOETL_WORKER=worker)
    assert found.capacity == capacity
    assert found.deps.slots == {"io": 10, "cpu": 3, "python": 3}


@pytest.mark.parametrize(("memory", "each"), [("1024", 416), ("256", 256), ("", 1024)])
def test_code_of_playbooks_shares_the_memory_of_the_function(monkeypatch, memory, each):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory)
    assert opened().deps.worker.settings.python_memory_bytes == each * 1024 * 1024


def test_what_a_worker_may_do_comes_from_its_settings():
    found = opened(NOETL_HTTP_ALLOW="10.0.0.0/8", NOETL_INLINE_LIMIT="1000", NOETL_MESSAGE_LIMIT="2000")
    worker = found.deps.worker
    assert worker.settings.http_allow == ("10.0.0.0/8",), "and not this machine, as in a local run"
    assert worker.settings.workspace_dsn is None
    assert (worker.inline_bytes, found.deps.message_limit) == (1000, 2000)


def test_a_late_invocation_does_not_shorten_what_a_call_may_hope_for():
    """A call that fits into a whole invocation waits for one; a short rest must not make it an error."""
    bench = Bench(tool=lambda params, context: context.timeout)
    worker = CloudWorker(bench.deps, capacity=1)
    assert worker.work(bench.put(bench.command(1)), lambda: 900.0).give_back == []
    assert worker.work(bench.put(bench.command(2)), lambda: 30.0).give_back == []
    first, second = (event.outcome for _, event in bench.said())
    assert first.result == 33.0
    assert second.suspend is not None and second.suspend.delay == 0


def test_a_function_with_little_time_gives_calls_what_it_has():
    bench = Bench(tool=lambda params, context: context.timeout)
    worker = CloudWorker(bench.deps, capacity=1)
    worker.work(bench.put(bench.command(1)), lambda: 20.0)
    ((_, event),) = bench.said()
    assert event.outcome.result == 13.0, "20 s less the margin and a tenth"


def test_the_address_of_a_callback_is_by_path_at_an_emulator():
    gateway = "https://ab12cd.execute-api.eu-central-1.amazonaws.com"
    assert reachable(gateway, "") == gateway
    assert reachable(gateway, "http://127.0.0.1:4566/") == "http://127.0.0.1:4566/_aws/execute-api/ab12cd"
    assert reachable("https://noetl.example.com", "http://127.0.0.1:4566") == "https://noetl.example.com"


def test_a_worker_of_an_emulator_hands_out_addresses_by_path(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    worker = opened(NOETL_PUBLIC_URL="http://ab12cd.execute-api.127.0.0.1:4566")
    assert worker.deps.worker.callback_base == "http://127.0.0.1:4566/_aws/execute-api/ab12cd"


def test_a_function_looks_through_what_it_loaded_no_more(tmp_path):
    code = (
        "import gc, sys\n"
        "from noetl.runtime.aws import worker\n"
        f"worker.WORK_FOLDER = {str(tmp_path / 'work')!r}\n"
        "import handler\n"
        "from noetl.runtime.collector import RUNNING\n"
        "print(gc.get_threshold() == RUNNING, gc.get_freeze_count() > 10_000)"
    )
    known = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")}
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **known, "PYTHONPATH": str(ROOT / "functions" / "worker")},
        timeout=PATIENCE,
    )
    assert result.stdout.strip() == "True True", result.stderr


def test_the_engine_of_a_function_is_looked_through_no_more(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(cloud_engine, "open_parts", lambda settings: told.append("parts"))
    monkeypatch.setattr(cloud_engine, "open_engine", lambda settings, parts: told.append("engine"))
    monkeypatch.setattr(cloud_engine, "collect_as_usual", lambda: told.append("frozen"))
    cloud_engine.CloudEngine(CloudSettings.from_env(ENVIRONMENT)).open()
    assert told == ["parts", "engine", "frozen"]
