"""Reading results by their reference, and writing them: `artifact` and `resolve` over a store in memory."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.domain.results.manifests import growing
from noetl.domain.results.paged_list import PartsWriter
from noetl.domain.results.references import make_ref
from noetl.kinds.registry import OTHER_NAMES, default_registry
from noetl.kinds.rows.sources import references, row_chunks
from noetl.services.results.artifacts import TaskArtifacts
from noetl.services.results.store_results import Keeper
from tests.unit.kinds.test_registry import make_context

ROWS = [{"i": i, "name": "é" * 3} for i in range(10)]


@pytest.fixture
def store() -> MemoryResultStore:
    return MemoryResultStore()


@pytest.fixture
def context(store: MemoryResultStore) -> TaskContext:
    artifacts = TaskArtifacts(store, 1, "s", max_bytes=100_000)
    return make_context(artifacts=artifacts, settings=TaskSettings(output_max_bytes=2000))


def run(kind: str, context: TaskContext, **params: Any) -> Any:
    return default_registry().run(kind, params, context).result  # type: ignore[union-attr]


def put(context: TaskContext, body: Any, **params: Any) -> dict[str, Any]:
    return run("artifact", context, action="put", body=body, **params)


def rows_in(ref: dict[str, Any], context: TaskContext, **how: Any) -> list[Any]:
    parts = references(ref, context)
    assert parts is not None
    return [row for rows in row_chunks(parts, context.artifacts, "it", **how) for row in rows]


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
def test_rows_are_kept_and_read_in_every_format(form: str, context: TaskContext) -> None:
    ref = put(context, {"rows": ROWS, "row_count": 10} if form == "json" else ROWS, format=form)
    wanted = [{"i": str(row["i"]), "name": row["name"]} for row in ROWS] if form == "csv" else ROWS
    assert run("artifact", context, ref=ref, **{"as": "rows"}) == wanted
    assert run("result", context, ref=ref, offset=8, limit=5, **{"as": "rows"}) == wanted[8:]
    assert rows_in(ref, context, chunk_rows=3, skip=4) == wanted[4:]
    told = run("artifact", context, action="head", ref=ref)
    assert (told["format"], told["available"], told["size"]) == (form, True, ref["size"])
    assert form == "json" or ref["extracted"] == {"row_count": 10}


def collected(store: MemoryResultStore, rows: list[Any]) -> dict[str, Any]:
    """As loops leave their results."""
    writer = PartsWriter(store.put, 1, "s", run=1, tier=store.name)
    for some in (rows[:6], rows[6:]):
        writer.extend(some)
        writer._flush()
    return writer.close()


def grown(store: MemoryResultStore, first: Any, rest: Any) -> dict[str, Any]:
    """As ``accumulate`` leaves what it gathers."""
    keeper = Keeper(store, 1, 1, "s", inline_bytes=1, max_bytes=100_000)
    found: dict[str, Any] = keeper.keep(growing([keeper.part(first, None)], rest))
    return found


def test_a_result_in_parts_is_one_list(context: TaskContext, store: MemoryResultStore) -> None:
    for ref in (collected(store, ROWS), grown(store, ROWS[:6], ROWS[6:])):
        assert run("artifact", context, ref=ref) == ROWS
        assert run("artifact", context, ref=ref, offset=5, limit=2) == ROWS[5:7]
        assert run("artifact", context, ref=ref, offset=5, limit=2, **{"as": "rows"}) == ROWS[5:7]
        assert rows_in(ref, context, skip=7) == ROWS[7:]
        assert run("resolve", context, refs=[ref, 1], limit=1) == [ROWS[:1], 1]
    held = growing(codec.decode(store.get(ref["ref"]))["parts"][:1], ROWS[6:])
    assert rows_in(held, context, skip=5) == ROWS[5:], "what has no part of its own yet follows"
    with pytest.raises(TaskError) as caught:
        run("artifact", context, ref=collected(store, ["x" * 200] * 12))
    assert caught.value.code == "result_too_large_to_load", "all parts together"


def test_pages_that_were_merged_are_one_mapping(context: TaskContext, store: MemoryResultStore) -> None:
    ref = grown(store, {"a": 1, "b": {"c": 2}}, {"b": {"d": 3}})
    assert run("artifact", context, ref=ref) == {"a": 1, "b": {"c": 2, "d": 3}}
    assert run("resolve", context, ref=ref, path="$.b.d") == 3
    with pytest.raises(TaskError) as caught:
        run("artifact", context, ref=ref, **{"as": "rows"})
    assert caught.value.code == "not_rows"


def test_text_and_bytes_are_cut_at_characters_and_at_bytes(context: TaskContext) -> None:
    ref = put(context, "aéz" * 100, content_type="text/markdown")
    assert run("artifact", context, ref=ref) == "aéz" * 100
    assert run("artifact", context, ref=ref, offset=1, limit=3) == "éza"
    assert (
        run("artifact", context, ref=ref, offset=1, limit=2, **{"as": "base64"})
        == base64.b64encode("é".encode()).decode()
    )
    assert run("artifact", context, action="head", ref=ref)["content_type"] == "text/markdown"
    raw = put(context, base64.b64encode(b"\xff\x00").decode(), format="bytes")
    assert run("artifact", context, ref=raw, **{"as": "base64"}) == "/wA="
    for wish in ({}, {"as": "text"}):
        with pytest.raises(TaskError) as caught:
            run("artifact", context, ref=raw, **wish)
        assert (caught.value.code, "base64" in str(caught.value.hint)) == ("result_not_a_value", True)


def test_what_travels_by_itself_is_read_alike(context: TaskContext) -> None:
    small = {"rows": ROWS, "next": {"page": 2}}
    assert run("artifact", context, ref=small, select="$.next.page") == 2
    assert run("artifact", context, ref=small, limit=1, **{"as": "rows"}) == ROWS[:1]
    assert run("artifact", context, ref=small, **{"as": "text"}) == codec.encode(small).decode()
    loop = {"kind": "loop_result", "results": [1, 2, 3], "count": 3}
    assert run("artifact", context, ref=loop, offset=1) == [2, 3]
    assert run("resolve", context, refs={"a": loop, "b": small}, limit=2, path="rows") == {
        "a": None,
        "b": ROWS[:2],
    }
    assert run("resolve", context, ref=loop, limit=2) == [1, 2]


def test_references_deep_inside_are_resolved_and_the_rest_stays(context: TaskContext) -> None:
    one, two = put(context, {"rows": ROWS}), put(context, [1, 2, 3])
    given = {"a": one, "b": {"c": [two, "x"]}, "n": None}
    assert run("resolve", context, ref=given) == {
        "a": {"rows": ROWS},
        "b": {"c": [[1, 2, 3], "x"]},
        "n": None,
    }
    assert run("resolve", context, ref=put(context, [two, 7])) == [[1, 2, 3], 7]
    with pytest.raises(TaskError) as caught:
        run("resolve", context, refs=[one] * 10)
    assert caught.value.code == "result_too_large_to_load"


GONE = make_ref("noetl://execution/1/result/s/none", store="memory", size=9, sha256="0", value=[])


@pytest.mark.parametrize(
    "params, code",
    [
        ({"ref": GONE}, "REFERENCE_NOT_AVAILABLE"),
        ({"ref": GONE, "as": "rows"}, "REFERENCE_NOT_AVAILABLE"),
        ({"ref": "large"}, "result_too_large_to_load"),
        ({"ref": "large", "limit": 900}, "result_too_large_to_load"),
        ({"ref": "large", "as": "text"}, "result_too_large_to_load"),
        ({"ref": "large", "as": "base64"}, "result_too_large_to_load"),
        ({"ref": "large", "as": "rows"}, "object_format"),
        ({"ref": "large", "format": "csv"}, "object_format"),
        ({"ref": "changed"}, "REFERENCE_NOT_AVAILABLE"),
        ({"ref": "changed", "limit": 1000}, "REFERENCE_NOT_AVAILABLE"),
        ({"ref": 7, "action": "head"}, "not_a_reference"),
        ({"ref": 7, "as": "rows"}, "object_format"),
        ({"action": "put", "body": 7, "format": "text"}, "object_format"),
        ({"action": "put", "body": "7", "format": "bytes"}, "object_format"),
        ({"action": "put", "body": [7], "format": "csv"}, "object_format"),
        ({"action": "put", "body": [{"a": 1}, {"b": 2}], "format": "csv"}, "row_shape"),
        ({"action": "put", "body": [], "format": "parquet"}, "row_shape"),
        ({"action": "put", "body": "x" * 100_001}, "result_too_large"),
        ({"action": "put"}, "kind_params"),
        ({"action": "get"}, "kind_params"),
    ],
)
def test_what_cannot_be_done_is_told(params: dict[str, Any], code: str, context: TaskContext) -> None:
    large = put(context, ["x" * 10] * 1000)
    refs = {"large": large, "changed": {**put(context, [1]), "sha256": "0" * 64}}
    given = {
        name: refs.get(value, value) if isinstance(value, str) else value for name, value in params.items()
    }
    with pytest.raises(TaskError) as caught:
        run("artifact", context, **given)
    assert caught.value.code == code


def test_a_slice_of_a_large_list_is_loaded_without_the_rest(context: TaskContext) -> None:
    large = put(context, [{"i": i} for i in range(3000)], format="jsonl")
    assert run("artifact", context, ref=large, offset=2998) == [{"i": 2998}, {"i": 2999}]


def test_an_unavailable_reference_is_told_by_head_and_named_by_resolve(context: TaskContext) -> None:
    assert run("artifact", context, action="head", ref=GONE)["available"] is False
    with pytest.raises(TaskError) as caught:
        run("resolve", context, refs={"a": GONE})
    assert (caught.value.code, caught.value.details["ref"]) == ("REFERENCE_NOT_AVAILABLE", GONE["ref"])


def test_numbers_that_a_double_cannot_hold_stay_exact_in_parquet(context: TaskContext) -> None:
    rows = [
        {"big": 2**60, "huge": 10**30, "mixed": 2**60, "f": 1, "b": True, "d": [1], "n": None},
        {"big": -1, "huge": 1, "mixed": 0.5, "f": 0.5, "b": None, "d": {"x": 1}, "n": None},
    ]
    found = run("artifact", context, ref=put(context, rows, format="parquet"))
    assert found == [{**rows[0], "mixed": str(2**60), "f": 1.0}, {**rows[1], "mixed": "0.5"}]


def test_second_names_of_kinds_are_known_without_their_modules() -> None:
    registry = default_registry()
    found = {other: name for name in registry.names() for other in registry.spec(name).other_names}
    assert found == dict(OTHER_NAMES)


def test_resolve_takes_one_result_or_several() -> None:
    check = default_registry().check
    assert [
        len(check("resolve", given)) for given in ({}, {"ref": 1, "refs": [1]}, {"refs": 7}, {"ref": None})
    ] == [1, 1, 1, 0]


def test_one_action_takes_no_parameter_of_another() -> None:
    problems = default_registry().check("artifact", {"action": "put", "body": 1, "limit": 3, "select": "$.a"})
    assert [problem.path for problem in problems] == [("limit",), ("select",)]
    assert default_registry().check("artifact", {"reference": 1, "as": "text"}) == []


def test_a_place_for_large_results_is_needed() -> None:
    with pytest.raises(TaskError) as caught:
        put(replace(make_context()), [1])
    assert caught.value.code == "no_result_store"
