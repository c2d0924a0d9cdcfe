"""Versions of the catalog that follow the one their writer knows, in every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from noetl.adapters.memory.catalog import MemoryCatalog
from noetl.domain.errors import ConflictError
from noetl.ports.catalog import Catalog, CatalogEntry

Write = Callable[[str, int | None], CatalogEntry]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def catalog(request: pytest.FixtureRequest) -> Iterator[Catalog]:
    if request.param == "memory":
        yield MemoryCatalog()
        return
    from noetl.adapters.postgres import Database, PostgresCatalog

    database = Database(request.getfixturevalue("database"))
    yield PostgresCatalog(database)
    database.close()


@pytest.fixture
def write(catalog: Catalog) -> Write:
    def write(content: str, if_version: int | None) -> CatalogEntry:
        return catalog.register(
            path="a/b", name="b", program=content, content=content, source_name="x", if_version=if_version
        )

    return write


def test_a_version_follows_the_known_one_alone(write, catalog):
    assert write("one", 0).version == 1
    assert write("two", 1).version == 2
    for known in (0, 1, 3):
        with pytest.raises(ConflictError) as refused:
            write("three", known)
        assert (refused.value.code, refused.value.details) == ("version_moved", {"latest": 2})
    assert write("three", None).version == 3
    assert [one.version for one in catalog.versions("a/b", limit=9)] == [3, 2, 1]


def test_what_is_the_latest_already_is_answered_for_any_known_version(write):
    write("one", None)
    assert write("one", 0).version == 1 and write("one", 7).version == 1


def test_a_playbook_that_is_not_there_has_no_version_to_follow(write, catalog):
    with pytest.raises(ConflictError) as refused:
        write("one", 1)
    assert refused.value.details == {"latest": 0} and catalog.get("a/b") is None


def test_of_several_that_know_one_version_one_is_next(write, catalog):
    write("one", None)

    def attempt(number: int) -> bool:
        try:
            write(f"next {number}", 1)
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        done = list(threads.map(partial(attempt), range(6)))
    assert done.count(True) == 1 and len(catalog.versions("a/b", limit=9)) == 2


def test_latest_versions_that_may_call_are_found_those_that_name_a_path_first(catalog):
    def put(path: str, content: str, rewritten: str = "") -> None:
        catalog.register(
            path=path,
            name="n",
            program=f"{path} {content}",
            content=content,
            source_name="x",
            rewritten=rewritten,
        )

    put("a", "kind: playbook, path: {{ x }}")
    put("b", "kind: playbook, path: 100%_sure")
    put("c", "kind: Playbook")
    put("d", "kind: playbook")
    put("d", "another text")
    put("e", "in the older dialect", rewritten="kind: playbook, path: 100%_sure")
    found = catalog.calling("100%_sure", limit=9)
    assert [(one.path, one.version) for one in found] == [("b", 1), ("e", 1), ("a", 1)]
    assert found[0].program == "b kind: playbook, path: 100%_sure"
    assert [one.path for one in catalog.calling("100%_sure", limit=2)] == ["b", "e"]
    assert [one.path for one in catalog.calling("none of them", limit=9)] == ["a", "b", "e"]
