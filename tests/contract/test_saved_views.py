"""Saved views in a store: kept by page and name, bounded, replaced and deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noetl.ports.saved_views import SavedViews
from tests.doubles.saved_views import MemorySavedViews

HOSTILE = {"text": "ä\0\ud800 \u202e<script>", "path": "", "q": "SELECT '{}'\n" * 20}


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def views(request: pytest.FixtureRequest) -> Iterator[SavedViews]:
    if request.param == "memory":
        yield MemorySavedViews(lambda: 1_800_000_000.0)
        return
    from noetl.adapters.postgres.connection import Database
    from noetl.adapters.postgres.saved_views import PostgresSavedViews

    database = Database(request.getfixturevalue("database"))
    yield PostgresSavedViews(database)
    database.close()


def test_a_view_is_kept_whole_by_its_page_and_name(views):
    saved = views.put("executions", "Failed/today ü", HOSTILE, "ada", 9)
    assert (saved.page, saved.name, saved.search, saved.principal) == (
        "executions",
        "Failed/today ü",
        HOSTILE,
        "ada",
    )
    assert saved.saved_at > 1.7e9 and not saved.unreadable
    assert list(views.entries("executions")) == [saved] and list(views.entries("sql")) == []


def test_a_name_is_replaced_on_its_own_page_alone(views):
    views.put("executions", "mine", {"status": "failed"}, "ada", 9)
    views.put("sql", "mine", {"q": "SELECT 1"}, "ada", 9)
    views.put("executions", "mine", {"status": "running"}, "grace", 9)
    views.put("executions", "Zeta", {}, "ada", 9)
    assert [(one.name, one.search, one.principal) for one in views.entries("executions")] == [
        ("Zeta", {}, "ada"),
        ("mine", {"status": "running"}, "grace"),
    ]
    assert [one.search for one in views.entries("sql")] == [{"q": "SELECT 1"}]


def test_a_full_page_takes_no_further_name_but_replaces_what_it_has(views):
    assert all(views.put("sql", name, {}, "", 2) for name in ("a", "b"))
    assert views.put("sql", "c", {}, "", 2) is None
    assert views.put("sql", "b", {"q": "new"}, "", 2) is not None
    assert views.put("executions", "c", {}, "", 2) is not None
    assert {one.name: one.search for one in views.entries("sql")} == {"a": {}, "b": {"q": "new"}}
    assert views.delete("sql", "a") and views.put("sql", "c", {}, "", 2) is not None


def test_a_view_is_deleted_once(views):
    views.put("sql", "a", {}, "", 9)
    assert not views.delete("executions", "a")
    assert views.delete("sql", "a") and not views.delete("sql", "a")
    assert list(views.entries("sql")) == []
