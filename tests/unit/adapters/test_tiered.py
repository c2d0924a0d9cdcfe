"""Several tiers as one store."""

from __future__ import annotations

import pytest

from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.tiered import TieredResults
from noetl.domain import codec
from noetl.domain.errors import NotFoundError, TaskError
from noetl.domain.results.manifests import manifest
from noetl.domain.results.references import ref_uri
from noetl.dsl.program import ResultSpec
from noetl.services.results.artifacts import TaskArtifacts
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.store_results import Keeper

VALUE = {"rows": [{"text": "x" * 40} for _ in range(1000)]}


@pytest.fixture
def ground(tmp_path):
    lines: list[str] = []
    tiers = {
        "file": FileResultStore(tmp_path / "file"),
        "pvc": FileResultStore(tmp_path / "pvc", "pvc"),
        "memory": MemoryResultStore(100_000),
    }
    return TieredResults(tiers, "file", lines.append), tiers, lines


def test_a_value_is_where_its_reference_says(ground):
    """And is read there, also when the same URI means something else in another tier."""
    results, tiers, lines = ground
    keeper = Keeper(results, 7, 1, "load", 1024, 1 << 20)
    for wish, store in (("pvc", "pvc"), (None, "file"), ("memory", "memory")):
        ref = keeper.keep(VALUE, ResultSpec(store=wish))
        assert ref["store"] == store and tiers[store].get(ref["ref"]) == codec.encode(VALUE)
        assert make_hydrate(results)(ref) == VALUE
    assert lines == []
    assert results.delete_execution(7) == 3
    with pytest.raises(TaskError, match="not available") as caught:
        make_hydrate(results)(ref)
    assert caught.value.code == "REFERENCE_NOT_AVAILABLE" and "memory of this process" in str(caught.value)


def test_a_wish_that_cannot_be_met_is_told_of_once(ground):
    results, _, lines = ground
    keeper = Keeper(results, 7, 1, "load", 1024, 1 << 20)
    for wish in ("gcs", "gcs", "object", "object", "floppy", "disk"):
        assert keeper.keep({**VALUE, "wish": wish}, ResultSpec(store=wish))["store"] == "file"
    assert [line.split(":")[0] for line in lines] == [
        "the tier gcs is not set up here",
        "`store",
        "there is no tier 'floppy' (there are memory, kv, disk, file, s3, minio, gcs, pvc, db)",
    ]


def test_a_reference_into_a_tier_that_is_not_here_says_so(ground):
    results, _, _ = ground
    ref = {"kind": "result_ref", "ref": ref_uri(7, "load", "x"), "store": "gcs", "size": 1, "sha256": "0"}
    with pytest.raises(TaskError, match="gcs, which is not set up here") as caught:
        make_hydrate(results)(ref)
    assert caught.value.code == "REFERENCE_NOT_AVAILABLE" and caught.value.hint
    with pytest.raises(NotFoundError):
        results.at("gcs").reader(ref["ref"])


def test_parts_of_a_manifest_lie_where_they_were_written(ground):
    results, tiers, _ = ground
    parts = []
    for number, store in enumerate(("pvc", "memory", None)):
        uri = ref_uri(7, "loop", f"part{number}")
        results.at(store).put(uri, codec.encode([number]))
        parts.append({"ref": uri, "sha256": None} | ({"store": store} if store else {}))
    uri = ref_uri(7, "loop", "manifest")
    tiers["pvc"].put(uri, codec.encode(manifest(parts)))
    assert make_hydrate(results)({"kind": "result_ref", "ref": uri, "store": "pvc"}) == [0, 1, 2]


@pytest.mark.parametrize(("size", "store"), [(10, "memory"), (3 << 20, "file")])
def test_an_artifact_goes_where_its_size_allows(ground, size, store):
    """A small one is held until it is known to be small."""
    results, _, lines = ground
    artifacts = TaskArtifacts(results, 7, "load", max_bytes=1 << 30)
    from noetl.domain.kinds import ResultOptions

    with artifacts.create("bytes", options=ResultOptions("memory")) as writer:
        for start in range(0, size, 1 << 20):
            writer.write(b"x" * min(1 << 20, size - start))
        ref = writer.close()
    assert ref["store"] == store and len(lines) == (store == "file")
    with artifacts.open(ref) as stream:
        assert len(stream.read()) == size


def test_memory_makes_room_by_last_use():
    store = MemoryResultStore(300)
    uris = [ref_uri(7, "s", str(number)) for number in range(4)]
    for uri in uris[:3]:
        store.put(uri, b"x" * 100)
    store.get(uris[0])
    store.put(uris[3], b"y" * 100)
    assert [_has(store, uri) for uri in uris] == [True, False, True, True]
    store.delete_execution(7)
    for uri in uris:
        store.put(uri, b"z" * 60)
    assert all(_has(store, uri) for uri in uris)


def _has(store, uri):
    try:
        return bool(store.get(uri))
    except NotFoundError:
        return False
