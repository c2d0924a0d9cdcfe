"""Pages of what tasks have printed: searched, and from either end."""

from __future__ import annotations

import pytest

from noetl.domain.task_logs import TaskLine
from noetl.services.history import log_lines
from tests.unit.api.ground import GATED, Ground

TIME = "2026-11-21T10:00:00.000Z"


def printed(ground: Ground, execution_id: str, *texts: str, step: str = "load", **more: int) -> None:
    lines = [TaskLine(TIME, step, step, text, **more) for text in texts]
    ground.database.task_logs.append(int(execution_id), lines)


def pages(ground: Ground, execution_id: str, **query: str) -> list[dict]:
    found: list[dict] = []
    while not found or found[-1]["more"]:
        page = ground.ask("GET", f"/api/executions/{execution_id}/logs", query=query)
        assert page.status == 200, page
        found.append(page.json)
        query = {**query, "after": page.json["next"]}
    return found


def texts(*found: dict) -> list[str]:
    return [line["line"] for page in found for line in page["lines"]]


@pytest.fixture
def execution_id(ground: Ground) -> str:
    execution_id = ground.run()
    printed(ground, execution_id, "Begin", "row 1", run=1)
    printed(ground, execution_id, "row 1", run=1, attempt=2)
    printed(ground, execution_id, "row 2", "ROW 3", run=2, index=1)
    printed(ground, execution_id, "row of another", step="save", run=3)
    return execution_id


@pytest.mark.parametrize("limit", ["1", "2", "1000"])
@pytest.mark.parametrize(
    ("query", "fit"),
    [
        ({}, ["Begin", "row 1", "row 1", "row 2", "ROW 3", "row of another"]),
        ({"search": "Row"}, ["row 1", "row 1", "row 2", "ROW 3", "row of another"]),
        ({"search": "row", "step": "load", "run": "2"}, ["row 2", "ROW 3"]),
        ({"attempt": "2"}, ["row 1"]),
        ({"index": "1"}, ["row 2", "ROW 3"]),
        ({"step": "none"}, []),
        ({"search": "row."}, []),
    ],
)
def test_all_that_fits_is_found_from_either_end(ground, execution_id, query, fit, limit):
    """The execution itself has printed a line of its own step first."""
    own = [line.line for line in ground.database.task_logs.lines[int(execution_id)]][:-6]
    oldest = pages(ground, execution_id, limit=limit, **query)
    newest = pages(ground, execution_id, limit=limit, order="newest", **query)
    assert texts(*oldest) == ([] if query else own) + fit
    assert texts(*newest) == texts(*oldest)[::-1]
    for found in (oldest, newest):
        assert all(len(page["lines"]) <= int(limit) for page in found)
        assert [page["complete"] for page in found] == [*[False] * (len(found) - 1), True]


def test_one_request_of_a_search_looks_at_so_many_lines(ground, execution_id, monkeypatch):
    monkeypatch.setattr(log_lines, "SCANNED", 3)
    monkeypatch.setattr(log_lines, "_PAGE", 3)
    printed(ground, execution_id, *["nothing"] * 7, "needle")
    found = pages(ground, execution_id, search="needle")
    assert len(found) > 3 and texts(*found) == ["needle"] and not found[0]["lines"]
    assert all(page["scanned"] <= 3 for page in found) and found[0]["scanned_until"]


def test_the_end_is_followed_from_where_the_newest_lines_were_read(ground):
    waiting = ground.run(GATED)
    printed(ground, waiting, "one", "two")
    (tail,) = pages(ground, waiting, order="newest", limit="2")[:1]
    assert texts(tail) == ["two", "one"] and tail["end"]
    printed(ground, waiting, "three")
    (later,) = pages(ground, waiting, after=tail["end"])
    assert texts(later) == ["three"] and not later["complete"] and later["end"] is None
    older = ground.ask(
        "GET", f"/api/executions/{waiting}/logs", query={"order": "newest", "after": tail["next"]}
    ).json
    assert "two" not in texts(older) and older["complete"] and older["end"] is None


@pytest.mark.parametrize(
    "query", [{"order": "middle"}, {"attempt": "x"}, {"run": "-1"}, {"search": "s" * 1001}, {"after": "§"}]
)
def test_what_cannot_be_asked_is_refused(ground, execution_id, query):
    answer = ground.ask("GET", f"/api/executions/{execution_id}/logs", query=query)
    assert answer.status == 400 and answer.json["code"] in ("invalid_parameter", "invalid_cursor")
