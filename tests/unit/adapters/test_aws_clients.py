"""Clients of AWS: settings, and what their errors mean."""

from __future__ import annotations

import socket

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ReadTimeoutError,
)

from noetl.adapters.aws.clients import answering, error_code, forget_clients, make_client, unreachable
from noetl.domain.errors import InfrastructureError


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    forget_clients()
    yield
    forget_clients()


def test_one_client_per_service_with_short_timeouts():
    client = make_client("sqs")
    assert make_client("sqs") is client and make_client("s3") is not client
    config = client.meta.config
    assert (config.connect_timeout, config.max_pool_connections, config.tcp_keepalive) == (2, 50, True)
    assert config.read_timeout > 20, "a poll of 20 seconds must not time out"
    assert config.retries == {"mode": "standard", "total_max_attempts": 3}
    assert client.meta.region_name == "eu-central-1"


def test_the_endpoint_is_the_environments(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:4566")
    assert make_client("sqs").meta.endpoint_url == "http://localhost:4566"
    url = make_client("s3").generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "key"})
    assert url.startswith("http://localhost:4566/bucket/key")


def test_without_a_region_it_says_so(monkeypatch):
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(InfrastructureError, match="AWS_REGION") as caught:
        make_client("sqs")
    assert (caught.value.code, caught.value.retryable) == ("aws_not_configured", False)


def test_nobody_there_is_unreachable_soon(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
        monkeypatch.setattr("noetl.adapters.aws.clients.ATTEMPTS", 1)
        client = make_client("sqs")
    with pytest.raises(InfrastructureError) as caught, answering("sqs"):
        client.list_queues()
    assert (caught.value.code, caught.value.retryable) == ("aws_unreachable", True)


def answer(code, status=400, operation="PutObject", message="words"):
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}},
        operation,
    )


@pytest.mark.parametrize(
    ("error", "service", "code", "retryable", "words"),
    [
        (answer("AccessDenied", 403), "s3", "aws_refused", False, "s3:PutObject on"),
        (answer("403", 403, "HeadObject"), "s3", "aws_refused", False, "s3:GetObject"),
        (answer("AccessDenied", 403, "ListObjectsV2"), "s3", "aws_refused", False, "s3:ListBucket"),
        (answer("AccessDeniedException", 400, "Decrypt"), "kms", "aws_refused", False, "kms:Decrypt"),
        (answer("AccessDeniedException", 400, "RunTask"), "ecs", "aws_refused", False, "iam:PassRole"),
        (answer("ExpiredToken", 400), "s3", "aws_refused", False, "credentials"),
        (answer("SlowDown", 503), "s3", "aws_throttled", True, "SlowDown"),
        (answer("ThrottlingException", 400), "kms", "aws_throttled", True, "words"),
        (answer("Odd", 429), "scheduler", "aws_throttled", True, "words"),
        (answer("InternalError", 500), "s3", "aws_failed", True, "InternalError"),
        (answer("NoSuchBucket", 404), "s3", "aws_rejected", False, "NoSuchBucket"),
        (ConnectTimeoutError(endpoint_url="http://x"), "s3", "aws_unreachable", True, "s3"),
        (ReadTimeoutError(endpoint_url="http://x"), "s3", "aws_unreachable", True, "s3"),
        (NoCredentialsError(), "s3", "aws_not_configured", False, "AWS_ACCESS_KEY_ID"),
        (NoRegionError(), "s3", "aws_not_configured", False, "AWS_REGION"),
        (ParamValidationError(report="bad"), "s3", "aws_rejected", False, "bad"),
    ],
)
def test_one_reading_of_all_errors(error, service, code, retryable, words):
    found = unreachable(error, service)
    assert (found.code, found.retryable) == (code, retryable)
    assert words in str(found)


def test_codes_of_answers():
    assert error_code(answer("AWS.SimpleQueueService.NonExistentQueue")) == "NonExistentQueue"
    assert error_code(NoCredentialsError()) == ""
