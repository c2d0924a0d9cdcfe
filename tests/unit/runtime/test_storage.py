"""The tiers that settings make: which there are, which is the default, and what is refused with a reason."""

from __future__ import annotations

import json

import pytest

from noetl.adapters.postgres.connection import Database
from noetl.domain.errors import InvalidInputError
from noetl.domain.results.references import ref_uri
from noetl.runtime.aws.results import make_link, open_results
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.local.results import local_results
from noetl.runtime.storage_settings import StorageSettings
from tests.contract.clouds import make_bucket, mocked_aws

OWN = {"file", "memory", "kv", "db"}
URI = ref_uri(7, "load", "x")


def here(home, *, shared=False, **env):
    storage = StorageSettings.from_env({f"NOETL_STORAGE_{name}": value for name, value in env.items()})
    return local_results(storage, home, Database("host=/nowhere"), shared=shared)


def test_files_are_the_default_here(tmp_path):
    found = here(tmp_path)
    assert (found.name, set(found.tiers)) == ("file", OWN)
    assert found.choose(50_000).name == "file" and found.choose(50_000, "kv").name == "kv"
    assert here(tmp_path, KV_AUTO_BYTES="60000").choose(50_000).name == "kv"


@pytest.mark.parametrize(
    ("env", "shared", "waits"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"SPILL": "sync"}, False, True),
        ({"SPILL": "async"}, True, False),
    ],
)
def test_a_cloud_tier_gets_a_disk_in_front_of_it(tmp_path, env, shared, waits):
    """What other machines may hear of is in the cloud tier before it is told of."""
    (tmp_path / "pvc").mkdir()
    found = here(tmp_path, shared=shared, CLOUD_TIER="pvc", PVC_DIR=str(tmp_path / "pvc"), **env)
    assert (found.name, set(found.tiers)) == ("disk", {*OWN, "pvc", "disk"})
    found.put(URI, b"x")
    arrived = list((tmp_path / "pvc").rglob("7/*"))
    assert bool(arrived) or not waits
    found.close()
    assert found.at("pvc").get(URI) == b"x" and found.at("disk").get(URI) == b"x"
    assert list((tmp_path / "cache" / "results" / "data" / "7").iterdir())


def test_every_tier_outside(tmp_path, monkeypatch):
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"client_email": "a@b", "private_key": "x"}))
    with mocked_aws(monkeypatch):
        found = here(
            tmp_path,
            S3_BUCKET="results",
            MINIO_ENDPOINT="http://127.0.0.1:9000",
            MINIO_BUCKET="results",
            GCS_BUCKET="lake",
            GCS_KEY_FILE=str(key),
            CLOUD_TIER="minio",
        )
    assert (found.name, set(found.tiers)) == ("disk", {*OWN, "s3", "minio", "gcs", "disk"})


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"CLOUD_TIER": "tape"}, "NOETL_STORAGE_CLOUD_TIER='tape' is none of s3, minio, gcs, pvc"),
        ({"CLOUD_TIER": "gcs"}, "CLOUD_TIER=gcs names a tier that is not set up"),
        ({"MINIO_BUCKET": "b"}, "MINIO_ENDPOINT and NOETL_STORAGE_MINIO_BUCKET"),
        ({"MINIO_BUCKET": "b", "MINIO_ENDPOINT": "minio:9000"}, "is not an address"),
        ({"GCS_BUCKET": "b"}, "GCS_KEY_FILE"),
        ({"GCS_BUCKET": "b", "GCS_KEY_FILE": "/nowhere/key"}, "cannot be read"),
        ({"GCS_BUCKET": "b", "GCS_KEY_FILE": "/etc/hostname"}, "is not the JSON key"),
        ({"PVC_DIR": "relative"}, "not an absolute path"),
        ({"PVC_DIR": "/nowhere/at/all"}, "is not a folder"),
        ({"KV_AUTO_BYTES": "many"}, "is not a whole number"),
        ({"CACHE_MB": "0"}, "at least 1"),
        ({"SPILL": "later"}, "none of async, sync"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, env, told):
    with pytest.raises(InvalidInputError) as caught:
        here(tmp_path, **env)
    assert told in str(caught.value) and caught.value.code == "setting_invalid"


def test_a_deployment(tmp_path, monkeypatch):
    """The bucket, with the disk in front where there is one, and kv for what is small; links for what lies elsewhere."""
    with mocked_aws(monkeypatch) as make_client:
        make_bucket(make_client("s3"))
        env = {"NOETL_ENV": "dev", "NOETL_RESULTS_BUCKET": "results"}
        assert open_results(CloudSettings.from_env(env)).name == "s3"
        more = {
            "NOETL_STORAGE_KV_TABLE": "small",
            "NOETL_STORAGE_KV_AUTO_BYTES": "1048576",
            "NOETL_STORAGE_LOCAL_CACHE_DIR": str(tmp_path / "cache"),
            "NOETL_STORAGE_PVC_DIR": str(tmp_path),
        }
        found = open_results(CloudSettings.from_env(env | more))
        assert (found.name, set(found.tiers)) == ("disk", {"s3", "kv", "disk", "pvc"})
        assert [found.choose(size).name for size in (1000, 1 << 20, (1 << 20) + 1)] == ["kv", "kv", "disk"]
        found.put(URI, b"x")
        assert found.at("s3").get(URI) == b"x", "it does not wait for anything"
        link = make_link(found)
        assert "/executions/7/" in link(URI, 60, "disk")
        elsewhere = ref_uri(7, "load", "elsewhere")
        found.at("pvc").put(elsewhere, b"yy")
        for _ in range(2):
            assert "X-Amz-Expires=60" in link(elsewhere, 60, "pvc")
        assert found.at("s3").get(elsewhere) == b"yy"
