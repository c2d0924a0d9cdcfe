"""Every command of docs/operations.md, as printed, on a deployment: in the order of the page, so that what one undoes comes after it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noetl.adapters.aws.s3 import S3ResultStore
from noetl.domain.messages import VERSION, Message, MessageRef, encode_message
from noetl.local.emulator import credentials
from tests.e2e.conftest import UP_SECONDS
from tests.e2e.remote import Remote
from tests.e2e.test_failures import parked, patched, send, signed_message
from tests.e2e.test_outages import short_back_off
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operations.md"
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
EXAMPLE = "317943810297856"
"""The execution that the page speaks of."""


def blocks() -> list[tuple[str, str, str]]:
    """(heading, language, commands) of the page; what is marked as text is for another program."""
    page, found = PAGE.read_text("utf-8"), []
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
