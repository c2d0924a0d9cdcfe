"""Large results in the tiers of a deployment: DynamoDB, the bucket, and a worker's disk in front of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.remote import Remote, Run

TIERS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: tiers, path: e2e/tiers }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        result = [{"number": number, "text": "x" * 200} for number in range(4000)]
      spec: { result: { store: { kind: kv } } }
    next: { arcs: [{ step: fetch }] }
  - step: fetch
    tool:
      kind: postgres
      command: SELECT n AS number, repeat('y', 300) AS text FROM generate_series(1, 5000) AS n
    next: { arcs: [{ step: small }] }
  - step: small
    tool:
      kind: python
      args: { rows: "{{ start }}" }
      code: |
        result = {"rows": rows[:200]}
    next: { arcs: [{ step: bucket }] }
  - step: bucket
    tool:
      kind: python
      args: { rows: "{{ fetch.rows }}" }
      code: |
        result = {"rows": rows[:2000]}
      spec: { result: { store: s3 } }
    next: { arcs: [{ step: elsewhere }] }
  - step: elsewhere
    tool:
      kind: python
      args: { rows: "{{ small.rows }}", more: "{{ bucket.rows }}", last: "{{ fetch.rows[4999].number }}" }
      code: |
        result = {"rows": rows, "more": more, "last": last}
      spec: { result: { store: gcs } }
"""


def stores(run: Run) -> dict[str, str]:
    """Step → tier, as the references in the history say."""
    found: dict[str, str] = {}

    def look(step: str, value: Any) -> None:
        if isinstance(value, dict):
            if value.get("kind") == "result_ref":
                found.setdefault(step, value["store"])
            for one in value.values():
                look(step, one)
        elif isinstance(value, list):
            for one in value:
                look(step, one)

    for event in run.events:
        look(event.payload.get("step") or event.entity_id, event.payload)
    return found


def test_results_go_to_the_tier_that_is_asked_for_and_are_read_from_there(
    remote: Remote, deployment: Any
) -> None:
    """Written by workers, read by workers in templates, and by the API; what a deployment has not goes to the default."""
    run = remote.follow(remote.begin(TIERS))
    assert run.status == "completed", run.error
    rows = [{"number": number, "text": "x" * 200} for number in range(200)]
    more = [{"number": number, "text": "y" * 300} for number in range(1, 2001)]
    assert run.result == {"rows": rows, "more": more, "last": 5000}
    assert stores(run) == {"start": "kv", "fetch": "disk", "small": "kv", "bucket": "s3", "elsewhere": "s3"}

    dynamo = deployment.client("dynamodb")
    (table,) = dynamo.list_tables()["TableNames"]
    kept = dynamo.query(
        TableName=table,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": run.execution_id}},
    )
    sizes = [len(item["data"]["B"]) for item in kept["Items"]]
    assert sum(sizes) > 800_000 and max(sizes) <= 400_000, "one value in several items"
    objects = deployment.client("s3").list_objects_v2(
        Bucket=deployment.output("ResultsBucketName"), Prefix=f"executions/{run.execution_id}/"
    )["Contents"]
    copies = [path.name for path in Path("/tmp/noetl-results/data", run.execution_id).iterdir()]
    assert copies and set(copies) <= {one["Key"].rpartition("/")[2] for one in objects}
    told = [line for line in deployment.logs("worker-python") if "tier gcs is not set up here" in line]
    assert told, "a wish that cannot be met is told of"
