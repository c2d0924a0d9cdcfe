"""Kinds that reach a service: what they do there, and how they fail, played by the workers of the deployment."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from tests.e2e.test_credentials import keep
from tests.google_cloud import google_cloud
from tests.integration.kinds import test_snowflake

snowflake = test_snowflake.server
"""A fixture."""

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: NAME, path: e2e/kinds/NAME }
workload: { bucket: "", secret: "", function: "", mark: "" }
workflow:
"""
FAILS = (
    "spec: { policy: { rules: [{ else: { then: "
    "{ do: continue, set_ctx: { bad: '{{ outcome.error.kind }} {{ outcome.error.code }}' } } } }] } }"
)

KINDS: dict[str, str] = {
    "s3": """
  - step: start
    tool:
      - put: { kind: s3, action: put, bucket: "{{ workload.bucket }}", key: a.csv, body: [{ n: 1 }, { n: 2 }] }
      - got: { kind: s3, bucket: "{{ workload.bucket }}", key: a.csv }
      - listed: { kind: s3, action: list, bucket: "{{ workload.bucket }}", prefix: a }
      - bad: { kind: s3, bucket: "{{ workload.bucket }}", key: gone, FAILS }
      - told: { kind: noop, args: { rows: "{{ got.body }}", count: "{{ listed.count }}", bad: "{{ ctx.bad }}" } }
""",
    "secrets": """
  - step: start
    tool:
      - read: { kind: secrets, secret: "{{ workload.secret }}", key: token }
      - bad: { kind: secrets, secret: "{{ workload.secret }}-gone", FAILS }
      - told: { kind: noop, args: { hidden: "{{ read.value }}", known: "{{ read.value | length }}", bad: "{{ ctx.bad }}" } }
""",
    "lambda": """
  - step: start
    tool:
      - bad: { kind: lambda, function: "{{ workload.function }}-gone", FAILS }
      - called: { kind: lambda, function: "{{ workload.function }}", payload: { n: 3 } }
      - told: { kind: noop, args: { answer: "{{ called }}", bad: "{{ ctx.bad }}" } }
""",
    "eventbridge": """
  - step: start
    tool:
      - bad: { kind: eventbridge, source: aws.ours, detail_type: x, detail: {}, FAILS }
      - put: { kind: eventbridge, source: shop, detail_type: placed, detail: { order: 1 } }
      - told: { kind: noop, args: { count: "{{ put.count }}", bad: "{{ ctx.bad }}" } }
""",
    "shell": """
  - step: start
    tool:
      - bad: { kind: shell, command: "exit 3", FAILS }
      - ran: { kind: shell, env: { WORD: "{{ workload.mark }}" }, command: 'printf "{\\"word\\": \\"%s\\"}" "$WORD"' }
      - told: { kind: noop, args: { ran: "{{ ran }}", bad: "{{ ctx.bad }}" } }
""",
    "artifact": """
  - step: start
    tool:
      - put: { kind: artifact, action: put, format: json, body: "{{ range(5000) | list }}" }
      - part: { kind: artifact, ref: "{{ put }}", offset: 4998, limit: 5 }
      - all: { kind: resolve, ref: "{{ put }}", limit: 3 }
      - bad: { kind: artifact, action: head, ref: not one, FAILS }
      - told: { kind: noop, args: { part: "{{ part }}", all: "{{ all }}", bad: "{{ ctx.bad }}" } }
""",
    "gcs": """
  - step: start
    tool:
      - put: { kind: gcs, auth: lake_MARK, action: upload, bucket: lake, object: a.json, body: { n: 1 } }
      - got: { kind: gcs, auth: lake_MARK, bucket: lake, object: a.json }
      - bad: { kind: gcs, auth: lake_MARK, bucket: lake, object: gone, FAILS }
      - told: { kind: noop, args: { got: "{{ got.body }}", bad: "{{ ctx.bad }}" } }
""",
    "snowflake": """
  - step: start
    tool:
      - bad: { kind: snowflake, auth: warehouse_MARK, query: "SELECT * FROM gone", FAILS }
      - got: { kind: snowflake, auth: warehouse_MARK, query: "SELECT 40 + %(n)s AS n", params: { n: 2 } }
      - told: { kind: noop, args: { rows: "{{ got.rows }}", bad: "{{ ctx.bad }}" } }
""",
    "container": """
  - step: start
    tool:
      - bad: { kind: container, image: alpine, FAILS }
      - told: { kind: noop, args: { bad: "{{ ctx.bad }}" } }
""",
}


def playbook(name: str, mark: str) -> str:
    """``FAILS`` in a task: its failure is told in the context, and the next task runs."""
    return HEAD.replace("NAME", name) + KINDS[name].replace("FAILS", FAILS).replace("MARK", mark).lstrip("\n")


@pytest.mark.timeout(600)
def test_kinds_do_their_work_on_a_deployment_and_tell_why_not(
    remote: Any, deployment: Any, snowflake: Any
) -> None:
    mark = f"m{secrets.token_hex(3)}"
    deployment.client("s3").create_bucket(Bucket=f"e2e-{mark}")
    deployment.client("secretsmanager").create_secret(
        Name=f"e2e/{mark}", SecretString=json.dumps({"token": f"canary-{mark}"})
    )
    payload = {
        "bucket": f"e2e-{mark}",
        "secret": f"e2e/{mark}",
        "function": deployment.function("maintenance"),
        "mark": mark,
    }
    with google_cloud() as google:
        keep(
            deployment,
            f"lake_{mark}",
            "gcs",
            service_account=json.dumps(google.account),
            endpoint=google.base,
        )
        keep(
            deployment,
            f"warehouse_{mark}",
            "snowflake",
            account="ab12345.eu-central-1",
            user="loader",
            private_key=test_snowflake.PEM,
            private_key_passphrase="phrase",
            warehouse="SMALL",
            endpoint=f"http://127.0.0.1:{snowflake.port}",
        )
        begun = {name: remote.begin(playbook(name, mark), **payload) for name in KINDS}
        runs = {name: remote.follow(execution_id) for name, execution_id in begun.items()}
    failed = {name: run.error["message"] for name, run in runs.items() if run.error is not None}
    assert not failed, "\n".join(f"{name}: {message}" for name, message in failed.items())
    told = {name: run.result for name, run in runs.items()}
    assert told["s3"] == {"rows": [{"n": "1"}, {"n": "2"}], "count": 1, "bad": "not_found NoSuchKey"}
    assert told["secrets"] == {"hidden": "***", "known": 13 + 1, "bad": "not_found ResourceNotFoundException"}
    assert (
        told["lambda"]["bad"] == "not_found ResourceNotFoundException"
        and told["lambda"]["answer"] is not None
    )
    assert told["eventbridge"] == {"count": 1, "bad": "schema event_invalid"}
    assert told["shell"]["ran"]["data"] == {"word": mark} and told["shell"]["bad"].endswith("exit_3")
    assert told["artifact"] == {"part": [4998, 4999], "all": [0, 1, 2], "bad": "schema not_a_reference"}
    assert told["gcs"] == {"got": {"n": 1}, "bad": "not_found notFound"}
    assert told["snowflake"]["bad"] == "client_error 001003"
    assert [list(row.values()) for row in told["snowflake"]["rows"]] == [[42]]
    assert told["container"] == {"bad": "not_found containers_unavailable"}
