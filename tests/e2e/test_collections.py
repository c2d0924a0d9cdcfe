"""Loops over what lies in buckets: read by a worker of the deployment, and then by slices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_schedules import completed, register
from tests.parts import repeated
from tests.waiting import wait_until

ROWS = repeated(gate=500, full=2500)
FILES = repeated(gate=1, full=3)
EACH = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: each, path: e2e/each }
workload: { source: "" }
workflow:
  - step: start
    loop: { in: "{{ workload.source }}", iterator: row, spec: { mode: parallel } }
    tool:
      - one:
          kind: noop
          args: { n: "{{ iter.row.id | default(iter.row.size) | int }}" }
          spec: { policy: { rules: [{ else: { then: { do: continue, set_ctx: { sum: { add: "{{ outcome.result.n }}" } } } } }] } }
    next: { arcs: [{ step: told }] }
  - step: told
    tool: { kind: noop, args: { count: "{{ start | length }}", sum: "{{ ctx.sum }}" } }
"""


@pytest.mark.timeout(900)
def test_loops_go_over_csv_jsonl_parquet_and_prefixes_of_a_bucket(deployment: Any, tmp_path: Path) -> None:
    import duckdb

    s3, bucket = deployment.client("s3"), "e2e-orders"
    s3.create_bucket(Bucket=bucket)
    lines = {
        "in/rows.csv": "id,name\n" + "".join(f"{number},n{number}\n" for number in range(ROWS)),
        "in/rows.jsonl": "".join(json.dumps({"id": number}) + "\n" for number in range(ROWS)),
    }
    for key, text in lines.items():
        s3.put_object(Bucket=bucket, Key=key, Body=text.encode())
    file = tmp_path / "rows.parquet"
    duckdb.connect().execute(f"copy (select i as id from range({ROWS}) t(i)) to '{file}' (format parquet)")
    s3.put_object(Bucket=bucket, Key="rows.parquet", Body=file.read_bytes())
    register(deployment, EACH)

    def started(source: Any) -> str:
        answer = deployment.api("POST", "/api/execute", {"path": "e2e/each", "payload": {"source": source}})
        assert answer.status == 201, answer
        return str(answer.body["execution_id"])

    whole = {"count": ROWS, "sum": ROWS * (ROWS - 1) // 2}
    files = [
        f"s3://{bucket}/rows.parquet",
        f"s3://{bucket}/in/rows.csv",
        {"s3": f"s3://{bucket}/in/rows.jsonl", "format": "jsonl"},
    ]
    wanted = {started(file): whole for file in files[:FILES]}
    wanted[started(f"s3://{bucket}/in/")] = {"count": 2, "sum": sum(map(len, lines.values()))}
    for execution_id, expected in wanted.items():
        assert completed(deployment, execution_id) == expected
    gone = started(f"s3://{bucket}/in/gone.csv")
    wait_until(lambda: deployment.api("GET", f"/api/executions/{gone}/status").body["ended"], "the refusal")
    error = deployment.api("GET", f"/api/executions/{gone}").body["error"]
    assert (error["kind"], error["code"]) == ("not_found", "NoSuchKey")
    assert error["position"].endswith(":7:21")
