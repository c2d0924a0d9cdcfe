"""Starting, changing and ending executions through the deployed API; waiting; large results."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.remote import EXAMPLES, Remote
from tests.waiting import wait_until

LARGE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: large, path: e2e/large }
workload: { rows: 4000 }
workflow:
  - step: start
    tool:
      kind: python
      args: { rows: "{{ workload.rows }}" }
      code: |
        result = [{"number": number, "text": "x" * 40} for number in range(rows)]
"""
LONG = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: long, path: e2e/long }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import time
        time.sleep(120)
        result = "too late"
"""
PATIENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: patient, path: e2e/patient }
workflow:
  - step: start
    spec: { policy: { admit: { timeout: 2, rules: [{ else: { then: { allow: false } } }] } } }
    tool: { kind: noop }
    next: { arcs: [{ step: tries, when: "{{ event.name == 'step.failed' }}" }] }
  - step: tries
    tool:
      kind: python
      args: { number: "{{ _attempt }}" }
      code: |
        if number < 2:
            raise ValueError("not yet")
        result = number
      spec:
        policy:
          rules:
            - { when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 3, delay: 2 } }
"""


def test_a_large_result_lies_in_the_bucket(remote: Remote, deployment: Any) -> None:
    run = remote.follow(remote.begin(LARGE))
    assert run.status == "completed", run.error
    assert run.result == [{"number": number, "text": "x" * 40} for number in range(4000)]
    objects = deployment.client("s3").list_objects_v2(
        Bucket=deployment.output("ResultsBucketName"), Prefix=f"executions/{run.execution_id}/"
    )["Contents"]
    assert max(one["Size"] for one in objects) > 200_000
    assert max(len(str(event.payload)) for event in run.events) < 20_000, "history carries references"


def test_what_is_too_large_for_an_answer_is_downloaded(remote: Remote, deployment: Any) -> None:
    execution_id = remote.begin(LARGE, rows=200_000)
    wait_until(lambda: remote.status(execution_id)["ended"], "the end")
    answer = deployment.api("GET", f"/api/executions/{execution_id}/result").body
    assert (answer["status"], answer["complete"]) == ("completed", False)
    (download,) = answer["downloads"]
    assert download["size"] > 6_000_000
    assert remote.downloaded(download["url"]) == [{"number": n, "text": "x" * 40} for n in range(200_000)]


def test_cancelling_revokes_what_is_under_way(remote: Remote, deployment: Any) -> None:
    execution_id = remote.begin(LONG)
    wait_until(lambda: deployment.in_flight("commands-python"), "the worker's taking the command")
    answer = deployment.api("POST", f"/api/executions/{execution_id}/cancel", {"reason": "not needed"})
    assert answer.status == 202
    run = remote.follow(execution_id)
    assert run.status == "cancelled"
    marks = deployment.client("s3").list_objects_v2(
        Bucket=deployment.output("ResultsBucketName"), Prefix=f"revoked/{execution_id}"
    )
    assert marks["KeyCount"] >= 1
    wait_until(lambda: deployment.queue_depth("commands-python") == 0, "the worker's giving up")
    assert deployment.api("POST", f"/api/executions/{execution_id}/cancel", {}).status == 409


def test_one_key_is_one_execution(remote: Remote, deployment: Any) -> None:
    made = remote.register((EXAMPLES / "batch_counters" / "batch_counters.yaml").read_text())
    key = {"Idempotency-Key": f"e2e-{time.time_ns()}"}
    ids = {remote.start(headers=key, path=made["path"], payload={}) for _ in range(3)}
    assert len(ids) == 1
    other = deployment.api("POST", "/api/execute", {"path": made["path"], "payload": {"other": 1}}, key)
    assert other.status == 409
    assert remote.follow(ids.pop()).status == "completed"


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ({"approved": True, "note": "by phone"}, {"order": "o-17", "paid": 250, "note": "by phone"}),
        ({"approved": False}, {"order": "o-17", "refused": "no reason given"}),
    ],
)
def test_an_operator_decides(remote: Remote, values: dict[str, Any], result: dict[str, Any]) -> None:
    waiting = remote.run("operator_approval")
    assert waiting.status == "waiting"
    assert waiting.count("step.parked") == 1
    note = remote.patch(waiting.execution_id, {"comment": "still looking"})
    assert note.status == "waiting", "another key does not open the gate"
    run = remote.patch(waiting.execution_id, values, reason="a test decides")
    assert (run.status, run.result) == ("completed", result)
    told = [event for event in run.events if event.event_type == "ctx.patched"]
    assert told[-1].payload["reason"] == "a test decides"
    assert told[-1].meta["principal"]


def test_timers_and_delays_are_kept(remote: Remote) -> None:
    execution_id = remote.begin(PATIENT)
    wait_until(lambda: remote.status(execution_id)["ended"], "the end")
    run = remote.seen(execution_id)
    assert (run.status, run.result) == ("completed", 2), run.error
    assert run.count("retry.scheduled") == 1
    summary = remote.status(run.execution_id)
    assert summary["duration_ms"] / 1000 >= 4.0, "two seconds for the timer, two for the second try"


LOOPED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: looped, path: e2e/looped }
workflow:
  - step: start
    loop: { in: [1, 0, 3], iterator: n, spec: { mode: parallel } }
    tool:
      kind: python
      args: { n: "{{ iter.n }}" }
      code: |
        result = 6 / n
    next: { arcs: [{ step: gate }] }
  - step: gate
    spec: { policy: { admit: { rules: [{ when: "{{ ctx.open is defined }}", then: { allow: true } }, { else: { then: { allow: false } } }] } } }
    tool: { kind: noop, args: { all: "{{ start | list }}" } }
"""


def test_a_failed_loop_is_mended_paused_and_called_off_with_others(remote: Remote, deployment: Any) -> None:
    failed = remote.follow(remote.begin(LOOPED))
    assert failed.status == "failed"
    one = f"/api/executions/{failed.execution_id}"
    version = remote.register(LOOPED.replace("6 / n", "6 / n if n else 0"))["version"]
    wish = {"filter": {"ids": [str(failed.execution_id)]}, "from": "start[failed]", "reason": "mended"}
    assert deployment.api("POST", "/api/executions/redrive", {**wish, "dry_run": True}).body["done"] == 1
    asked = {"from": "failure", "version": version, "reason": "mended"}
    assert deployment.api("POST", f"{one}/redrive", asked).status == 202
    wait_until(lambda: remote.status(failed.execution_id)["status"] == "waiting", "the gate")
    items = [event for event in remote.events(failed.execution_id) if event.event_type == "loop.item"]
    assert [item.payload["index"] for item in items] == [0, 1, 2, 1]
    assert deployment.api("POST", f"{one}/pause", {}).status == 202
    wait_until(lambda: remote.status(failed.execution_id)["status"] == "paused", "the pause")
    assert deployment.api("PATCH", f"{one}/ctx", {"patch": {"open": True}}).status == 202
    assert deployment.api("POST", f"{one}/resume", {}).status == 202
    run = remote.follow(failed.execution_id)
    assert (run.status, run.result) == ("completed", {"all": [6.0, 0, 2.0]})
    waiting = [remote.start(path="e2e/looped", payload={}) for _ in range(2)]
    for each in waiting:
        wait_until(lambda each=each: remote.status(each)["status"] == "waiting", "the gate")
    wish = {"filter": {"path": "e2e/looped", "version": version}, "reason": "enough"}
    done = deployment.api("POST", "/api/executions/cancel", wish).body
    assert {row["execution_id"] for row in done["executions"]} == {str(each) for each in waiting}
    for each in waiting:
        wait_until(lambda each=each: remote.status(each)["status"] == "cancelled", "the end")
