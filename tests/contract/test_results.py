"""Result stores: immutable objects, safe names, durable writes."""

from __future__ import annotations

import contextlib
import os
import threading

import pytest
from botocore.exceptions import ClientError

from noetl.adapters.aws.s3 import S3ResultStore
from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.memory import MemoryResultStore
from noetl.domain.errors import ConflictError, InfrastructureError, InvalidInputError, NotFoundError
from tests.contract.clouds import make_bucket, mocked_aws

URI = "noetl://execution/12/result/fetch/0b9e6f6e-0000-4000-8000-000000000000"


@pytest.fixture
def s3(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        make_bucket(client)
        yield client


@pytest.fixture(params=["memory", "file", "s3"])
def results(request, tmp_path):
    if request.param == "s3":
        return S3ResultStore("results", request.getfixturevalue("s3"))
    return MemoryResultStore() if request.param == "memory" else FileResultStore(tmp_path / "results")


def test_single_objects_go_and_permanent_ones_belong_to_no_execution(results):
    forever = "noetl://execution/0/result/a/1"
    for uri in (URI, f"{URI}x", forever):
        results.put(uri, b"x")
    results.delete([URI, URI, "noetl://execution/12/result/a/none"])
    with pytest.raises(NotFoundError):
        results.get(URI)
    assert results.delete_execution(12) == 1 and results.get(forever) == b"x"
    results.delete([forever])
    with pytest.raises(NotFoundError):
        results.get(forever)


def test_objects_are_immutable(results):
    results.put(URI, b"\x00one")
    results.put(URI, b"\x00one")
    assert results.get(URI) == b"\x00one"
    with pytest.raises(ConflictError):
        results.put(URI, b"two")
    assert results.get(URI) == b"\x00one"


def test_unknown_objects_are_not_available(results):
    with pytest.raises(NotFoundError) as caught:
        results.get(URI)
    assert caught.value.code == "REFERENCE_NOT_AVAILABLE"


@pytest.mark.parametrize("size", [0, 3, 8 * 1024 * 1024, 8 * 1024 * 1024 + 5])
def test_what_is_written_as_a_stream_is_an_object_like_any_other(results, size):
    data = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    writer = results.writer(URI)
    for start in range(0, size, 3_000_000):
        writer.write(data[start : start + 3_000_000])
    with pytest.raises(NotFoundError):
        results.get(URI)
    writer.commit()
    writer.abort()
    assert results.get(URI) == data
    for start in (0, size // 2, size):
        with contextlib.closing(results.reader(URI, start)) as reader:
            assert b"".join(iter(lambda: reader.read(4_000_000), b"")) == data[start:]
    path = results.path(URI)
    assert path is None or path.read_bytes() == data
    assert results.delete_execution(12) == 1


def test_a_stream_that_is_left_leaves_nothing(results):
    writer = results.writer(URI)
    writer.write(b"x" * 9 * 1024 * 1024)
    writer.abort()
    with pytest.raises(NotFoundError) as caught:
        results.reader(URI)
    assert caught.value.code == "REFERENCE_NOT_AVAILABLE"
    assert results.delete_execution(12) == 0


def test_an_execution_goes_with_all_its_objects(results):
    for step in ("a", "b"):
        results.put(f"noetl://execution/12/result/{step}/1", b"x")
    results.put("noetl://execution/123/result/a/1", b"y")
    assert results.delete_execution(12) == 2
    assert results.delete_execution(12) == 0
    assert results.get("noetl://execution/123/result/a/1") == b"y"
    with pytest.raises(NotFoundError):
        results.get("noetl://execution/12/result/a/1")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "file:///etc/passwd",
        "noetl://execution/../../etc/passwd",
        "noetl://execution//result/x",
        "noetl://execution/12",
        "noetl://execution/12/",
        "noetl://execution/-1/result/x",
        "noetl://execution/１２/result/x",
        "noetl://execution/" + "9" * 30 + "/result/x",
        "noetl://execution/12/result/" + "x" * 3000,
    ],
)
def test_what_is_no_result_uri_is_refused(results, uri):
    with pytest.raises(InvalidInputError):
        results.put(uri, b"x")
    with pytest.raises(InvalidInputError):
        results.get(uri)


@pytest.mark.parametrize(
    "tail", ["result/../../../escape", "result/a\x00b/1", "result/\ud800/1", "result/" + "ä" * 900]
)
def test_names_never_become_paths(tmp_path, tail):
    store = FileResultStore(tmp_path / "results")
    uri = f"noetl://execution/12/{tail}"
    store.put(uri, b"data")
    assert store.get(uri) == b"data"
    (kept,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept.parent == tmp_path / "results" / "12"
    assert kept.stat().st_mode & 0o077 == 0


def test_many_writers_of_one_object_leave_one_whole_file(tmp_path):
    store = FileResultStore(tmp_path)
    data = os.urandom(200_000)
    errors = []

    def write(content):
        try:
            store.put(URI, content)
        except ConflictError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in [data] * 6 + [b"other"] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get(URI) in (data, b"other") and len(errors) in (2, 6)
    assert [path.suffix for path in (tmp_path / "12").iterdir()] == [""]


def test_a_disk_that_refuses_is_an_infrastructure_error(tmp_path):
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(InfrastructureError):
        FileResultStore(tmp_path / "results").put(URI, b"x")


def test_keys_of_s3_are_hashes_below_their_execution(s3):
    store = S3ResultStore("results", s3)
    uri = "noetl://execution/0012/result/../../\ud800\x00/1"
    store.put(uri, b"data")
    assert store.get(uri) == b"data"
    (entry,) = s3.list_objects_v2(Bucket="results")["Contents"]
    assert entry["Key"].startswith("executions/12/") and len(entry["Key"].rpartition("/")[2]) == 64


def test_more_objects_than_one_request_deletes(s3):
    store = S3ResultStore("results", s3)
    for number in range(1003):
        s3.put_object(Bucket="results", Key=f"executions/7/{number}", Body=b"")
    store.put("noetl://execution/71/result/a/1", b"stays")
    assert store.delete_execution(7) == 1003
    assert store.get("noetl://execution/71/result/a/1") == b"stays"
    assert store.delete_execution(7) == 0


class Refusing:
    """A client of S3 whose next writes and deletions are answered like this."""

    def __init__(self, client, *codes):
        self.client = client
        self.codes = list(codes)

    def __getattr__(self, name):
        return getattr(self.client, name)

    def put_object(self, **wanted):
        if self.codes:
            code, status = self.codes.pop(0)
            raise ClientError(
                {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject"
            )
        return self.client.put_object(**wanted)

    def delete_objects(self, **wanted):
        return {"Errors": [{"Key": "k", "Code": "InternalError", "Message": "later"}]}


def test_writers_that_meet_try_again(s3):
    busy = ("ConditionalRequestConflict", 409)
    S3ResultStore("results", Refusing(s3, busy, busy)).put(URI, b"one")
    assert S3ResultStore("results", s3).get(URI) == b"one"
    with pytest.raises(InfrastructureError):
        S3ResultStore("results", Refusing(s3, *[busy] * 4)).put(URI, b"one")
    with pytest.raises(InfrastructureError) as caught:
        S3ResultStore("results", Refusing(s3, ("AccessDenied", 403))).put(URI, b"one")
    assert not caught.value.retryable and "s3:PutObject" in str(caught.value)


def test_objects_that_stay_are_told(s3):
    S3ResultStore("results", s3).put(URI, b"one")
    with pytest.raises(InfrastructureError, match="1 results of execution 12"):
        S3ResultStore("results", Refusing(s3)).delete_execution(12)


def test_a_bucket_that_is_not_there_is_an_infrastructure_error(s3):
    store = S3ResultStore("other", s3)
    for call in (lambda: store.put(URI, b"x"), lambda: store.get(URI), lambda: store.delete_execution(1)):
        with pytest.raises(InfrastructureError, match="NoSuchBucket"):
            call()
