"""Triggers made while the deployment runs, moments of the past, and what goes when its time is over."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.e2e.test_schedules import completed, register, started
from tests.waiting import wait_until

LOAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: load, path: e2e/load }
workload: { n: 0 }
workflow:
  - step: start
    tool: { kind: python, args: { n: "{{ workload.n }}" }, code: "result = 'x' * n" }
"""
LARGE = 100_000


def put(deployment: Any, name: str, source: dict[str, Any], path: str = "n") -> Any:
    wish = {"name": name, "path": "e2e/load", "source": source, "payload": {"n": f"{{{{ event.{path} }}}}"}}
    answer = deployment.api("POST", "/api/triggers", wish)
    assert answer.status == 201, answer
    return answer.body


@pytest.mark.timeout(600)
def test_a_rule_that_the_api_makes_starts_its_playbook_and_goes_with_its_trigger(deployment: Any) -> None:
    register(deployment, LOAD)
    events = deployment.client("events")
    put(deployment, "orders", {"type": "eventbridge", "pattern": {"source": ["acme.e2e"]}}, "detail.n")
    rule = f"noetl-{deployment.environment}-t-orders"
    assert [one["Name"] for one in events.list_rules(NamePrefix=rule)["Rules"]] == [rule]
    told = {"Source": "acme.e2e", "DetailType": "Order", "Detail": json.dumps({"n": 3})}
    events.put_events(Entries=[told])

    def fired() -> Any:
        return deployment.api("GET", "/api/triggers/orders").body["last_execution_id"]

    execution_id = wait_until(fired, "the trigger's firing")
    assert completed(deployment, execution_id) == "xxx"
    again = {
        "trigger": "orders",
        "event": {"id": "e-1", "source": "s", "detail-type": "d", "detail": {"n": 1}},
    }
    for _ in range(2):
        assert deployment.invoke("scheduler", again) == (None, None)
    assert deployment.api("GET", "/api/triggers/orders").body["fired"] == 2, "told twice, started once"
    assert deployment.api("DELETE", "/api/triggers/orders").status == 200
    assert events.list_rules(NamePrefix=rule)["Rules"] == []


def test_a_queue_is_read_from_the_making_of_its_trigger_to_its_end_without_a_deployment(
    deployment: Any,
) -> None:
    register(deployment, LOAD)
    sqs, functions = deployment.client("sqs"), deployment.client("lambda")
    letters = f"noetl-{deployment.environment}-in-letters"

    def wish(queue: str) -> Any:
        source = {"type": "sqs", "queue": queue, "batch": 2}
        body = {
            "name": "letters",
            "path": "e2e/load",
            "source": source,
            "payload": {"n": "{{ event.body.n }}"},
        }
        return deployment.api("POST", "/api/triggers", body)

    closed, missing = wish("letters"), wish(letters)
    assert (closed.status, closed.body["code"]) == (422, "trigger_source_unavailable")
    assert "triggers.queues" in closed.body["detail"] and "metadata.triggers" in closed.body["hint"]
    assert (missing.status, missing.body["code"]) == (422, "trigger_source_missing")
    url = sqs.create_queue(QueueName=letters)["QueueUrl"]
    made = wish(letters)
    arn = made.body["source"]["queue"]
    assert made.status == 201 and arn.endswith(f":{letters}")

    def mapping() -> Any:
        found = functions.list_event_source_mappings(EventSourceArn=arn)["EventSourceMappings"]
        return [(one["State"], one["BatchSize"], one["FunctionResponseTypes"]) for one in found]

    def shown() -> Any:
        return deployment.api("GET", "/api/triggers/letters").body

    assert mapping() == [("Enabled", 2, ["ReportBatchItemFailures"])]
    with pytest.raises(functions.exceptions.ResourceConflictException):
        functions.create_event_source_mapping(
            EventSourceArn=arn, FunctionName=deployment.function("scheduler")
        )
    message_id = sqs.send_message(QueueUrl=url, MessageBody='{"n": 4}')["MessageId"]
    execution_id = wait_until(lambda: shown()["last_execution_id"], "the message's start")
    assert completed(deployment, execution_id) == "xxxx"
    again = {"messageId": message_id, "body": '{"n": 4}', "eventSourceARN": arn}
    odd = {**again, "messageId": "odd", "body": "no number"}
    answer, error = deployment.invoke("scheduler", {"Records": [again, odd]})
    assert (answer, error) == ({"batchItemFailures": [{"itemIdentifier": "odd"}]}, None)
    assert (shown()["fired"], shown()["failed"]) == (1, 1), "a message that comes again starts nothing more"
    assert deployment.api("PATCH", "/api/triggers/letters", {"enabled": False}).status == 200
    assert mapping() == [("Disabled", 2, ["ReportBatchItemFailures"])]
    sqs.send_message(QueueUrl=url, MessageBody='{"n": 2}')
    assert deployment.queue_depth("in-letters") == 1 and shown()["fired"] == 1
    assert deployment.api("POST", "/api/triggers/letters/enable").status == 200
    wait_until(lambda: shown()["fired"] == 2, "what waited while it was disabled")
    assert completed(deployment, shown()["last_execution_id"]) == "xx"
    assert deployment.api("DELETE", "/api/triggers/letters").status == 200 and mapping() == []
    sqs.delete_queue(QueueUrl=url)


def test_moments_of_the_past_start_once_and_the_entry_goes_with_its_schedule(deployment: Any) -> None:
    register(deployment, LOAD)
    wish = {"path": "e2e/load", "name": "e2e-daily", "cron": "0 6 * * *", "payload": {"n": 2}}
    assert deployment.api("POST", "/api/schedules", wish).status == 201
    before = set(started(deployment, "e2e/load"))
    days = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-03T00:00:00Z"}
    place = "/api/schedules/e2e-daily/backfill"
    dry = deployment.api("POST", place, {**days, "dry_run": True}).body["moments"]
    assert [one["status"] for one in dry] == ["pending", "pending"]
    done = deployment.api("POST", place, days).body["moments"]
    assert [one["status"] for one in done] == ["started", "started"]
    assert completed(deployment, done[0]["execution_id"]) == "xx"
    assert deployment.api("POST", place, {**days, "only_missed": True}).body["moments"] == []
    assert set(started(deployment, "e2e/load")) - before == {one["execution_id"] for one in done}
    group = f"noetl-{deployment.environment}"
    names = [
        one["Name"] for one in deployment.client("scheduler").list_schedules(GroupName=group)["Schedules"]
    ]
    assert "e2e-daily" in names
    assert deployment.api("DELETE", "/api/schedules/e2e-daily").status == 200
    names = [
        one["Name"] for one in deployment.client("scheduler").list_schedules(GroupName=group)["Schedules"]
    ]
    assert "e2e-daily" not in names


def test_maintenance_removes_what_ended_long_ago_with_its_results(deployment: Any) -> None:
    register(deployment, LOAD)
    hook = put(deployment, "large", {"type": "webhook"}, "body.n")["hook"]
    fired = deployment.api("POST", hook, {"n": LARGE})
    execution_id = fired.body["execution_id"]
    young = deployment.api("POST", hook, {"n": LARGE}).body["execution_id"]
    for one in (execution_id, young):
        completed(deployment, one)
    s3, bucket = deployment.client("s3"), deployment.output("ResultsBucketName")

    def objects(one: str) -> int:
        return int(s3.list_objects_v2(Bucket=bucket, Prefix=f"executions/{one}/")["KeyCount"])

    assert objects(execution_id) > 0
    with psycopg.connect(deployment.database(), autocommit=True) as connection:
        connection.execute(
            "UPDATE noetl.execution SET ended_at = ended_at - interval '9 days' WHERE execution_id = %s",
            (execution_id,),
        )
    dry = deployment.api("POST", "/api/admin/prune", {"dry_run": True}).body
    assert dry["executions"] >= 1 and dry["dry_run"]
    answer, error = deployment.invoke("maintenance", {"noetl": "tick"})
    assert error is None, answer
    assert deployment.api("GET", f"/api/executions/{execution_id}").status == 404
    assert objects(execution_id) == 0 and objects(young) > 0
    assert deployment.api("GET", f"/api/executions/{young}/status").body["status"] == "completed"
    pruned = deployment.api("POST", "/api/admin/prune", {"older_than_days": 7}).body
    assert (pruned["status"], pruned["executions"]) == ("complete", 0)
