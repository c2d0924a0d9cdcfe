"""Faces of stored JSON: large results, SQL rows, loops, steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from noetl.domain.errors import TemplateError
from noetl.domain.results.references import make_ref
from noetl.dsl.program import Expr, Text
from noetl.templating import MISSING, MappingScope, StepView, View, is_true, render, unwrap, wrap
from tests.parts import over


class Store:
    """Loads one value and counts how often."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.loads = 0
        self.ref = make_ref("noetl://execution/1/result/s/x", store="s3", size=99, sha256="00", value=value)

    def hydrate(self, ref: Mapping[str, Any]) -> Any:
        assert ref["ref"] == self.ref["ref"]
        self.loads += 1
        return self.value


def evaluate(source: str, **names: Any) -> Any:
    return render(Expr(source), MappingScope(names))


@pytest.mark.parametrize("name", ["index", "count"])
def test_a_mapping_has_no_methods_of_a_list(name: str) -> None:
    assert evaluate(f"m.{name} | default('none')", m=wrap({"a": 1})) == "none"
    assert evaluate(f"m.{name}", m=wrap({name: 5})) == 5
    assert evaluate(f"m.{name}(7)", m=wrap([7])) == (0 if name == "index" else 1)


LARGE = {"status": "sent", "row_count": 3, "size": "XL", "data": [1, 2, 3], "nested": {"items": "key"}}


@over(
    ("source", "expected", "loads"),
    [
        ("big.row_count", 3, 0),
        ("big.status == 'sent'", True, 0),
        ("big.ref", "noetl://execution/1/result/s/x", 0),
        ("big._ref.store", "s3", 0),
        ("big.store", "s3", 0),
        ("big.preview.truncated", True, 0),
        ("big.missing | default('none')", "none", 0),
        ("big.size", "XL", 1),
        ("big.data[1]", 2, 1),
        ("big.data | length + big.data[0]", 4, 1),
        ("big.nested.items", "key", 1),
        ("big.keys() | length", 5, 1),
        ("'nested' in big", True, 1),
        ("big | length", 5, 1),
        ("big | tojson | fromjson == {'a': 1}", False, 1),
        ("big == big", True, 1),
    ],
)
def test_a_large_result_is_loaded_once_and_only_when_needed(source: str, expected: Any, loads: int) -> None:
    store = Store(LARGE)
    assert evaluate(source, big=wrap(store.ref, store.hydrate)) == expected
    assert store.loads == loads


@over("name", [*LARGE, "missing", "kind"])
def test_growing_over_the_inline_limit_changes_no_name(name: str) -> None:
    store = Store(LARGE)
    small = evaluate(f"step.{name} | default('none')", step=StepView({"status": "success", "data": LARGE}))
    large = evaluate(
        f"step.{name} | default('none')",
        step=StepView({"status": "success", "data": store.ref}, store.hydrate),
    )
    assert large == ("result_ref" if name == "kind" else small)


@over("source", ["big", "[big][0]", "{'a': big}.a", "big if true", "missing | default(big)"])
def test_a_value_that_is_exactly_a_large_result_stays_its_reference(source: str) -> None:
    store = Store([1])
    assert evaluate(source, big=wrap(store.ref, store.hydrate)) is store.ref
    assert store.loads == 0


def test_references_inside_data_are_found_where_they_are() -> None:
    store = Store({"name": "deep"})
    data = {"list": [{"r": store.ref}, store.ref]}
    ctx = wrap(data, store.hydrate)
    assert evaluate("ctx.list[0].r.name", ctx=ctx) == "deep"
    assert evaluate("ctx.list[1:] | map(attribute='name') | list", ctx=ctx) == ["deep"]
    assert (
        render(Text("{% for x in ctx.list[1:] %}{{ x.name }}{% endfor %}"), MappingScope({"ctx": ctx}))
        == "deep"
    )
    assert evaluate("ctx.list + []", ctx=ctx) == data["list"]


def test_without_a_way_to_load_the_content_is_an_error_and_the_reference_is_not() -> None:
    store = Store(LARGE)
    assert evaluate("big.row_count", big=store.ref) == 3
    assert evaluate("big", big=store.ref) is store.ref
    with pytest.raises(TemplateError, match="large result") as caught:
        evaluate("big.data", big=store.ref)
    assert caught.value.code == "template_error"


ROWS = {
    "columns": ["email", "n"],
    "rows": [{"email": "a@x", "n": 1}, {"email": "b@x", "n": 2}],
    "row_count": 2,
}


@over(
    ("source", "expected"),
    [
        ("r[0].email", "a@x"),
        ("r[-1]['n']", 2),
        ("r.rows[1].n", 2),
        ("r.row_count", 2),
        ("r.columns | first", "email"),
        ("r | length", 2),
        ("r | map(attribute='n') | list", [1, 2]),
        ("r | first", ROWS["rows"][0]),
        ("r[1:]", ROWS["rows"][1:]),
        ("r | tojson | fromjson == r", True),
        ("r", ROWS),
        ("r == r.rows", True),
        ("r[5] | default('none')", "none"),
    ],
)
def test_a_sql_result_is_rows_and_a_mapping(source: str, expected: Any) -> None:
    assert evaluate(source, r=ROWS) == expected
    assert evaluate(source, r=StepView({"status": "success", "data": ROWS})) == expected


def test_rows_in_a_loop() -> None:
    source = "{% for row in r %}{{ row.email }};{% endfor %}"
    assert render(Text(source), MappingScope({"r": ROWS})) == "a@x;b@x;"


LOOP = {"kind": "loop_result", "results": [10, {"error": "x"}, 30], "count": 3, "failed": 1}


@over(
    ("source", "expected"),
    [
        ("p", LOOP["results"]),
        ("p.count", 3),
        ("p.failed", 1),
        ("p.results[2]", 30),
        ("p[0]", 10),
        ("p | length", 3),
        ("p | last", 30),
        ("p + [4]", [*LOOP["results"], 4]),
        ("p == p.results", True),
        ("10 in p", True),
        ("p | tojson", '[10,{"error":"x"},30]'),
        ("[p] | first", LOOP["results"]),
    ],
)
def test_a_loop_result_is_a_list_that_counts(source: str, expected: Any) -> None:
    assert evaluate(source, p=wrap(LOOP)) == expected
    assert evaluate(source, p=StepView({"status": "success", "data": LOOP})) == expected


ENDED = {
    "kind": "loop_result",
    "results": [10, {"error": {"code": "c"}}, {"error": "of code"}, {"a": 1}],
    "count": 4,
    "failed": 1,
}


@over(
    ("source", "expected"),
    [
        ("p.failures", [{"index": 1, "error": {"code": "c"}}]),
        ("p.failures | map(attribute='error.code') | first", "c"),
        ("p.successes", [10, {"error": "of code"}, {"a": 1}]),
        ("p.successes[2].a", 1),
    ],
)
def test_a_loop_result_divides_its_items_by_their_ends(source: str, expected: Any) -> None:
    assert evaluate(source, p=wrap(ENDED)) == expected
    assert evaluate(source, p=StepView({"status": "success", "data": ENDED})) == expected
    store = Store(ENDED["results"])
    assert evaluate(source, p=wrap({**ENDED, "results": store.ref}, store.hydrate)) == expected


def test_a_loop_without_failures_knows_them_without_being_loaded() -> None:
    store = Store([1, 2])
    loop = wrap({**ENDED, "results": store.ref, "failed": 0}, store.hydrate)
    assert evaluate("p.failures", p=loop) == [] and evaluate("p.successes", p=loop) is store.ref
    assert store.loads == 0


def test_a_large_loop_result_counts_without_being_loaded() -> None:
    store = Store([1, 2])
    loop = wrap({**LOOP, "results": store.ref, "count": 2}, store.hydrate)
    assert evaluate("p.count", p=loop) == 2
    assert evaluate("p", p=loop) is store.ref
    assert store.loads == 0
    assert evaluate("p[1]", p=loop) == 2


STEP = {
    "status": "success",
    "data": {"status": "own", "x": 1, "data": "inner"},
    "error": None,
    "labels": {"page": {"n": 7}, "x": "hidden"},
}


@over(
    ("state", "source", "expected"),
    [
        (STEP, "s", STEP["data"]),
        (STEP, "s.x", 1),
        (STEP, "s.status", "own"),
        (STEP, "s.data", "inner"),
        (STEP, "s.error", None),
        (STEP, "s._ref", None),
        (STEP, "s.page.n", 7),
        (STEP, "s.labels.x", "hidden"),
        (STEP, "s.result", STEP["data"]),
        ({"status": "success", "data": {"x": 1}}, "s.data.x + s.result.x", 2),
        ({"status": "skipped", "data": None}, "s.status", "skipped"),
        ({"status": "skipped", "data": None}, "s is none and s.data is none", True),
        ({"status": "skipped", "data": None}, "s.x | default('none')", "none"),
        ({"status": "error", "error": {"kind": "timeout"}}, "s.error.kind", "timeout"),
        ({"status": "success", "data": [1, 2]}, "s[1] + (s | length) + (s | sum)", 7),
        ({"status": "success", "data": 5}, "s + 1 if s > 4 and s == 5 else 0", 6),
        ({"status": "success", "data": "text"}, "s.upper() ~ s", "TEXTtext"),
        ({"status": "success", "data": {"items": 1}}, "s.items", 1),
        ({"status": "success", "data": {"a": 1}}, "s.items() | list", [["a", 1]]),
    ],
)
def test_a_step_shows_its_result_first(state: dict[str, Any], source: str, expected: Any) -> None:
    assert evaluate(source, s=StepView(state)) == expected


def test_a_step_with_a_large_result_gives_its_reference() -> None:
    store = Store(LARGE)
    step = StepView({"status": "success", "data": store.ref}, store.hydrate)
    assert evaluate("s", s=step) is store.ref
    assert evaluate("s._ref", s=step) is store.ref
    assert evaluate("s.result", s=step) is store.ref
    assert evaluate("s.error", s=step) is None
    assert store.loads == 0


@pytest.mark.parametrize(("data", "expected"), [("yes", True), (0, False), (None, False)])
def test_a_step_as_a_guard_is_its_result(data: Any, expected: bool) -> None:
    assert is_true(Expr("s"), MappingScope({"s": StepView({"status": "success", "data": data})})) is expected


def test_a_misspelt_field_of_a_step_is_explained() -> None:
    with pytest.raises(TemplateError) as caught:
        evaluate("s.statsu", s=StepView({"status": "success", "data": {"x": 1}}))
    assert caught.value.code == "undefined"
    assert caught.value.details["nearest"] == "status"


class Alias(str):
    """A name that equals its aliases, as event names do."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other in ("done", "exit")

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class Both(View):
    """A view of another package: keys of its own, a value of its own."""

    __slots__ = ()

    def attribute(self, name: str) -> Any:
        return {"mine": wrap({"a": 1})}.get(name, MISSING)

    def value(self) -> Any:
        return wrap([1, 2])

    def plain(self) -> Any:
        return "plain"

    def keys(self) -> Iterable[str]:
        return ("mine",)


@over(
    ("source", "expected"),
    [
        ("name == 'exit' and 'exit' == name and name != 'other'", True),
        ("name in ['x', 'exit'] and name is eq 'done'", True),
        ("name ~ '!'", "done!"),
        ("name", "done"),
        ("both.mine.a", 1),
        ("both | sum", 3),
        ("both == [1, 2]", True),
        ("both", "plain"),
        ("both.mime | default(0)", 0),
    ],
)
def test_names_and_views_of_other_packages(source: str, expected: Any) -> None:
    found = evaluate(source, name=Alias("done"), both=Both())
    assert type(found) is type(expected)
    assert found == expected


def test_wrap_and_unwrap_are_inverse_and_copy_nothing() -> None:
    for value in ({"a": [1]}, [1, [2]], "x", 1, None, True, ROWS, Store(1).ref):
        assert unwrap(wrap(value)) is value
        assert unwrap(wrap(wrap(value))) is value
