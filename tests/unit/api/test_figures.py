"""Figures about many executions over the API: endings over time, failures by code, and the questions of all executions."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.parts import over
from tests.unit.api.ground import FAILING, GATED, HELLO, Ground

ASKING = HELLO.replace("demo/hello", "demo/asking").replace(
    'kind: double, value: "{{ workload.n }}"', 'kind: wait, approve: true, message: "Pay?"'
)


def test_endings_are_counted_in_buckets_without_gaps(ground):
    for text in (HELLO, HELLO, FAILING, GATED):
        ground.run(text)
    answer = ground.ask("GET", "/api/executions/stats", query={"bucket": "3600"}).json
    buckets = answer["buckets"]
    begins = [datetime.fromisoformat(one["at"]) for one in buckets]
    assert begins == [begins[0] + timedelta(hours=number) for number in range(len(buckets))]
    assert len(buckets) in (25, 26) and answer["complete_from"] is None
    assert (sum(one["completed"] for one in buckets), sum(one["failed"] for one in buckets)) == (2, 1)
    assert buckets[0]["p50_ms"] is None and max(one["p95_ms"] or 0 for one in buckets) >= 0


def test_endings_of_several_playbooks_come_in_one_answer(ground):
    for text in (HELLO, HELLO, FAILING, GATED):
        ground.run(text)
    body = {"paths": ["demo/hello", "demo/failing", "demo/gated", "no/such"]}
    answer = ground.ask("POST", "/api/executions/activity", body, query={"bucket": "86400"}).json
    found = {one["path"]: (one["ended"], one["failed"]) for one in answer["playbooks"]}
    assert found == {"demo/hello": (2, 0), "demo/failing": (1, 1)}
    assert (answer["bucket_seconds"], answer["complete_from"]) == (86_400, None)
    for one in answer["playbooks"]:
        assert sum(bucket["ended"] for bucket in one["buckets"]) == one["ended"]


@over(
    ("body", "query"),
    [
        ({"paths": []}, {}),
        ({"paths": ["p"] * 501}, {}),
        ({}, {}),
        ({"paths": ["p"]}, {"bucket": "60", "ended_after": "0"}),
        ({"paths": ["p"]}, {"bucket": "7 days"}),
    ],
    ground=Ground,
)
def test_activity_of_none_of_too_many_and_of_a_bad_window_is_refused(ground, body, query):
    answer = ground.ask("POST", "/api/executions/activity", body, query=query)
    assert answer.status in (400, 422) and answer.json["code"] in (
        "body_invalid",
        "invalid_window",
        "invalid_parameter",
    )


def test_failures_say_playbook_code_and_the_latest_execution(ground):
    ground.run(FAILING)
    latest = ground.run(FAILING)
    ground.run(HELLO)
    answer = ground.ask("GET", "/api/executions/failures").json
    (group,) = answer["failures"]
    assert (group["path"], group["count"], group["latest"], answer["more"]) == (
        "demo/failing",
        2,
        latest,
        False,
    )
    listed = ground.ask("GET", "/api/executions", query={"error_code": group["code"]}).json["executions"]
    assert len(listed) == 2
    assert ground.ask("GET", "/api/executions/failures", query={"path": "demo/hello"}).json["failures"] == []


@over(
    ("query", "code", "said"),
    [
        ({"bucket": "1"}, "invalid_parameter", "bucket"),
        ({"bucket": "60", "ended_after": "0"}, "invalid_window", "buckets of 60 s"),
        ({"ended_after": "20", "ended_before": "10"}, "invalid_window", "is empty"),
        ({"ended_after": "yesterday"}, "invalid_parameter", "yesterday"),
    ],
    ground=Ground,
)
def test_a_window_that_makes_no_sense_is_refused(ground, query, code, said):
    answer = ground.ask("GET", "/api/executions/stats", query=query)
    assert answer.status in (400, 422) and answer.json["code"] == code and said in answer.json["detail"]


def test_open_questions_of_all_executions_come_by_pages_the_oldest_first(ground):
    # Two that begin in one millisecond have ids in any order.
    first, second = sorted((ground.run(ASKING), ground.run(ASKING)), key=int)
    ground.run(GATED)
    page = ground.ask("GET", "/api/callbacks", query={"limit": "1"}).json
    rest = ground.ask("GET", "/api/callbacks", query={"limit": "1", "after": page["next"]}).json
    found = [*page["callbacks"], *rest["callbacks"]]
    assert [(one["execution_id"], one["path"], one["message"], one["approve"]) for one in found] == [
        (one, "demo/asking", "Pay?", True) for one in (first, second)
    ]
    taken = ground.ask("POST", f"/api/callbacks/{found[0]['token']}", {"approved": True}, authorizer={})
    assert taken.status == 202
    ground.settle()
    left = ground.ask("GET", "/api/callbacks").json
    assert ([one["execution_id"] for one in left["callbacks"]], left["next"]) == ([second], None)
    assert ground.ask("GET", "/api/callbacks", query={"after": "x"}).status == 400
