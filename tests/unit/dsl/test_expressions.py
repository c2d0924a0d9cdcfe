"""What can be known about a template without running it."""

from __future__ import annotations

import pytest

from noetl.dsl.boundaries import ARC_BOUNDARIES, CASE_EVENTS, answers_failure, certain, possible
from noetl.dsl.expressions import analyse, split_expression
from noetl.dsl.template_rules import (
    FILTERS,
    GLOBAL_FUNCTIONS,
    MAX_BRACKETS,
    MAX_DEPTH,
    MAX_SOURCE,
    TESTS,
    TemplateProblem,
)
from noetl.templating import expressions as evaluator
from noetl.templating import limits, predicates, run
from tests.parts import over


@over(
    ("source", "expression"),
    [
        ("{{ x }}", "x"),
        ("  {{ x }}\n", "x"),
        ("{{- x -}}", "x"),
        ("{{ '}}' ~ '{{' }}", "'}}' ~ '{{'"),
        ("{{ {'a': {'b': 1}} }}", "{'a': {'b': 1}}"),
        ("{{ x }}{{ y }}", None),
        ("{{ x }} {{ y }}", None),
        ("a {{ x }}", None),
        ("{{ x }}!", None),
        ("{% if x %}{{ x }}{% endif %}", None),
        ("{# note #}{{ x }}", None),
        ("plain", None),
    ],
)
def test_exactly_one_expression(source, expression):
    assert split_expression(source) == expression


@over(
    ("source", "reads"),
    [
        ("{{ ctx.total + ctx['max'] }}", ("ctx.max", "ctx.total")),
        ("{{ ctx }}", ("ctx.*",)),
        ("{{ vars[name] }}", ("name", "vars.*")),
        ("{{ ctx.get('a', 1) }}", ("ctx.a",)),
        ("{{ ctx.items() }}", ("ctx.*",)),
        ("{{ workload.base.url }}", ("workload.base",)),
        ("{{ keychain.token.value }}", ("keychain.token",)),
        ("{{ fetch.rows[0].id }}", ("fetch",)),
        ("{{ now() - loop.index + iter.x | default(range(3)) }}", ()),
        ("{{ outcome.result.data ~ event.name ~ _prev ~ args.x }}", ()),
        ("{% for r in rows %}{{ r.id }}{{ loop.index }}{{ sep }}{% endfor %}", ("rows", "sep")),
        ("{% set total = ctx.a %}{{ total }}", ("ctx.a",)),
        ("{{ 'ctx.fake' }}", ()),
        ("a {# ctx.hidden #} b", ()),
    ],
)
def test_reads(source, reads):
    assert analyse(source).reads() == reads


def test_a_built_in_name_that_is_also_stored_is_read():
    assert analyse("{{ data.x + result }}").reads(frozenset({"data"})) == ("data",)


@over(
    ("source", "guarded"),
    [
        ("{{ a.b | default(1) }}", {"a"}),
        ("{{ (a or b) | d('x') }}", {"a", "b"}),
        ("{{ a is defined and a.b and c }}", {"a"}),
        ("{{ a if a is undefined else b }}", {"a"}),
        ("{{ a | upper }}", set()),
    ],
)
def test_guards(source, guarded):
    assert analyse(source).guarded == guarded


@over(
    ("source", "offset"),
    [
        ("{{ 1 + }}", 0),
        ("ok {{ a }} then {{ b c }}", 16),
        ("text {{ open", 5),
        ("{% if x %}\n{{ x }}", 11),
        ("{% include 'x' %}", 0),
        ("{% extends 'x' %}", 0),
        ("{% import 'x' as y %}", 0),
        ("{% macro m() %}{% endmacro %}", 0),
        ("{{ f(*args) }}", 0),
        ("{% for a in b recursive %}{% endfor %}", 0),
        ("{{ " + "(" * 500 + ")" * 500 + " }}", 0),
        ("{{ " + "[" * 3000 + " }}", 0),
        ("{{ " + "not " * 5000 + "x }}", 0),
        ("{{ " + "1 + " * 3000 + "1 }}", 0),
        ("{{ " + "x" * 2_000_000 + " }}", 0),
        ("{{ a | defualt(1) }}", 7),
        ("{{ a is definded }}", 8),
    ],
)
def test_broken_templates_say_where(source, offset):
    with pytest.raises(TemplateProblem) as problem:
        analyse(source)
    assert problem.value.offset == offset
    assert problem.value.message


EVERY_CASE = tuple(CASE_EVENTS)


@over(
    ("guard", "arcs", "cases"),
    [
        ("event.name == 'step.failed'", ("failed",), ("call.error",)),
        ("'loop.done' == event.name", ("done",), ("loop.done",)),
        ("event['name'] == 'call.done' and ok", ("done",), ("call.done",)),
        ("event.name in ['step.exit', 'call.error']", ("done", "failed"), ("call.error", "step.exit")),
        ("event.name not in ('step.exit',)", ("failed",), tuple(e for e in EVERY_CASE if e != "step.exit")),
        ("event.name != 'step.failed'", ("done",), tuple(e for e in EVERY_CASE if e != "call.error")),
        (
            "not (event.name == 'step.enter')",
            ("done", "failed"),
            tuple(e for e in EVERY_CASE if e != "step.enter"),
        ),
        ("event.name == 'step.enter' or x", ("done", "failed"), EVERY_CASE),
        ("x > 3", ("done", "failed"), EVERY_CASE),
        ("event.name == wanted", ("done", "failed"), EVERY_CASE),
    ],
)
def test_possible_boundaries(guard, arcs, cases):
    analysis = analyse(f"{{{{ {guard} }}}}")
    assert possible(analysis, ARC_BOUNDARIES) == arcs
    assert possible(analysis, CASE_EVENTS) == cases


def test_certain_boundaries():
    assert certain(analyse("{{ event.name == 'step.done' }}"), ARC_BOUNDARIES) == ("done",)
    assert certain(analyse("{{ event.name == 'step.done' and x }}"), ARC_BOUNDARIES) == ()
    assert certain(analyse("{{ true }}"), ARC_BOUNDARIES) == ("done", "failed")


@over(
    ("guard", "answers"),
    [
        ("event.name == 'step.failed'", True),
        ("outcome.status == 'error'", True),
        ("output.error.kind == 'timeout'", True),
        ("output.data.big", False),
        ("ctx.status == 'error'", False),
    ],
)
def test_which_arcs_answer_a_failure(guard, answers):
    assert answers_failure(analyse(f"{{{{ {guard} }}}}")) is answers


def test_lists_are_those_of_the_evaluator():
    assert set(evaluator.ALL_FILTERS) == FILTERS
    assert set(predicates.TESTS) == TESTS
    assert set(run.GLOBALS) == GLOBAL_FUNCTIONS
    assert (limits.MAX_SOURCE, limits.MAX_BRACKETS, limits.MAX_TREE_DEPTH) == (
        MAX_SOURCE,
        MAX_BRACKETS,
        MAX_DEPTH,
    )
