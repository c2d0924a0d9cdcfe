"""Result stores: immutable objects, safe names, durable writes."""

from __future__ import annotations

import os
import threading

import pytest

from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.memory import MemoryResultStore
from noetl.domain.errors import ConflictError, InfrastructureError, InvalidInputError, NotFoundError

URI = "noetl://execution/12/result/fetch/0b9e6f6e-0000-4000-8000-000000000000"


@pytest.fixture(params=["memory", "file"])
def results(request, tmp_path):
    return MemoryResultStore() if request.param == "memory" else FileResultStore(tmp_path / "results")


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
