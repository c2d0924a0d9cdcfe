"""Kinds that call AWS: S3 and EventBridge as moto plays them, Lambda as a server here plays it, and what their errors become."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.kinds.cloud.aws_client import forget_clients
from noetl.kinds.registry import default_registry
from tests.waiting import PATIENCE

REGION = "eu-central-1"
KEYS = {"access_key_id": "AKIA", "secret_access_key": "hidden", "region": REGION}
CREDENTIALS = {"account": Credential("account", "aws", KEYS)}


@pytest.fixture
def aws(monkeypatch) -> Iterator[None]:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    forget_clients()
    with mock_aws():
        yield
    forget_clients()


@pytest.fixture
def call(make_context):
    def call(
        kind: str,
        credentials: dict[str, Credential] | None = None,
        input=None,
        timeout=PATIENCE,
        **params: Any,
    ):
        context = make_context(
            credentials=credentials or CREDENTIALS, timeout=timeout, input=input, output_max_bytes=10_000
        )
        return default_registry().run(kind, {"auth": "account", **params}, context).result

    return call


@pytest.fixture
def error_of(call):
    def error_of(*args: Any, **params: Any) -> TaskError:
        with pytest.raises(TaskError) as caught:
            call(*args, **params)
        assert "hidden" not in str(caught.value)
        return caught.value

    return error_of


@pytest.fixture
def bucket(aws) -> str:
    boto3.client("s3", REGION, aws_access_key_id="x", aws_secret_access_key="x").create_bucket(
        Bucket="reports", CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    return "reports"


def test_duckdb_reads_objects_that_it_is_given_and_no_others(bucket, make_context, tmp_path):
    import gzip

    (tmp_path / "work").mkdir()
    made = make_context(credentials=CREDENTIALS, own_buckets=("results",), work_dir=str(tmp_path / "work"))
    client = boto3.client("s3", REGION, aws_access_key_id="x", aws_secret_access_key="x")
    client.put_object(Bucket=bucket, Key="obs/2026.csv.gz", Body=gzip.compress(b"city,zip\nBern,0301\n"))
    client.put_object(Bucket=bucket, Key="obs/raw", Body=b'{"city": "Bern", "temp": 3}\n')

    def run(**sources):
        query = "SELECT a.city, zip, temp FROM a JOIN b USING (city)"
        return default_registry().run("duckdb", {"query": query, "sources": sources}, made).result

    table = {"s3": f"s3://{bucket}/obs/2026.csv.gz", "auth": "account", "columns": {"zip": "VARCHAR"}}
    lines = {"s3": f"s3://{bucket}/obs/raw", "auth": "account", "format": "jsonl"}
    assert run(a=table, b=lines)["rows"] == [{"city": "Bern", "zip": "0301", "temp": 3}]
    for changed, code in (
        ({"s3": f"s3://{bucket}/none.csv"}, "NoSuchKey"),
        ({"s3": "s3://results/executions/1/x.csv"}, "bucket_refused"),
        ({"auth": "nobody"}, "credential_not_found"),
        ({"format": None}, "source_format"),
    ):
        with pytest.raises(TaskError) as caught:
            run(a=table, b=lines | changed)
        assert (caught.value.code, caught.value.details["source"]) == (code, "b")
    assert not any(path for path in tmp_path.rglob("*") if path.is_file())


ROWS = [{"city": "Bern", "temp": "3"}, {"city": "Zürich, ZH", "temp": "-1"}]


@pytest.mark.parametrize(
    ("key", "format", "value", "raw", "content_type"),
    [
        ("a.json", "auto", {"total": 2**70}, b'{"total":1180591620717411303424}', "application/json"),
        ("a", "auto", [1, None], b"[1,null]", "application/json"),
        ("a.jsonl", "auto", [{"n": 1}, {"n": 2}], b'{"n":1}\n{"n":2}\n', "application/x-ndjson"),
        ("a.csv", "auto", ROWS, 'city,temp\nBern,3\n"Zürich, ZH",-1\n'.encode(), "text/csv; charset=utf-8"),
        ("a.csv", "text", "x;y\n1;2\n", b"x;y\n1;2\n", "text/csv; charset=utf-8"),
        ("a.txt", "auto", "grüezi", "grüezi".encode(), "text/plain; charset=utf-8"),
        ("a.bin", "base64", base64.b64encode(b"\xff\x00").decode(), b"\xff\x00", "application/octet-stream"),
    ],
)
def test_what_is_put_is_got(bucket, call, key, format, value, raw, content_type):
    put = call(
        "s3", action="put", bucket=bucket, key=key, body=value, format=format, metadata={"made-by": "test"}
    )
    stored = boto3.client("s3", REGION, aws_access_key_id="x", aws_secret_access_key="x").get_object(
        Bucket=bucket, Key=key
    )
    assert (stored["Body"].read(), stored["ContentType"]) == (raw, content_type)
    got = call("s3", bucket=bucket, key=key, format=format)
    assert (got["body"], got["size"], got["etag"]) == (value, len(raw), put["etag"])
    assert call("s3", action="head", bucket=bucket, key=key)["metadata"] == {"made-by": "test"}


def test_listing_goes_on_where_it_stopped_and_deletes_what_it_found(bucket, call):
    for number in range(7):
        call("s3", action="put", bucket=bucket, key=f"in/{number % 2}/{number}.txt", body=str(number))
    call("s3", action="copy", bucket=bucket, key="in/0/0.txt", to_key="out/0.txt")
    found, token = [], None
    while True:
        page = call("s3", action="list", bucket=bucket, prefix="in/", limit=3, token=token)
        found += [one["key"] for one in page["objects"]]
        token = page["next"]
        if token is None:
            break
        assert page["count"] == 3
    assert found == sorted(f"in/{number % 2}/{number}.txt" for number in range(7))
    assert call("s3", action="list", bucket=bucket, prefix="in/", delimiter="/")["prefixes"] == [
        "in/0/",
        "in/1/",
    ]
    assert call("s3", action="delete", bucket=bucket, keys=found) == {"deleted": 7}
    assert [one["key"] for one in call("s3", action="list", bucket=bucket)["objects"]] == ["out/0.txt"]


def test_a_link_works_without_a_credential(bucket, call):
    call("s3", action="put", bucket=bucket, key="a.txt", body="open")
    link = call("s3", action="presign", bucket=bucket, key="a.txt", expires_in=60)
    assert (link["method"], link["expires_in"]) == ("GET", 60)
    assert "X-Amz-Signature=" in link["url"] and "hidden" not in link["url"]


@pytest.mark.parametrize(
    ("params", "kind", "code"),
    [
        ({"key": "nowhere"}, "not_found", "NoSuchKey"),
        ({"bucket": "no-such-bucket", "key": "a"}, "not_found", "NoSuchBucket"),
        ({"key": "broken.json"}, "parse", "object_format"),
        ({"key": "large"}, "storage_quota", "object_too_large"),
        (
            {"action": "put", "key": "large", "body": "again", "if_absent": True},
            "client_error",
            "object_exists",
        ),
        ({"action": "put", "key": "a.jsonl", "body": {"no": "list"}}, "schema", "object_format"),
        ({"action": "copy", "key": "nowhere", "to_key": "b"}, "not_found", "NoSuchKey"),
        ({"action": "put"}, "schema", "kind_params"),
        ({"action": "list", "key": "a"}, "schema", "kind_params"),
    ],
)
def test_errors_of_s3(bucket, call, error_of, params, kind, code):
    call("s3", action="put", bucket=bucket, key="broken.json", body="{", format="text")
    call("s3", action="put", bucket=bucket, key="large", body="x" * 20_000)
    error = error_of("s3", **{"bucket": bucket, **params})
    assert (error.kind, error.code, error.retryable) == (kind, code, False)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"access_key_id": "AKIA"}, "credential_shape"),
        ({"token": "hidden"}, "credential_shape"),
    ],
)
def test_credentials_that_are_none_of_aws(aws, error_of, data, code):
    error = error_of("s3", {"account": Credential("account", "aws", data)}, bucket="reports", key="a")
    assert (error.kind, error.code) == ("auth", code)


def test_a_role_is_assumed_by_keys(bucket, call):
    role = {
        "account": Credential("account", "aws", {**KEYS, "role_arn": "arn:aws:iam::123456789012:role/reader"})
    }
    call("s3", role, action="put", bucket=bucket, key="a", body="by role")
    assert call("s3", role, bucket=bucket, key="a")["body"] == "by role"


class Bus:
    """EventBridge's PutEvents: takes what it gets, refuses each event of ``refused`` as often as it says."""

    def __init__(self, web: Any, refused: dict[int, int]) -> None:
        self.refused = dict(refused)
        self.heard: list[int] = []
        self.sizes: list[int] = []
        web.answers["/"] = self.answer
        self.web = web

    def answer(self, handler: Any) -> None:
        entries = json.loads(self.web.received[-1].body)["Entries"]
        self.sizes.append(len(entries))
        said = [self.one(json.loads(entry["Detail"])["order"]) for entry in entries]
        failed = sum("ErrorCode" in one for one in said)
        body = json.dumps({"FailedEntryCount": failed, "Entries": said}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def one(self, number: int) -> dict[str, str]:
        if self.refused.get(number):
            self.refused[number] -= 1
            return {"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"}
        self.heard.append(number)
        return {"EventId": f"event-{number}"}


@pytest.fixture
def bus(web, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    forget_clients()
    credentials = {"account": Credential("account", "aws", {**KEYS, "endpoint_url": web.base})}
    yield lambda refused: (Bus(web, refused), credentials)
    forget_clients()


MANY = {"bus": "orders", "source": "shop", "detail_type": "placed"}


def test_events_go_in_requests_of_ten_and_a_refused_one_again(bus, call):
    played, credentials = bus({3: 1, 17: 1})
    events = [{"detail": {"order": number}} for number in range(23)]
    done = call("eventbridge", credentials, **MANY, events=events)
    assert done == {"count": 23, "event_ids": [f"event-{number}" for number in range(23)]}
    assert sorted(played.heard) == list(range(23))
    assert played.sizes == [10, 10, 3, 2]


def test_large_events_share_no_request(bus, call):
    played, credentials = bus({})
    events = [{"detail": {"order": number, "text": "x" * 100_000}} for number in range(5)]
    assert call("eventbridge", credentials, **MANY, events=events)["count"] == 5
    assert played.sizes == [2, 2, 1]


def test_events_that_stay_refused_are_told(bus, error_of):
    _, credentials = bus({1: 5})
    events = [{"detail": {"order": number}} for number in range(3)]
    error = error_of("eventbridge", credentials, **MANY, events=events)
    assert (error.kind, error.code, error.retryable) == ("rate_limit", "events_refused", True)
    assert error.details == {"refused": [1], "taken": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        {"detail": {}},
        {"detail": {}, "source": "aws.s3", "detail_type": "x"},
        {"detail": {"text": "x" * 300_000}, "source": "shop", "detail_type": "x"},
    ],
)
def test_events_that_no_bus_takes_are_not_sent(bus, error_of, web, wrong):
    _, credentials = bus({})
    assert error_of("eventbridge", credentials, **wrong).code == "event_invalid"
    assert not web.received


LOG = base64.b64encode(b"START\nKeyError: 'customer'\nEND\n").decode()
ANSWERS = {
    "score": (200, {"x-amz-executed-version": "7"}, b'{"score":0.5}'),
    "nothing": (200, {}, b""),
    "later": (202, {}, b""),
    "broken": (
        200,
        {"x-amz-function-error": "Unhandled", "x-amz-log-result": LOG},
        b'{"errorType":"KeyError","errorMessage":"customer","stackTrace":["main.py, line 3"]}',
    ),
    "slow": (
        200,
        {"x-amz-function-error": "Unhandled"},
        b'{"errorMessage":"2026-11-21T10:00:00Z 1f Task timed out after 3.00 seconds"}',
    ),
    "gone": (404, {"x-amzn-errortype": "ResourceNotFoundException"}, b'{"Message":"Function not found"}'),
    "busy": (
        429,
        {"x-amzn-errortype": "TooManyRequestsException"},
        b'{"Reason":"ConcurrentInvocationLimitExceeded"}',
    ),
}


@pytest.fixture
def functions(web, monkeypatch):
    """A server that answers as Lambda's API does; its credential names it."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    forget_clients()
    for name, (status, headers, body) in ANSWERS.items():
        web.answers[f"/2015-03-31/functions/{name}/invocations"] = (status, headers, body)
    yield {"account": Credential("account", "aws", {**KEYS, "endpoint_url": web.base})}
    forget_clients()


def test_a_function_gets_the_payload_and_the_idempotency_key(functions, call, web):
    assert call("lambda", functions, function="score", payload={"customer": 17}) == {"score": 0.5}
    assert call("lambda", functions, function="nothing", input={"customer": 18}) is None
    assert call("lambda", functions, function="later", payload=[1], wait=False) == {"status": "accepted"}
    first, second, third = web.received
    assert [json.loads(one.body) for one in web.received] == [{"customer": 17}, {"customer": 18}, [1]]
    about = json.loads(base64.b64decode(first.headers["x-amz-client-context"]))
    assert about == {"custom": {"idempotency_key": "1/step/task"}}
    kinds = [one.headers["x-amz-invocation-type"] for one in (first, second, third)]
    assert kinds == ["RequestResponse", "RequestResponse", "Event"]


@pytest.mark.parametrize(
    ("function", "kind", "code", "retryable"),
    [
        ("broken", "transform", "function_error", False),
        ("slow", "timeout", "function_timeout", True),
        ("gone", "not_found", "ResourceNotFoundException", False),
        ("busy", "rate_limit", "TooManyRequestsException", True),
    ],
)
def test_errors_of_functions(functions, error_of, function, kind, code, retryable):
    error = error_of("lambda", functions, function=function)
    assert (error.kind, error.code, error.retryable) == (kind, code, retryable)
    if function == "broken":
        assert error.details["error_type"] == "KeyError"
        assert error.details["trace"] == ["main.py, line 3"]
        assert "KeyError: 'customer'" in error.details["log"]


def test_a_payload_that_lambda_would_refuse_is_not_sent(functions, error_of, web):
    assert (
        error_of("lambda", functions, function="later", payload="x" * 2**20, wait=False).code
        == "payload_too_large"
    )
    assert not web.received


def test_the_deployments_own_bucket_cannot_be_named(make_context):
    context = make_context(credentials=CREDENTIALS, own_buckets=("results",))
    for params in (
        {"bucket": "results", "key": "a"},
        {"action": "copy", "bucket": "b1b", "key": "a", "to_bucket": "results", "to_key": "a"},
    ):
        with pytest.raises(TaskError) as caught:
            default_registry().run("s3", params, context)
        assert (caught.value.kind, caught.value.code) == ("auth", "bucket_refused")


CALLS: dict[str, dict[str, Any]] = {
    "s3": {"action": "get", "bucket": "bucket", "key": "k"},
    "lambda": {"function": "f"},
    "eventbridge": {"source": "a", "detail_type": "b", "detail": {}},
    "secrets": {"secret": "n"},
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_place_can_refuse_to_lend_its_own_identity(kind, make_context):
    context = make_context(credentials={}, aws_auth_required=True)
    with pytest.raises(TaskError) as refused:
        default_registry().run(kind, CALLS[kind], context)
    assert (refused.value.kind, refused.value.code) == ("auth", "aws_auth_required")
