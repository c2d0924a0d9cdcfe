"""What a model is told that a task of the workbook takes."""

from __future__ import annotations

import json

import pytest

from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.task_signature import signature_of
from noetl.dsl.yaml_text.loader import load
from tests.parts import over


def signature(text, known=()):
    return signature_of(load(text, Diagnostics()), known)


@pytest.mark.parametrize(
    ("task", "properties", "required"),
    [
        ("{ kind: noop }", {}, []),
        (
            "{ kind: noop, input: { a: 1, b: x, c: [1], d: { e: 2 }, f: null, g: 1.5, h: true } }",
            {
                "a": ("integer", 1),
                "b": ("string", "x"),
                "c": ("array", [1]),
                "d": ("object", {"e": 2}),
                "f": (None, None),
                "g": ("number", 1.5),
                "h": ("boolean", True),
            },
            [],
        ),
        (
            '{ kind: http, url: x, input: { own: "{{ workload.x }}", deep: { in: ["{{ a }}"] }, n: 1 } }',
            {"n": ("integer", 1)},
            [],
        ),
    ],
)
def test_entries_with_plain_values_are_defaults_and_computed_ones_are_no_parameters(
    task, properties, required
):
    found = signature(task)
    assert found["properties"] == {
        name: {**({"type": kind} if kind else {}), "default": value}
        for name, (kind, value) in properties.items()
    }
    assert found.get("required", []) == required


@over(
    ("code", "expected"),
    [
        ("result = a + b", {"a": {}, "b": {}}),
        ("import math\nx = 1\nresult = math.pi * x * len(rows) + sum(y for y in rows)", {"rows": {}}),
        ("def area(r):\n    return r * factor\nresult = area(size)", {"factor": {}, "size": {}}),
        ("result = workload['a'] + ctx.get('b') + known", {"known": {}}),
        ("return city", {"city": {}}),
        ("result = (", {}),
        ("x: int = 3\nfor i in range(n):\n    pass\nresult = [i, x]", {"n": {}}),
    ],
)
def test_names_that_code_reads_and_nothing_sets_are_required(code, expected):
    found = signature(f"kind: python\ncode: {json.dumps(code)}", {"known"})
    assert found["properties"] == expected and set(found.get("required", [])) == set(expected)


def test_parameters_of_main_have_the_types_of_their_annotations():
    code = "def main(city: str, days: int = 3, tags: list[str] = (), *, exact: bool, note=None, known=0): ..."
    found = signature(f"kind: python\ncode: {code!r}\ninput: {{ note: hi }}", {"known"})
    assert found == {
        "type": "object",
        "properties": {
            "note": {"type": "string", "default": "hi"},
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "tags": {"type": "array"},
            "exact": {"type": "boolean"},
        },
        "required": ["city", "exact"],
    }
