"""Places of cached task results: the latest entry of a key, with any text in it."""

from __future__ import annotations

import msgspec
import pytest

from noetl.adapters.aws.task_cache import S3TaskCache
from noetl.adapters.memory.task_cache import MemoryTaskCache
from noetl.ports.task_cache import CachedResult
from tests.contract.clouds import make_bucket, mocked_aws

NOW = 1_800_000_000.0


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres), "s3"])
def cache(request, monkeypatch):
    if request.param == "memory":
        yield MemoryTaskCache()
    elif request.param == "s3":
        with mocked_aws(monkeypatch) as make_client:
            client = make_client("s3")
            yield S3TaskCache(make_bucket(client), "http", client)
    else:
        from noetl.adapters.postgres.connection import Database
        from noetl.adapters.postgres.task_cache import PostgresTaskCache

        database = Database(request.getfixturevalue("database"))
        yield PostgresTaskCache(database)
        database.close()


def entry(key="a" * 64, **fields):
    made = CachedResult(
        key,
        2**62,
        "fetch",
        3,
        NOW,
        NOW + 60,
        {"kind": "result_ref", "sha256": "é \x00 \ud800"},
        {"http": {"status": 200, "headers": {"via": "é \x00"}}},
    )
    return msgspec.structs.replace(made, **fields)


def test_the_latest_entry_of_a_key_is_returned_as_it_was_kept(cache):
    assert cache.get("a" * 64) is None
    cache.put(entry())
    cache.put(entry("b" * 64, step="other"))
    assert cache.get("a" * 64) == entry()
    later = entry(execution_id=7, at=NOW + 30, until=NOW + 90)
    cache.put(later)
    assert cache.get("a" * 64) == later
    assert cache.get("b" * 64) == entry("b" * 64, step="other")


def test_workers_of_a_deployment_take_nothing_from_each_others_caches(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        bucket = make_bucket(client)
        S3TaskCache(bucket, "python", client).put(entry())
        assert S3TaskCache(bucket, "http", client).get("a" * 64) is None
        assert S3TaskCache(bucket, "python", client).get("a" * 64) == entry()


@pytest.mark.postgres
def test_entries_whose_time_is_over_go_when_others_are_kept(database):
    from noetl.adapters.postgres.connection import Database
    from noetl.adapters.postgres.task_cache import PostgresTaskCache

    opened = Database(database)
    cache = PostgresTaskCache(opened)
    for number in range(3):
        cache.put(entry(f"{number}" * 64, until=NOW + 60 * number))
    cache.put(entry("9" * 64, at=NOW + 61, until=NOW + 300))
    found = [cache.get(name * 64) is not None for name in "0129"]
    opened.close()
    assert found == [False, False, True, True]
