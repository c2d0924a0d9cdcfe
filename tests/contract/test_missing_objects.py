"""Objects of S3 that are not there, as roles with and without s3:ListBucket are told."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from noetl.adapters.aws.command_tries import S3CommandTries
from noetl.adapters.aws.s3 import S3ProgramStore, S3ResultStore, S3Revocations
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NotFoundError
from noetl.ports.command_tries import CommandTries
from tests.contract.clouds import BUCKET, make_bucket, mocked_aws

URI = "noetl://execution/12/result/a/1"
HASH = "ab" * 32
BARE = "Access Denied"
TOLD = 'User: arn:aws:sts::1:assumed-role/w/f is not authorized to perform: s3:ListBucket on resource: "arn:aws:s3:::r"'
REFUSED = "User: arn:aws:sts::1:assumed-role/w/f is not authorized to perform: {} on this resource"


class Worker:
    """A client whose role may read objects, and list none. ``text``: what S3 says then to a GET; a HEAD has no body."""

    def __init__(self, client, text=BARE):
        self.client, self.text = client, text

    def __getattr__(self, name):
        return getattr(self.client, name)

    def get_object(self, **wanted):
        return self._hidden("GetObject", self.client.get_object, wanted, "AccessDenied", self.text)

    def head_object(self, **wanted):
        return self._hidden("HeadObject", self.client.head_object, wanted, "403", "Forbidden")

    def _hidden(self, name, call, wanted, code, text):
        try:
            return call(**wanted)
        except ClientError:
            answer = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": 403}}
            raise ClientError(answer, name) from None


@pytest.fixture
def s3(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        make_bucket(client)
        yield client


@pytest.fixture(params=["lists", BARE, TOLD])
def role(request, s3):
    """(a client, whether its role lists the bucket)."""
    return (s3, True) if request.param == "lists" else (Worker(s3, request.param), False)


def test_work_is_revoked_by_a_mark_of_its_run_where_its_execution_has_none(role):
    """The mark of the execution is looked for first, and is missing; a refusal there hid the mark of the run from every worker."""
    client, lists = role
    marks = S3Revocations(BUCKET, client, lists=lists, remember=0)
    assert not marks.is_revoked(1, 2)
    marks.revoke(1, 2)
    assert marks.is_revoked(1, 2) and not marks.is_revoked(1, 3)


def test_what_is_missing_is_missing_to_every_store(role):
    client, lists = role
    results = S3ResultStore(BUCKET, client, lists=lists)
    for read in (results.get, results.reader, lambda uri: results.reader(uri, 7)):
        with pytest.raises(NotFoundError) as missing:
            read(URI)
        assert missing.value.code == "REFERENCE_NOT_AVAILABLE"
    results.put(URI, b"data")
    results.put(URI, b"data")
    assert results.get(URI) == b"data" == results.reader(URI).read(10)
    programs = S3ProgramStore(BUCKET, client, lists=lists)
    assert programs.get(HASH) is None
    command = Command(12, "1", 1, "start", HASH, "io")
    tries = S3CommandTries(BUCKET, client, lists=lists)
    assert tries.get(12, "1", 1, 0) is None
    tries.put(command, CommandTries(1, 2, 3.0))
    assert tries.get(12, "1", 1, 0) == CommandTries(1, 2, 3.0)


@pytest.mark.parametrize("action", ["s3:GetObject", "kms:Decrypt"])
def test_a_refusal_of_another_action_is_no_missing_object(s3, action):
    client = Worker(s3, REFUSED.format(action))
    for call in (
        lambda: S3ResultStore(BUCKET, client, lists=False).get(URI),
        lambda: S3ProgramStore(BUCKET, client, lists=False).get(HASH),
        lambda: S3CommandTries(BUCKET, client, lists=False).get(12, "1", 1, 0),
    ):
        with pytest.raises(InfrastructureError) as refused:
            call()
        assert refused.value.code == "aws_refused"


def test_a_role_that_lists_the_bucket_takes_no_refusal_for_a_missing_object(s3):
    """A policy that is wrong for a while must not make an engine lay messages aside."""
    with pytest.raises(InfrastructureError):
        S3ResultStore(BUCKET, Worker(s3)).get(URI)
