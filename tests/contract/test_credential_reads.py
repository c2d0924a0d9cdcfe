"""What reading credentials costs on AWS: calls to KMS, counted."""

from __future__ import annotations

import itertools

import pytest

from noetl.adapters.aws import kms
from noetl.adapters.aws.kms import KmsCipher
from noetl.services.credentials.credentials import (
    CredentialDeps,
    CredentialRequest,
    Token,
    keep_credential,
    read_credential,
    reseal,
)
from tests.contract.clouds import Clock, mocked_aws
from tests.contract.test_cipher import Counting, a_key
from tests.doubles.credential_store import MemoryCredentialStore

CLIENT = {"token_url": "https://auth.example/", "client_id": "me", "client_secret": "s3cret"}


@pytest.fixture
def aws(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        yield make_client("kms")


def process(key, client, store, clock) -> CredentialDeps:
    """The API's function, freshly started."""
    cipher = KmsCipher(key, client, shared=frozenset({"purpose"}), clock=clock)
    return CredentialDeps(store, cipher, lambda name, data: Token("t", 600.0), itertools.count(1).__next__)


def test_reads_after_the_first_ask_kms_nothing(aws):
    key, client, clock = a_key(aws), Counting(aws), Clock()
    store = MemoryCredentialStore(clock)
    writing = process(key, aws, store, clock)
    keep_credential(CredentialRequest("db", "postgres", {"host": "h", "password": "p"}), "me", writing)
    keep_credential(CredentialRequest("api", "oauth2", CLIENT), "me", writing)
    reading = process(key, client, store, clock)
    first = read_credential("db", reading, execution_id=1)
    assert (client.opened, client.made) == (1, 1), "the credential's data key, and one for cached copies"
    for execution_id in (1, 1, 2, 3, None):
        assert read_credential("db", reading, execution_id=execution_id) == first
    assert read_credential("api", reading, execution_id=1).data == {"token": "t"}
    assert read_credential("api", reading, execution_id=1).data == {"token": "t"}
    assert (client.opened, client.made) == (1, 1), "one data key sealed both, and all copies"
    clock.sleep(kms.KEEP_SECONDS + 1)
    read_credential("db", reading, execution_id=1)
    assert client.opened + client.made == 3, "a data key is forgotten after minutes"
    again = process(key, second := Counting(aws), store, clock)
    for _ in range(3):
        read_credential("db", again, execution_id=1)
    assert (second.opened, second.made) == (1, 0), "another process opens the copy that is there"


def test_sealing_again_keeps_what_is_kept(aws):
    key, clock = a_key(aws), Clock()
    deps = process(key, aws, MemoryCredentialStore(clock), clock)
    keep_credential(CredentialRequest("db", "postgres", {"host": "h"}), "me", deps)
    before = deps.store.get("db")
    assert reseal("me", deps).resealed == 1
    after = deps.store.get("db")
    assert after.sealed != before.sealed and after.version == before.version
    assert read_credential("db", deps).data == {"host": "h"}
