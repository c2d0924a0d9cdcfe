"""What goes wrong between functions: killed workers, dead letters, forged and repeated messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from noetl.adapters.changes import SUPERSEDED_LANE
from noetl.domain.capability_tokens import KeyRing, sign
from noetl.domain.events import CommandDone, ContextPatched, Event, encode_event
from noetl.domain.messages import VERSION, Message, encode_message
from noetl.domain.outcomes.outcomes import Outcome, Patch
from tests.e2e.remote import ASK, Remote
from tests.e2e.test_outages import short_back_off
from tests.integration.examples.api import Api, ApiServer, Request
from tests.parts import parted
from tests.waiting import PATIENCE, wait_until

GATE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: gate, path: e2e/gate }
workflow:
  - step: start
    spec:
      policy:
        admit:
          rules:
            - { when: "{{ ctx.open | default(false) }}", then: { allow: true } }
            - { else: { then: { allow: false } } }
    tool: { kind: noop, args: { note: "{{ ctx.note | default('') }}" } }
"""
LOST = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: lost, path: e2e/lost }
workload: { tries: 1 }
workflow:
  - step: start
    tool:
      kind: python
      code: result = "found"
      spec:
        policy:
          rules:
            - when: "{{ outcome.status == 'error' and outcome.error.kind == 'worker_lost' }}"
              then: { do: retry, attempts: "{{ workload.tries }}", delay: 1 }
"""


def signed_message(deployment: Any, event: Event) -> Message:
    """The message that the API would send about ``event``."""
    return Message(VERSION, token=sign(encode_event(event), token_keys(deployment)), event=event)


def token_keys(deployment: Any) -> KeyRing:
    """The keys that the functions sign with."""
    secret = deployment.client("secretsmanager").get_secret_value(
        SecretId=f"noetl/{deployment.environment}/tokens"
    )
    return KeyRing.of([secret["SecretString"]])


def send(deployment: Any, execution_id: str, body: str, unique: str) -> None:
    deployment.client("sqs").send_message(
        QueueUrl=deployment.output("EventsQueueUrl"),
        MessageBody=body,
        MessageGroupId=execution_id,
        MessageDeduplicationId=unique,
    )


def parked(remote: Remote) -> str:
    execution_id = remote.begin(GATE)
    run = remote.follow(execution_id)
    assert run.status == "waiting"
    return execution_id


def patched(remote: Remote, execution_id: str, **values: Any) -> ContextPatched:
    program = remote.store.info(int(execution_id)).program
    patches = [Patch("ctx", name, value) for name, value in values.items()]
    return ContextPatched(int(execution_id), f"e2e:{time.time_ns()}", program, patches, principal="e2e")


def test_a_worker_that_is_killed_while_it_works(remote: Remote, deployment: Any) -> None:
    asked, killed, api = threading.Event(), threading.Event(), Api()

    def answer(request: Request) -> tuple[int, Any]:
        asked.set()
        assert killed.wait(PATIENCE)
        return 200, {"said": "again"}

    # The lock of the scripted API is not held while one request waits.
    api.lock = threading.Semaphore(8)  # type: ignore[assignment]
    api.on("/slow", answer)
    with ApiServer(api), deployment.visibility("commands-io", 5):
        execution_id = remote.begin(ASK, url=f"{api.base}/slow")
        assert asked.wait(PATIENCE)
        assert deployment.kill("worker-io") >= 1
        killed.set()
        run = remote.follow(execution_id)
    assert (run.status, run.result) == ("completed", {"said": "again"})
    keys = [request.headers["idempotency-key"] for request in api.asked("/slow")]
    assert len(keys) >= 2 and len(set(keys)) == 1, "the same call, made again"
    assert run.count("step.exit", "start") == 1


def dead_letter(deployment: Any, name: str) -> None:
    """Receive the next message of a queue as often as makes it a dead letter, as workers would that die of it."""
    sqs, url = deployment.client("sqs"), deployment.queue_url(name)

    def received() -> str | None:
        answer = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0, WaitTimeSeconds=0)
        return next((message["MessageId"] for message in answer.get("Messages", [])), None)

    # The task's own retry may bring the next message the moment this one is given up: that one is left alone.
    first = wait_until(received, "a command in the queue")
    wait_until(lambda: received() != first, "the dead letter")


@pytest.fixture
def no_python_worker(deployment: Any) -> Iterator[Any]:
    """Commands of the python worker stay in their queue until the value is called."""
    client = deployment.client("lambda")
    mapping = deployment.event_source("worker-python")

    def switch(on: bool) -> None:
        client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=on)

    switch(False)
    yield lambda: switch(True)
    switch(True)


@pytest.mark.parametrize(("tries", "status"), parted([(2, "completed"), (1, "failed")], [(2, "completed")]))
def test_a_command_that_nobody_can_run(
    remote: Remote, deployment: Any, no_python_worker: Any, tries: int, status: str
) -> None:
    execution_id = remote.begin(LOST, tries=tries)
    with deployment.receives("commands-python", 3):
        dead_letter(deployment, "commands-python")
    no_python_worker()
    run = remote.follow(execution_id)
    assert run.status == status, run.error
    assert run.count("retry.scheduled") == tries - 1
    if status == "failed":
        assert (run.error["kind"], run.error["step"]) == ("worker_lost", "start"), run.error


def test_the_same_message_twice_is_applied_once(remote: Remote, deployment: Any) -> None:
    execution_id = parked(remote)
    event = patched(remote, execution_id, note="once")
    body = encode_message(signed_message(deployment, event))
    for number in range(2):
        send(deployment, execution_id, body, f"{event.event_id}:{number}")
    run = remote.patch(execution_id, {"open": True})
    assert run.result == {"note": "once"}
    wait_until(lambda: deployment.queue_depth("events.fifo") <= 1, "the second delivery")
    assert remote.seen(execution_id).count("ctx.patched") == 2, (
        "the API's, and one of the two that are the same"
    )


@pytest.mark.parametrize(
    "token", parted(["", "00000000.0-0.deadbeef", "an event of its own key"], ["an event of its own key"])
)
def test_a_forged_event_is_refused_and_recorded(remote: Remote, deployment: Any, token: str) -> None:
    execution_id = parked(remote)
    began = time.time()
    real = patched(remote, execution_id, open=True)
    if token.startswith("an event"):
        token = sign(encode_event(real), KeyRing.of(["not the key of this deployment"]))
        forged: Event = real
    else:
        outcome = Outcome("ok", result={"forged": True})
        forged = CommandDone(int(execution_id), "cmd:1:0", real.program, "1", 1, 0, 1, "start", outcome)

    def recorded() -> Any:
        return remote.store.item_events(int(execution_id), SUPERSEDED_LANE)

    # A key that is not known may be a new one: its messages are read again before they are refused.
    with short_back_off(deployment, "engine"):
        send(
            deployment, execution_id, encode_message(Message(VERSION, token=token, event=forged)), f"{began}"
        )
        (row,) = wait_until(recorded, "the record of a forged event")
    assert row.type == "command.superseded"
    assert remote.status(execution_id)["status"] == "waiting"

    def counted() -> bool:
        return any('"RefusedEvents":1' in line.replace(" ", "") for line in deployment.logs("engine", began))

    wait_until(counted, "the count of a forged event")
