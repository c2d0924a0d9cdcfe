"""Names of the entries of an execution's results: those that a template reaches, bounded, without a value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from noetl.domain.errors import TaskError
from noetl.services.queries import result_entries
from noetl.services.queries.result_entries import read_entries
from noetl.templating import StepView
from noetl.templating.views import MISSING
from tests.parts import over
from tests.unit.api.ground import GATED, LOOPED, Ground

REF = {
    "kind": "result_ref",
    "ref": "noetl://execution/1/result/a/b",
    "store": "file",
    "size": 9,
    "sha256": None,
    "extracted": {"count": 3},
    "keys": ["rows", "count"],
}
HTTP = {
    "status_code": 200,
    "headers": {"etag": "x", "content-type": "text"},
    "data": {"city": {"name": "Oslo", "at": [{"lat": 1}, {"lon": 2}]}, "data": 1},
}
SQL = {"columns": ["id"], "rows": [{"id": 1, "total": 2}], "row_count": 1}


def gone(ref: Mapping[str, Any]) -> Any:
    raise TaskError("it is gone", kind="storage_access", code="REFERENCE_NOT_AVAILABLE")


class OneExecution:
    """A store with the slots of one execution."""

    def __init__(self, results: Mapping[str, Any], ground: Ground) -> None:
        self.results = results
        self.execution_id = int(ground.run(GATED))
        self.info = ground.store.info

    def slots(self, execution_id: int) -> Mapping[tuple[str, str], Any]:
        steps = {("step", name): {"status": "success", "data": data} for name, data in self.results.items()}
        return {**steps, ("ctx", "secret"): {"inner": 1}}


def entries(ground: Ground, **results: Any) -> dict[str, list[str]]:
    store = OneExecution(results, ground)
    found = read_entries(store, gone, store.execution_id)  # type: ignore[arg-type]
    return {one.step: one.fields for one in found.steps}


@over(
    ("data", "some", "none"),
    [
        ({"a": {"b": {"c": 1}}}, ["a", "a.b", "a.b.c"], ["b"]),
        ({"not a name": 1, "_own": 1, "x" * 81: 1, "ok": 1}, ["ok"], ["not a name", "_own", "x" * 81]),
        (HTTP, ["city", "city.at[].lat", "city.at[].lon", "data.city.name", "body.city", "status_code", "headers.etag"], []),
        (SQL, ["rows", "rows[].total", "[].id", "columns", "row_count"], []),
        (
            {"kind": "loop_result", "results": [{"n": 1}, {"m": 2}], "count": 2, "failed": 0},
            ["[].n", "results[].m", "count", "failed"],
            ["kind"],
        ),
        ([{"a": 1}, {"b": 2}], ["[].a", "[].b"], []),
        (REF, ["rows", "count"], ["kind", "store"]),
        ({"status": "success", "data": {"inner": 1}}, ["status", "data.inner", "inner"], []),
        ("text", [], ["text"]),
        (None, [], []),
    ], ground=Ground,
)  # fmt: skip
def test_the_names_are_those_that_templates_reach(
    ground: Ground, data: Any, some: list[str], none: list[str]
) -> None:
    found = entries(ground, one=data).get("one", [])
    assert set(some) <= set(found) and not set(none) & set(found)
    assert len(found) == len(set(found))
    for name in found:
        if "[]" not in name:
            assert reached(data, name) is not MISSING, name


def reached(data: Any, path: str) -> Any:
    """What a template finds at a path."""
    if data is REF:
        return None
    value: Any = StepView({"status": "success", "data": data})
    for name in path.split("."):
        value = value.attribute(name)
    return value


def test_large_results_are_loaded_within_bounds(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body of an answer over HTTP is mostly large; one that is too large has what its reference knows."""
    monkeypatch.setattr(result_entries, "LARGEST_LOADED", 100)
    monkeypatch.setattr(result_entries, "MOST_LOADED", 250)
    asked: list[str] = []

    def load(ref: Mapping[str, Any]) -> Any:
        asked.append(ref["ref"][-1])
        return HTTP

    results = {name: {**REF, "ref": REF["ref"] + name, "size": 100} for name in "abc"} | {
        "d": {**REF, "size": 101}
    }
    store = OneExecution(results, ground)
    found = {one.step: one.fields for one in read_entries(store, load, store.execution_id).steps}  # type: ignore[arg-type]
    assert asked == ["a", "b"]
    assert {"city.name", "city.at[].lat", "headers.etag"} <= set(found["b"])
    assert found["c"] == found["d"] == ["rows", "count"]


def test_no_value_is_answered_and_no_other_scope_is_read(ground: Ground) -> None:
    found = entries(ground, one={"user": "a secret value"})
    assert found == {"one": ["user"]}


def test_an_answer_is_bounded(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_entries, "MOST", 250)
    wide = {f"k{number}": {"x": 1} for number in range(300)}
    store = OneExecution({"a": wide, "b": wide, "c": wide}, ground)
    found = read_entries(store, gone, store.execution_id)  # type: ignore[arg-type]
    assert [(one.step, len(one.fields)) for one in found.steps] == [("a", 200), ("b", 50)] and found.left_out
    deep: Any = 1
    for _ in range(50):
        deep = {"d": deep}
    assert entries(ground, one=deep)["one"][-1] == "d.d.d.d.d"
    long = {"rows": [{f"c{number}": 1} for number in range(1000)]}
    assert entries(ground, one=long)["one"] == ["rows", "rows[].c0", "rows[].c1", "rows[].c2"]


def test_the_last_execution_of_a_playbook_is_asked_over_the_api(ground: Ground) -> None:
    execution_id = ground.run(LOOPED)
    answer = ground.ask("GET", f"/api/executions/{execution_id}/entries").json
    assert answer["execution_id"] == execution_id and not answer["left_out"]
    assert {"results", "count", "failed"} <= set(
        next(one for one in answer["steps"] if one["step"] == "start")["fields"]
    )
    assert len(json.dumps(answer)) < 2_000
    missing = ground.ask("GET", "/api/executions/382358247895465985/entries")
    assert (missing.status, missing.json["code"]) == (404, "execution_not_found")
