"""Limits of templates: one below and at each is rendered, one above is refused with `template_limit` and the limit's number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.domain import codec
from noetl.domain.errors import TemplateError
from noetl.domain.sizes.table import (
    TEMPLATE_BRACKETS,
    TEMPLATE_BYTES,
    TEMPLATE_CODE,
    TEMPLATE_DEPTH,
    TEMPLATE_INTEGER,
    TEMPLATE_OPERATIONS,
    TEMPLATE_RANGE,
    TEMPLATE_SOURCE,
    TEMPLATE_TAGS,
    TEMPLATE_TEXT,
    TEMPLATE_TOTAL,
    TEMPLATE_TREE,
    TEMPLATE_WIDTH,
    Size,
)
from noetl.dsl.program import Expr, Pos, Text
from noetl.templating import MappingScope, TemplateLimits, render
from tests.parts import over

Node = Expr | Text
PLACE = Pos(7, 3)


WRAPS = (
    "{% set ns = namespace(x=[]) %}{% for i in range(COUNT) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}"
)


CASES: dict[str, tuple[Size, Callable[[int], Node], Callable[[int], dict[str, Any]]]] = {
    "source": (TEMPLATE_SOURCE, lambda n: Text("{{ 1 }}".ljust(n), PLACE), lambda n: {}),
    "code": (TEMPLATE_CODE, lambda n: Expr("1".ljust(n), PLACE), lambda n: {}),
    "tags": (TEMPLATE_TAGS, lambda n: Text("{{ 1 }}" * n, PLACE), lambda n: {}),
    "brackets": (TEMPLATE_BRACKETS, lambda n: Expr("(" * n + "1" + ")" * n, PLACE), lambda n: {}),
    "depth": (TEMPLATE_DEPTH, lambda n: Text(WRAPS.replace("COUNT", str(n)), PLACE), lambda n: {}),
    "range": (TEMPLATE_RANGE, lambda n: Expr(f"range({n}) | length", PLACE), lambda n: {}),
    "integer": (TEMPLATE_INTEGER, lambda n: Expr("x * 1", PLACE), lambda n: {"x": 2 ** (n - 2)}),
    "width": (TEMPLATE_WIDTH, lambda n: Expr(f"'%{n}d' % 1", PLACE), lambda n: {}),
    "text": (TEMPLATE_TEXT, lambda n: Expr(f"'a' * {n}", PLACE), lambda n: {}),
}


@over("over", [-1, 0, 1])
@over("case", CASES)
def test_a_template_at_its_limit(case: str, over: int) -> None:
    size, make, names = CASES[case]
    node, scope = make(size.value + over), MappingScope(names(size.value + over))
    if over <= 0:
        render(node, scope)
        return
    with pytest.raises(TemplateError) as refused:
        render(node, scope)
    assert refused.value.code == "template_limit"
    assert refused.value.details["line"] == PLACE.line and refused.value.message


def edge(fits: Callable[[int], bool], most: int) -> int:
    """The largest number that fits, up to ``most``."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def fits(source: str, limits: TemplateLimits, **names: Any) -> bool:
    try:
        render(Expr(source, PLACE), MappingScope(names), limits)
    except TemplateError as error:
        assert error.code == "template_limit", error
        return False
    return True


@pytest.mark.parametrize(
    ("field", "size", "source"),
    [
        ("max_total", TEMPLATE_TOTAL, "('a' * n) ~ ''"),
        ("max_operations", TEMPLATE_OPERATIONS, "range(n) | map('string') | list"),
    ],
)
def test_what_a_template_uses_up_is_counted_to_its_limit(field: str, size: Size, source: str) -> None:
    """How much an operation costs is the evaluator's own affair: more of it is refused from one number on, and that grows with the limit."""
    assert getattr(TemplateLimits(), field) == size.value
    found = [
        edge(
            lambda n, most=most: fits(source, TemplateLimits(**{field: most, "seconds": 9.0}), n=n), 2 * most
        )  # type: ignore[misc]
        for most in (1000, 1001, 2000)
    ]
    assert 0 < found[0] <= found[1] <= found[0] + 1 and found[1] < found[2] <= 2000


def test_a_tree_of_operators_and_filters() -> None:
    def tree(levels: int) -> bool:
        return fits("1" + " | abs" * levels, TemplateLimits())

    most = edge(tree, 2 * TEMPLATE_TREE.value)
    assert tree(most) and not tree(most + 1)
    assert TEMPLATE_TREE.value - 4 <= most <= TEMPLATE_TREE.value


def test_a_list_that_is_too_large_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.templating import plain

    assert TEMPLATE_BYTES.value == plain.MAX_VALUE_WEIGHT
    monkeypatch.setattr(plain, "MAX_VALUE_WEIGHT", 10_000)
    source = "range(n) | list"
    most = edge(lambda n: fits(source, TemplateLimits(), n=n), 20_000)
    assert fits(source, TemplateLimits(), n=most) and not fits(source, TemplateLimits(), n=most + 1)
    assert 5_000 <= len(codec.encode(list(range(most)))) <= 10_000


def sizes_under_test() -> set[Size]:
    """Limits that have a case here, for the test that every limit has one."""
    uncounted = {TEMPLATE_TOTAL, TEMPLATE_OPERATIONS, TEMPLATE_TREE, TEMPLATE_BYTES}
    return uncounted | {size for size, *_ in CASES.values()}
