"""Saved views over the API: who may save, what is refused, and what others see."""

from __future__ import annotations

import pytest

from tests.unit.api.ground import Ground

VIEWS = "/api/views/executions"
FAILED = {"search": {"status": "failed", "age": "24h"}}


@pytest.fixture
def ground() -> Ground:
    return Ground()


def test_what_one_person_saves_others_see_with_the_name_of_who_saved_it(ground):
    saved = ground.ask("PUT", f"{VIEWS}/Failed today", FAILED).json
    assert saved["search"] == FAILED["search"] and saved["principal"] and saved["error"] is None
    assert ground.ask("GET", VIEWS).json == {"views": [saved]}
    assert ground.ask("GET", "/api/views/sql").json == {"views": []}


@pytest.mark.parametrize("name", [" ahead", "behind ", "two\nlines", "bell\x07", "\u202eright to left"])
def test_names_that_cannot_be_read_in_a_list_are_refused(ground, name):
    reply = ground.ask("PUT", f"{VIEWS}/{name}", FAILED)
    assert (reply.status, reply.json["code"]) == (422, "invalid_saved_view") and reply.json["hint"]


@pytest.mark.parametrize("search", [{"a": 1}, {"a": None}, {"a": {"b": "c"}}, ["a"], None])
def test_a_search_holds_texts_alone(ground, search):
    reply = ground.ask("PUT", f"{VIEWS}/x", {"search": search})
    assert (reply.status, reply.json["code"]) == (422, "body_invalid")


def test_other_pages_have_no_views(ground):
    for method, path in (
        ("GET", "/api/views/home"),
        ("PUT", "/api/views/home/x"),
        ("DELETE", "/api/views/home/x"),
    ):
        reply = ground.ask(method, path, {"search": {}} if method == "PUT" else None)
        assert (reply.status, reply.json["code"]) == (422, "invalid_saved_view"), reply
        assert "executions and sql" in reply.json["hint"]


def test_deleting_what_is_not_there_is_not_found_unless_the_request_is_repeated(ground):
    ground.ask("PUT", f"{VIEWS}/x", FAILED)
    assert ground.ask("DELETE", f"{VIEWS}/x").json == {"name": "x", "deleted": True}
    again = ground.ask("DELETE", f"{VIEWS}/x")
    assert (again.status, again.json["code"]) == (404, "saved_view_not_found")
