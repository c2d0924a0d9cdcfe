"""AWS services inside this process: moto beneath the clients that the adapters get in production."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from noetl.adapters.aws.clients import forget_clients, make_client

REGION = "eu-central-1"
BUCKET = "results"


@contextmanager
def mocked_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """``make_client`` of clients that reach nothing outside; no setting of this machine shines through."""
    from moto import mock_aws

    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    forget_clients()
    with mock_aws():
        yield make_client
    forget_clients()


def make_bucket(client: Any) -> str:
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return BUCKET


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
