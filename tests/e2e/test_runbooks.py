"""Commands of docs/operations.md and docs/restore.md, as printed, on a deployment: in their order, so that what one undoes comes after it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from noetl.adapters.aws.s3 import S3ResultStore
from noetl.domain.messages import VERSION, Message, MessageRef, encode_message
from noetl.local.database import dsn_file
from noetl.local.emulator import credentials
from noetl.local.layout import Layout
from tests.e2e.conftest import UP_SECONDS
from tests.e2e.remote import ASK, Remote
from tests.e2e.test_failures import GATE, parked, patched, send, signed_message
from tests.e2e.test_outages import short_back_off
from tests.integration.examples.api import Api, ApiServer, Request
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operations.md"
RESTORE = ROOT / "docs" / "restore.md"
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
EXAMPLE = "317943810297856"
"""The execution that the page speaks of."""


def blocks(of: Path = PAGE) -> list[tuple[str, str, str]]:
    """(heading, language, commands) of a page; what is marked as text is for another program."""
    page, found = of.read_text("utf-8"), []
    for match in BLOCK.finditer(page):
        heading = re.findall(r"^##+ (.*)$", page[: match.start()], re.MULTILINE)[-1]
        if match[2] != "text":
            found.append((heading, match[2], textwrap.dedent(match[3])))
    return found


BLOCKS = blocks()


@pytest.fixture(scope="module")
def shell(deployment: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Run commands of the page with the deployment's name for that of production."""
    folder = tmp_path_factory.mktemp("bin")
    for name, module in (("aws", "tests.e2e.aws_command"), ("noetl", "noetl.cli")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "NOETL_"))}
    env = {
        **kept,
        **credentials(deployment.endpoint),
        "PATH": f"{folder}{os.pathsep}{kept['PATH']}",
        "NOETL_API": deployment.url,
        "NOETL_HOME": str(folder / "home"),
        "NOETL_CONTEXT": "deployed",
        "PYTHONPATH": str(ROOT),
    }

    def run(text: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", for_deployment(text, deployment)],
            capture_output=True, text=True, env=env, cwd=ROOT, timeout=UP_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    run(f"noetl context add deployed --url {deployment.url}")
    return run


def for_deployment(text: str, deployment: Any) -> str:
    return re.sub(r"\b(prod|dev)\b", deployment.environment, text)


@pytest.mark.parametrize(
    "number", range(len(BLOCKS)), ids=[f"{n}-{heading[:30]}" for n, (heading, *_) in enumerate(BLOCKS)]
)
def test_a_runbook_can_be_run_as_it_is_printed(
    number: int, shell: Any, deployment: Any, remote: Remote
) -> None:
    _, language, text = BLOCKS[number]
    if language == "sql":
        with psycopg.connect(deployment.database(), autocommit=True) as connection:
            connection.execute(text.replace(EXAMPLE, parked(remote)))
    else:
        shell(text)


def test_the_page_has_runbooks_and_leaves_the_deployment_running(remote: Remote, deployment: Any) -> None:
    assert len(BLOCKS) >= 9
    run = remote.patch(parked(remote), {"open": True})
    assert run.status == "completed"


def test_the_redrive_runbook_moves_on_an_execution_whose_event_was_laid_aside(
    remote: Remote, deployment: Any, shell: Any
) -> None:
    """The text of an event is missing: its group is not held up, analyze says why, and the printed commands mend it."""
    execution_id = parked(remote)
    text = encode_message(signed_message(deployment, patched(remote, execution_id, open=True, note="again")))
    ref = MessageRef(f"noetl://execution/{execution_id}/result/message/{'5' * 64}", _digest(text), len(text))
    with short_back_off(deployment, "engine"):
        send(deployment, execution_id, encode_message(Message(VERSION, ref=ref)), ref.sha256)
        wait_until(lambda: deployment.queue_depth("events-dlq.fifo"), "the dead letter")
    assert remote.status(execution_id)["status"] == "waiting", "nothing is lost, nothing is invented"
    answer = deployment.api("POST", f"/api/executions/{execution_id}/analyze").body
    assert answer["findings"][0]["kind"] == "dead_letter"
    assert ref.uri.removesuffix("5" * 56) in answer["verdict"], "of a digest, the beginning is shown"
    (redrive,) = [text for heading, _, text in BLOCKS if heading == "Redrive"]
    S3ResultStore(deployment.output("ResultsBucketName"), deployment.client("s3")).put(ref.uri, text.encode())
    told = shell(redrive)
    assert execution_id in told and '"sent": 1' in told
    wait_until(lambda: remote.status(execution_id)["status"] != "waiting", "the event that was sent back")
    run = remote.follow(execution_id)
    assert (run.status, run.result) == ("completed", {"note": "again"})
    assert deployment.queue_depth("events-dlq.fifo") == 0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


LARGE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: large, path: e2e/large }
workflow:
  - step: start
    tool: { kind: python, code: "result = {'text': 'x' * 100_000}" }
"""
MIGRATE = re.compile(r"`(noetl invoke migrate [^`]+)`")
OF_ONE = f"execution_id = {EXAMPLE} AND "
STOPPED = ("api", "decide", "scheduler", "maintenance")


@pytest.fixture
def as_before(deployment: Any) -> Iterator[None]:
    """Give the functions that the runbook stops back the concurrency and the messages that they had."""
    client = deployment.client("lambda")
    names = [deployment.function(name) for name in STOPPED]
    found = {name: client.get_function_concurrency(FunctionName=name) for name in names}
    yield
    for name, before in found.items():
        most = before.get("ReservedConcurrentExecutions")
        if most is None:
            client.delete_function_concurrency(FunctionName=name)
        else:
            client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=most)
    for mapping in client.list_event_source_mappings()["EventSourceMappings"]:
        client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


@contextlib.contextmanager
def nobody_connected(deployment: Any) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """Close the database of the deployment to everybody else; gives a connection of the server's owner beside it, and its name."""
    name = str(conninfo.conninfo_to_dict(deployment.database())["dbname"])
    dsn = dsn_file(Layout(deployment.home / "local")).read_text()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        others = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(others, (name,))
        try:
            yield connection, name
        finally:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.mark.full
@pytest.mark.timeout(round(8 * PATIENCE))
def test_a_database_that_is_restored_to_a_moment_goes_on_from_there(
    remote: Remote, deployment: Any, shell: Any, as_before: None
) -> None:
    """As docs/restore.md prints it; what Aurora does, a copy of the database does here. What began later is gone, all else goes on."""
    asked, answered, api = threading.Event(), threading.Event(), Api()

    def answer(request: Request) -> tuple[int, Any]:
        asked.set()
        assert answered.wait(2 * PATIENCE)
        return 200, {"said": "yes"}

    # The lock of the scripted API is not held while one request waits.
    api.lock = threading.Semaphore(8)  # type: ignore[assignment]
    api.on("/slow", answer)
    stop, start = (text for heading, _, text in blocks(RESTORE) if heading.startswith("Restore the database"))
    (migrate,) = set(MIGRATE.findall(RESTORE.read_text("utf-8")))
    (publish,) = [text for _, _, text in BLOCKS if "UPDATE noetl.command" in text]
    assert publish.count(OF_ONE) == 3
    with ApiServer(api):
        ended = remote.follow(remote.begin(LARGE)).execution_id
        waiting, gate = parked(remote), remote.register(GATE)["catalog_id"]
        running = remote.begin(ASK, url=f"{api.base}/slow")
        assert asked.wait(PATIENCE)
        with nobody_connected(deployment) as (server, name):
            for left in ("lost", "moment"):  # of a deployment that was restored before
                server.execute(f"DROP DATABASE IF EXISTS {left}")
            server.execute(f'CREATE DATABASE moment TEMPLATE "{name}"')
            owner = conninfo.conninfo_to_dict(deployment.database())["user"]
            server.execute(f'ALTER DATABASE moment OWNER TO "{owner}"')
        answered.set()
        assert remote.follow(running).status == "completed"
        assert remote.patch(waiting, {"open": True, "note": "lost"}).result == {"note": "lost"}
        keyed = {"headers": {"Idempotency-Key": f"lost-{running}"}, "playbook_id": gate}
        lost = remote.start(**keyed)
        remote.follow(lost)

        shell(stop)
        assert deployment.api("GET", f"/api/executions/{lost}/status").status >= 429
        mappings = deployment.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        assert {one["State"] for one in mappings if ":noetl-" in one["FunctionArn"]} == {"Disabled"}
        with nobody_connected(deployment) as (server, name):
            server.execute(f'ALTER DATABASE "{name}" RENAME TO lost')
            server.execute(f'ALTER DATABASE moment RENAME TO "{name}"')
        shell(migrate)
        with psycopg.connect(deployment.database(), autocommit=True) as connection:
            connection.execute(publish.replace(OF_ONE, ""))
        shell(start)

        run = remote.follow(running)
    assert (run.status, run.result) == ("completed", {"said": "yes"})
    assert len({request.headers["idempotency-key"] for request in api.asked("/slow")}) == 1
    assert run.count("step.exit", "start") == 1
    assert remote.result(ended) == {"text": "x" * 100_000}
    assert deployment.api("GET", f"/api/executions/{lost}").status == 404
    assert remote.status(waiting)["status"] == "waiting"
    assert remote.patch(waiting, {"open": True, "note": "kept"}).result == {"note": "kept"}
    again = remote.start(**keyed)
    assert again != lost
    assert remote.follow(again).status == "waiting"
    assert not any(map(deployment.queue_depth, ("events-dlq.fifo", "timers-dlq", "commands-dlq")))
