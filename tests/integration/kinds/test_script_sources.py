"""Scripts that are fetched: from an address, from S3, from Google Cloud Storage, out of a result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential, TaskContext
from noetl.kinds.registry import default_registry
from noetl.kinds.support.script_source import MOST_BYTES, forget_scripts
from noetl.services.results.artifacts import TaskArtifacts
from tests.google_cloud import Google
from tests.integration.kinds.test_aws import CREDENTIALS, REGION
from tests.integration.kinds.test_aws import aws as aws
from tests.integration.kinds.test_gcs import google as google

SCRIPT = b"import sys\nprint(sys.argv[1:])\n"
PIN = f"sha256:{hashlib.sha256(SCRIPT).hexdigest()}"
ARGS = ["--", "-c", "import os"]
SAID = "['--', '-c', 'import os']\n"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget_scripts()
    yield
    forget_scripts()


@pytest.fixture
def context(make_context) -> TaskContext:
    bearer = {"token": Credential("token", "bearer", {"token": "t0ken"})}
    made = make_context(
        http_allow=("127.0.0.1",), credentials=CREDENTIALS | bearer, own_buckets=("own-results",)
    )
    return replace(made, artifacts=TaskArtifacts(MemoryResultStore(), 1, "s", max_bytes=2**30))


def run(context: TaskContext, source: Any, **params: Any) -> str:
    found = default_registry().run("script", {"source": source, "args": ARGS, **params}, context)
    return found.result["stdout"]


def failure(context: TaskContext, source: Any, **params: Any) -> TaskError:
    with pytest.raises(TaskError) as caught:
        run(context, source, **params)
    return caught.value


def test_of_an_address_pinned_and_fetched_once(web, context):
    web.answers["/tools/say.py"] = (200, {}, SCRIPT)
    source = {"uri": f"{web.base}/tools/say.py?v=2", "auth": "token", "headers": {"X-Team": "a"}}
    for _ in range(2):
        assert run(context, source, checksum=PIN) == SAID
    (asked,) = web.received
    assert (asked.headers["authorization"], asked.headers["x-team"]) == ("Bearer t0ken", "a")


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (200, b"print('another')", "storage_access", "checksum"),
        (200, b"x" * (MOST_BYTES + 1), "storage_quota", "response_too_large"),
        (404, b"", "not_found", "http_404"),
        (503, b"", "server_error", "http_503"),
    ],
)
def test_of_an_address_that_gives_something_else(web, context, status, body, kind, code):
    web.answers["/a.py"] = (status, {}, body)
    error = failure(context, {"type": "http", "uri": f"{web.base}/a.py"}, checksum=PIN)
    assert (error.kind, error.code) == (kind, code)
    web.answers["/a.py"] = (200, {}, SCRIPT)
    assert run(context, {"uri": f"{web.base}/a.py"}, checksum=PIN) == SAID, "what was wrong is not remembered"


def test_addresses_are_guarded(web, make_context):
    error = failure(make_context(), {"uri": f"{web.base}/a.py"}, checksum=PIN)
    assert error.code == "address_refused"


def test_an_address_without_a_pin_is_told_before_anything_runs():
    registry = default_registry()
    for params in ({"uri": "https://host/a.py"}, {"source": {"uri": "https://host/a.py"}}):
        (problem,) = registry.check("script", params)
        assert problem.hint is not None and "checksum" in problem.hint
    assert registry.check("script", {"uri": "https://host/a.py", "checksum": PIN}) == []


def test_of_s3(aws, context):
    s3 = boto3.client("s3", REGION, aws_access_key_id="x", aws_secret_access_key="x")
    s3.create_bucket(Bucket="scripts", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="scripts", Key="etl/say.py", Body=SCRIPT)
    s3.put_object(Bucket="scripts", Key="large.py", Body=bytes(MOST_BYTES + 1))
    assert run(context, {"uri": "s3://scripts/etl/say.py", "auth": "account"}) == SAID
    parts = {"type": "s3", "bucket": "scripts", "path": "etl/say.py", "auth": "account"}
    assert run(context, parts, checksum=PIN) == SAID
    for key, bucket, code in [
        ("none.py", "scripts", "NoSuchKey"),
        ("large.py", "scripts", "script_too_large"),
        ("a.py", "own-results", "bucket_refused"),
    ]:
        assert failure(context, {**parts, "path": key, "bucket": bucket}).code == code


def test_of_google_cloud_storage(google: Google, make_context):
    google.contents["lake", "etl/say.py"] = SCRIPT
    google.objects["lake", "etl/say.py"] = {"generation": "1"}
    data = {**google.account, "endpoint": google.base}
    context = make_context(http_allow=("127.0.0.1",), credentials={"lake": Credential("lake", "gcs", data)})
    assert run(context, {"uri": "gs://lake/etl/say.py", "auth": "lake"}) == SAID
    parts = {"type": "gcs", "bucket": "lake", "path": "none.py", "auth": "lake"}
    assert failure(context, parts).code == "notFound"


def test_of_a_result(context):
    """Text, or what was streamed: so a task with credentials can fetch what one without them runs."""
    with context.artifacts.create("bytes") as writer:
        writer.write(SCRIPT)
        ref = writer.close()
    assert run(context, {"ref": ref}, interpreter="python", checksum=PIN) == SAID
    assert run(context, {"type": "result", "ref": SCRIPT.decode()}, interpreter="python") == SAID
    assert failure(context, {"ref": ref}).code == "script_interpreter"


def test_time_for_fetching_is_the_tasks_time(web, context):
    def slow(handler):
        handler.send_response(200)
        handler.end_headers()
        web.drip(handler, b"#")

    web.answers["/a.py"] = slow
    error = failure(replace(context, timeout=0.4), {"uri": f"{web.base}/a.py"}, checksum=PIN)
    assert error.kind == "timeout"
