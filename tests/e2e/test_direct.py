"""Steps that follow one another without a queue: outcomes by request, and what happens when there is no answer."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.e2e.remote import Remote
from tests.integration.examples.api import Api, ApiServer, Request
from tests.waiting import wait_until

STEPS = 6
CHAIN = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: direct, path: e2e/direct }\nworkload: { url: '' }\nworkflow:\n" + "".join(
    f"  - step: {'start' if number == 0 else f's{number}'}\n"
    f'    tool: {{ kind: http, url: "{{{{ workload.url }}}}/{number}" }}\n'
    + (f"    next: s{number + 1}\n" if number + 1 < STEPS else "")
    for number in range(STEPS)
)  # fmt: skip


def lines(deployment: Any, function: str, since: float) -> list[dict[str, Any]]:
    """What each invocation of a function said of itself."""
    found = []
    for line in deployment.logs(function, since):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and told.get("message") == "done":
            found.append(told)
    return found


def about(found: list[dict[str, Any]], execution_id: str) -> list[dict[str, Any]]:
    return [told for told in found if told.get("execution_id") == execution_id]


def test_a_chain_takes_one_message_of_a_queue(deployment: Any, remote: Remote) -> None:
    """A client that waits is answered with the end; one invocation of the worker has run all steps."""
    since = time.time() - 1
    api = Api()
    api.on("/", lambda request: (200, {"said": request.path}))
    with ApiServer(api):
        made = remote.register(CHAIN)
        body = {"playbook_id": made["catalog_id"], "payload": {"url": api.base}}
        answer = deployment.api("POST", "/api/executions?wait=20", body)
        assert answer.status == 201
        execution_id = answer.body["execution_id"]
        remote.follow(execution_id)
    assert [request.path for request in api.requests] == [f"/{number}" for number in range(STEPS)]

    def told() -> bool:
        found = about(lines(deployment, "worker-io", since), execution_id)
        return sum(one.get("commands", 0) for one in found) == STEPS

    wait_until(told, "the worker's lines")
    ran = about(lines(deployment, "worker-io", since), execution_id)
    assert (
        sum(one.get("taken", 0) for one in ran) >= STEPS - 2
        and sum(one.get("direct", 0) for one in ran) >= STEPS - 1
    )
    assert len(ran) <= 2, "a request may fail on a machine that is busy"


def test_a_chain_goes_on_when_nobody_answers(deployment: Any, remote: Remote) -> None:
    """The function that decides is killed while it may be asked; every step runs once all the same."""
    asked: list[str] = []

    def reply(request: Request) -> tuple[int, Any]:
        asked.append(request.path)
        if len(asked) in (2, 4):
            deployment.kill("decide")
        return 200, {"said": request.path}

    api = Api()
    api.on("/", reply)
    with ApiServer(api):
        run = remote.follow(remote.begin(CHAIN, url=api.base))
    assert run.status == "completed"
    assert list(dict.fromkeys(asked)) == [f"/{number}" for number in range(STEPS)]
    assert len(asked) <= STEPS + 2, "what was leased in vain may have run twice"


def test_nobody_gets_anything_by_asking(deployment: Any) -> None:
    """A worker runs code of playbooks and may invoke the function: with anything but an outcome and its grant it is refused."""
    forged = {"v": 1, "lease": "0" * 32, "most": 9}
    answer, error = deployment.invoke("decide", {**forged, "outcomes": ["{}"]})
    assert error is None and answer == {"v": 1}
    records = {
        "Records": [
            {"messageId": "1", "body": "{}", "eventSourceARN": "arn:aws:sqs:us-east-1:0:noetl-local-timers"}
        ]
    }
    answer, error = deployment.invoke("decide", records)
    assert error is not None
