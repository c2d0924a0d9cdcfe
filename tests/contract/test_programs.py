"""Stores of compiled programs."""

from __future__ import annotations

import hashlib

import pytest

from noetl.adapters.aws.s3 import S3ProgramStore
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.dsl.program import PROGRAM_VERSION, Program, decode, encode
from noetl.runtime.authentic_programs import AuthenticPrograms, digest_of
from noetl.runtime.stored_programs import StoredPrograms
from tests.contract.clouds import make_bucket, mocked_aws
from tests.doubles.programs import MemoryProgramStore

HASH = hashlib.sha256(b"text").hexdigest()


@pytest.fixture(params=["memory", "s3"])
def programs(request, monkeypatch):
    if request.param == "memory":
        yield MemoryProgramStore()
        return
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        yield S3ProgramStore(make_bucket(client), client)


def test_a_program_is_found_by_its_hash(programs):
    program = Program(v=PROGRAM_VERSION, semantics=1, hash=HASH, name="n", path="p")
    assert programs.get(HASH) is None
    programs.put(HASH, encode(program))
    programs.put(HASH, encode(program))
    assert decode(programs.get(HASH)) == program
    assert programs.get(HASH[::-1]) is None


def test_a_program_keeps_the_token_it_was_written_with(programs):
    assert programs.read(HASH) is None
    assert programs.write(HASH, b"{}", "kid.mac", replace=False)
    assert not programs.write(HASH, b"[]", "other", replace=False)
    assert programs.read(HASH) == (b"{}", "kid.mac") and programs.get(HASH) == b"{}"
    assert programs.write(HASH, b"[]", "", replace=True)
    assert programs.read(HASH) == (b"[]", "")


@pytest.mark.parametrize("name", ["", "../" + HASH[3:], HASH.upper(), HASH[:-1], HASH + "\n", "é" * 64])
def test_what_is_no_hash_is_refused(programs, name):
    for call in (lambda: programs.get(name), lambda: programs.put(name, b"{}")):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert caught.value.code == "program_hash"


def test_the_key_names_the_version_of_the_format(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        bucket = make_bucket(client)
        S3ProgramStore(bucket, client).put(HASH, b"{}")
        (entry,) = client.list_objects_v2(Bucket=bucket)["Contents"]
        assert entry["Key"] == f"programs/v{PROGRAM_VERSION}/{HASH}.json"


RING, FOREIGN = KeyRing.of(["the key of this deployment"]), KeyRing.of(["the key of another one"])
OTHER = hashlib.sha256(b"another text").hexdigest()


def program_of(program: str) -> bytes:
    return encode(Program(v=PROGRAM_VERSION, semantics=1, hash=program, name="honest", path="p"))


ATTACKS = {
    "altered": lambda data, token, other: (data.replace(b"honest", b"forged, and longer"), token),
    "altered, of the same length": lambda data, token, other: (data.replace(b"honest", b"forged"), token),
    "swapped, or an older version": lambda data, token, other: other,
    "another's signature": lambda data, token, other: (data.replace(b"honest", b"forged"), other[1]),
    "unsigned": lambda data, token, other: (data.replace(b"honest", b"forged"), ""),
    "signed with another key": None,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_changed_object_is_run_by_neither_the_engine_nor_a_worker(monkeypatch, name):
    """What lies in the bucket is changed by one who may write there: the object's name and the remedy are told, and nothing is run."""
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        bucket = S3ProgramStore(make_bucket(client), client)
        engine = AuthenticPrograms(bucket, lambda fresh: RING)
        for program in (HASH, OTHER):
            engine.put(program, program_of(program))
        honest = bucket.read(HASH)
        assert honest is not None and StoredPrograms(engine)(HASH).name == "honest"
        if name == "signed with another key":
            AuthenticPrograms(bucket, lambda fresh: FOREIGN).put(
                HASH, honest[0].replace(b"honest", b"forged")
            )
        else:
            bucket.write(HASH, *ATTACKS[name](*honest, bucket.read(OTHER)), replace=True)
        assert bucket.read(HASH) != honest
        for read in (
            lambda: StoredPrograms(engine)(HASH),
            lambda: StoredPrograms(bucket).exactly(HASH, digest_of(honest[0])),
        ):
            with pytest.raises(InfrastructureError, match=HASH) as refused:
                read()
            assert refused.value.code == "program_not_authentic"
            assert "the engine compiles its playbook again and replaces it" in (refused.value.hint or "")
        engine.put(HASH, honest[0])
        assert bucket.read(HASH) == honest, "the remedy: the honest one takes its place"
