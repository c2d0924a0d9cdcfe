"""Marks of work that nobody wants any more."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from noetl.adapters.aws import s3 as module
from noetl.adapters.aws.s3 import S3Revocations
from noetl.domain.errors import InfrastructureError
from tests.contract.clouds import Clock, make_bucket, mocked_aws
from tests.doubles.revocations import MemoryRevocations


@pytest.fixture(params=["memory", "s3"])
def revocations(request, monkeypatch):
    if request.param == "memory":
        yield MemoryRevocations()
        return
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        yield S3Revocations(make_bucket(client), client)


def test_a_run_is_revoked_alone_or_with_its_execution(revocations):
    revocations.revoke(12, 3)
    revocations.revoke(12, 3)
    revocations.revoke(7)
    assert revocations.is_revoked(12, 3) and revocations.is_revoked(7, 1) and revocations.is_revoked(7, 99)
    assert not revocations.is_revoked(12, 30) and not revocations.is_revoked(123, 3)
    assert not revocations.is_revoked(71, 1)


class Counting:
    """A client that only says whether a key exists, and counts how often it is asked."""

    def __init__(self, *keys):
        self.keys = set(keys)
        self.asked = []

    def head_object(self, Bucket, Key):  # noqa: N803
        self.asked.append(Key)
        if Key not in self.keys:
            raise ClientError(
                {"Error": {"Code": "404"}, "ResponseMetadata": {"HTTPStatusCode": 404}}, "HeadObject"
            )


def test_asking_between_items_is_cheap_and_notices_soon():
    client, clock = Counting(), Clock()
    marks = S3Revocations("b", client, remember=5, clock=clock)
    for _ in range(100):
        assert not marks.is_revoked(1, 2)
    assert client.asked == ["revoked/1", "revoked/1/2"]
    client.keys.add("revoked/1")
    clock.sleep(4.9)
    assert not marks.is_revoked(1, 2)
    clock.sleep(0.2)
    assert marks.is_revoked(1, 2)
    clock.sleep(10_000)
    assert marks.is_revoked(1, 2) and len(client.asked) == 3


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 10)
    marks = S3Revocations("b", Counting(), clock=Clock())
    for run in range(50):
        marks.is_revoked(run, run)
    assert len(marks._known) == 10


def test_a_refusal_is_not_an_answer():
    class Refusing:
        def head_object(self, **wanted):
            raise ClientError(
                {"Error": {"Code": "403"}, "ResponseMetadata": {"HTTPStatusCode": 403}}, "HeadObject"
            )

    with pytest.raises(InfrastructureError) as caught:
        S3Revocations("b", Refusing()).is_revoked(1, 1)
    assert caught.value.code == "aws_refused"
