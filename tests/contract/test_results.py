"""Result stores: immutable objects, safe names, durable writes."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading

import pytest
from botocore.exceptions import ClientError

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.dynamodb import DynamoResultStore
from noetl.adapters.aws.s3 import S3ResultStore
from noetl.adapters.disk.store import DiskResultStore
from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.gcs import GcsPlace, GcsResultStore
from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.results import PostgresResultStore
from noetl.adapters.tiered import TieredResults
from noetl.domain.errors import ConflictError, InfrastructureError, InvalidInputError, NotFoundError
from noetl.domain.results.tiers import KV_BYTES
from tests.contract.clouds import make_bucket, mocked_aws
from tests.google_cloud import google_cloud
from tests.waiting import PATIENCE

URI = "noetl://execution/12/result/fetch/0b9e6f6e-0000-4000-8000-000000000000"


@pytest.fixture
def s3(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        make_bucket(client)
        yield client


TIERS = ("memory", "file", "pvc", "s3", "minio", "kv", "gcs", "disk", "disk-waits", "tiered")
POSTGRES = [pytest.param(name, marks=pytest.mark.postgres) for name in ("db", "kv-postgres")]


@pytest.fixture(params=[*TIERS, *POSTGRES])
def results(request, tmp_path):
    """Every tier, over whatever it keeps things in."""
    with contextlib.ExitStack() as stack:
        yield make_tier(request, request.param, tmp_path, stack)


def make_tier(request, name, tmp_path, stack):
    if name in ("s3", "minio"):
        return S3ResultStore("results", request.getfixturevalue("s3"), name)
    if name == "kv":
        return kv_table(request.getfixturevalue("s3"))
    if name in ("db", "kv-postgres"):
        database = Database(request.getfixturevalue("database"))
        stack.callback(database.close)
        return PostgresResultStore(database, "db" if name == "db" else "kv")
    if name == "gcs":
        google = stack.enter_context(google_cloud())
        return GcsResultStore(
            GcsPlace("lake", google.account | {"endpoint": google.base}, allow=("127.0.0.1",))
        )
    if name.startswith("disk"):
        disk = DiskResultStore(
            tmp_path / "cache", FileResultStore(tmp_path / "cloud"), waits=name == "disk-waits"
        )
        stack.callback(disk.close)
        return disk
    if name == "tiered":
        tiers = {"file": FileResultStore(tmp_path / "file"), "memory": MemoryResultStore(1 << 20)}
        return TieredResults(tiers, "file")
    return MemoryResultStore() if name == "memory" else FileResultStore(tmp_path / name, name)


def kv_table(s3):
    """Moto is on as long as its client of S3 is there."""
    client = make_client("dynamodb")
    client.create_table(
        TableName="results",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    )
    return DynamoResultStore("results", lambda: client, sleep=lambda seconds: None)


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


def test_what_is_written_as_a_stream_is_an_object_like_any_other(results):
    """Empty ones, small ones, and those that are larger than one part of any tier; a tier for small values refuses them."""
    large = 8 * 1024 * 1024 + 5
    for number, size in enumerate((0, 3, KV_BYTES, large)):
        uri, data = f"{URI}{number}", os.urandom(size)
        writer = results.writer(uri)
        for start in range(0, size, 3_000_000):
            writer.write(data[start : start + 3_000_000])
        with pytest.raises(NotFoundError):
            results.get(uri)
        if results.name == "kv" and size == large and isinstance(results, DynamoResultStore):
            with pytest.raises(InfrastructureError) as caught:
                writer.commit()
            assert not caught.value.retryable
            continue
        writer.commit()
        writer.abort()
        assert results.get(uri) == data
        for start in (0, size // 2, size):
            with contextlib.closing(results.reader(uri, start)) as reader:
                assert b"".join(iter(lambda: reader.read(4_000_000), b"")) == data[start:]
        path = results.path(uri)
        assert path is None or path.read_bytes() == data
    if isinstance(results, DiskResultStore):
        assert results.spill.drain(60), (
            "an object on its way to the cloud is removed by the spill thread, which counts nothing"
        )
    assert results.delete_execution(12) == (3 if isinstance(results, DynamoResultStore) else 4)


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
    if isinstance(results, DiskResultStore):
        # One that has just reached the cloud tier, and still has its mark, would count twice.
        assert results.spill.drain(PATIENCE)
    assert results.delete_execution(12) == 2
    assert results.delete_execution(12) == 0
    assert results.get("noetl://execution/123/result/a/1") == b"y"
    with pytest.raises(NotFoundError):
        results.get("noetl://execution/12/result/a/1")


NO_URIS = (
    "",
    "file:///etc/passwd",
    "noetl://execution/../../etc/passwd",
    "noetl://execution//result/x",
    "noetl://execution/12",
    "noetl://execution/12/",
    "noetl://execution/-1/result/x",
    "noetl://execution/１２/result/x",
    "noetl://execution/" + "9" * 30 + "/result/x",
    "noetl://execution/9223372036854775808/result/x",
    "noetl://execution/12/result/" + "x" * 3000,
)


def test_what_is_no_result_uri_is_refused(results):
    for uri in NO_URIS:
        for call in (lambda: results.put(uri, b"x"), lambda: results.get(uri), lambda: results.writer(uri)):  # noqa: B023
            with pytest.raises(InvalidInputError):
                call()


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


def test_an_execution_that_two_remove_at_once_leaves_nothing(tmp_path, monkeypatch):
    """Two that prune meet in a folder: what the other one has removed already is no reason to leave the rest."""
    store, remove, met = FileResultStore(tmp_path), shutil.rmtree, []
    for name in "abc":
        store.put(f"noetl://execution/7/result/s/{name}", b"1")

    def meets(folder):
        if not met:
            met.append(folder)
            next(folder.iterdir()).unlink()
            raise FileNotFoundError(folder)
        remove(folder)

    monkeypatch.setattr(shutil, "rmtree", meets)
    assert store.delete_execution(7) == 3 and met and list(tmp_path.iterdir()) == []


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


def test_more_objects_than_one_request_deletes(s3, monkeypatch):
    monkeypatch.setattr("noetl.adapters.aws.s3.PAGE", 10)
    store = S3ResultStore("results", s3)
    for number in range(23):
        s3.put_object(Bucket="results", Key=f"executions/7/{number}", Body=b"")
    store.put("noetl://execution/71/result/a/1", b"stays")
    assert store.delete_execution(7) == 23
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


def _items():
    """Of the whole table: a scan gives a megabyte at a time."""
    pages = make_client("dynamodb").get_paginator("scan").paginate(TableName="results")
    return [item for page in pages for item in page["Items"]]


def test_a_value_of_kv_is_cut_into_items_and_never_expires(s3):
    store = kv_table(s3)
    data = os.urandom(KV_BYTES)
    store.put(URI, data)
    items = _items()
    assert len(items) == 3 and all(len(item["data"]["B"]) <= 400_000 for item in items)
    assert not any("expires_at" in item for item in items), (
        "it goes with its execution, however long that runs"
    )
    assert store.get(URI) == data


def test_a_kv_value_without_all_its_items_is_not_available(s3):
    store = kv_table(s3)
    store.put(URI, os.urandom(KV_BYTES))
    lost = next(item for item in _items() if item["sk"]["S"].endswith("#0002"))
    make_client("dynamodb").delete_item(TableName="results", Key={name: lost[name] for name in ("pk", "sk")})
    with pytest.raises(NotFoundError) as caught:
        store.get(URI)
    assert caught.value.code == "REFERENCE_NOT_AVAILABLE"


def test_a_table_that_is_not_there_is_an_infrastructure_error(s3):
    store = DynamoResultStore("results", lambda: make_client("dynamodb"))
    for call in (lambda: store.put(URI, b"x"), lambda: store.get(URI), lambda: store.delete_execution(1)):
        with pytest.raises(InfrastructureError, match="ResourceNotFound"):
            call()


def test_a_bucket_of_google_that_is_away_or_refused():
    with google_cloud() as google:
        place = GcsPlace("lake", google.account | {"endpoint": google.base}, allow=("127.0.0.1",))
        store = GcsResultStore(place)
        store.put(URI, b"x")
        google.busy = 1
        with pytest.raises(InfrastructureError) as caught:
            store.get(URI)
        assert caught.value.retryable
        google.corrupts = True
        with pytest.raises(InfrastructureError, match="did not arrive") as caught:
            store.put(URI + "2", b"xyz")
        assert caught.value.retryable
        elsewhere = GcsResultStore(GcsPlace("elsewhere", place.key, allow=place.allow))
        with pytest.raises(InfrastructureError, match="bucket does not exist") as caught:
            elsewhere.get(URI)
        assert not caught.value.retryable
        stranger = GcsResultStore(GcsPlace("lake", place.key | {"client_email": "x@y"}, allow=place.allow))
        with pytest.raises(InfrastructureError) as caught:
            stranger.get(URI)
        assert (caught.value.code, caught.value.retryable) == ("gcs_refused", False)
        nobody = GcsResultStore(
            GcsPlace("lake", place.key | {"endpoint": "http://127.0.0.1:9"}, allow=place.allow)
        )
        with pytest.raises(InfrastructureError) as caught:
            nobody.get(URI)
        assert (caught.value.code, caught.value.retryable) == ("gcs_unreachable", True)
