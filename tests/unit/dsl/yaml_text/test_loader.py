"""YAML as the playbook language reads it: types, positions, and documents made to hurt."""

from __future__ import annotations

import pytest

from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.program import Pos
from noetl.dsl.yaml_text.loader import load
from tests.parts import over
from tests.work import calls

MOST_CALLS = 3_000_000
"""Functions called until a document is refused."""


def read(text):
    diagnostics = Diagnostics()
    return load(text, diagnostics), diagnostics.sorted()


def bomb(levels, width=9):
    lines = ["a0: &a0 [" + ", ".join(["x"] * width) + "]"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * width) + "]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        pytest.param("[" * 100_000, "yaml-too-deep", 1, 101, id="nested lists"),
        pytest.param("{" * 100_000, "yaml-unquoted-template", 1, 1, id="nested mappings"),
        pytest.param("- " * 100_000, "yaml-too-deep", 1, 201, id="nested block lists"),
        pytest.param("? " * 100_000, "yaml-key", 1, 3, id="nested complex keys"),
        pytest.param(
            "\n".join(" " * i + f"k{i}:" for i in range(400)), "yaml-too-deep", 101, 101, id="nested keys"
        ),
        pytest.param("a: &a [" * 50_000, "yaml-too-deep", 1, 351, id="nested anchors"),
        pytest.param(bomb(12), "yaml-alias-limit", 6, 10, id="alias bomb"),
        pytest.param(
            "a: &a [x]\n" + "b: [" + "*a, " * 2000 + "]", "yaml-alias-limit", 2, 4005, id="many aliases"
        ),
        pytest.param("a: &a {b: *a}", "yaml-alias-cycle", 1, 11, id="alias cycle"),
        pytest.param("a: [" + "1," * 300_000 + "]", "yaml-too-many-nodes", 1, 199_999, id="many values"),
        pytest.param("a: " + "x" * 10_000_000, "yaml-too-large", 1, 1, id="ten megabytes"),
        pytest.param("a: " + "9" * 5_000, "yaml-number", 1, 4, id="endless number"),
        pytest.param("a: .inf", "yaml-number", 1, 4, id="infinity"),
        pytest.param("a: b\x00c", "yaml-control-character", 1, 5, id="NUL"),
        pytest.param("a: b\nc: \ud800", "yaml-control-character", 2, 4, id="lone surrogate"),
        pytest.param(b"a: b\nc: \xff\xfe", "yaml-encoding", 2, 4, id="not UTF-8"),
        pytest.param("", "yaml-empty", 1, 1, id="empty"),
        pytest.param("# only a comment\n", "yaml-empty", 1, 1, id="comment only"),
        pytest.param("a: 1\n---\nb: 2", "yaml-multiple-documents", 2, 1, id="two documents"),
        pytest.param("a: 1\r\na: 2\r\n", "yaml-duplicate-key", 2, 1, id="duplicate key, CRLF"),
        pytest.param("a:\n\tb: 1", "yaml-tab", 2, 1, id="tab"),
        pytest.param("a: [{{ x }}]", "yaml-unquoted-template", 1, 5, id="template in a list"),
        pytest.param(
            "a: {{ x | default('y', 1) }}/z", "yaml-unquoted-template", 1, 4, id="template and text"
        ),
        pytest.param("a: {% if x %}", "yaml-syntax", 1, 5, id="statement"),
        pytest.param("a: *nothing", "yaml-syntax", 1, 4, id="unknown alias"),
        pytest.param("a: 'x\nb: 1", "yaml-syntax", 1, 4, id="open quote"),
        pytest.param("a: !!binary aGk=", "yaml-tag", 1, 4, id="tag"),
    ],
)
def test_refused_at_once(text, code, line, column):
    found = []
    assert calls(lambda: found.append(read(text))) < MOST_CALLS
    ((tree, problems),) = found
    assert tree is None
    assert (problems[0].code, problems[0].line, problems[0].column) == (code, line, column)
    assert all(problem.hint for problem in problems)
    assert len(problems) < 5


def test_every_problem_of_a_readable_document_is_reported():
    _, problems = read("a: 1\na: 2\nnull: 3\nc: {{ x }}\nd: {{ y }}\ne: .nan\n")
    assert [(p.code, p.line) for p in problems] == [
        ("yaml-duplicate-key", 2),
        ("yaml-key", 3),
        ("yaml-unquoted-template", 4),
        ("yaml-unquoted-template", 5),
        ("yaml-number", 6),
    ]


def test_types_are_those_of_yaml_1_2():
    text = "{a: on, b: no, c: yes, d: 1:30, e: 0o10, f: 010, g: 0x1f, h: 1e3, i: ~, j: 2020-01-01, k: True, l: !!str 1, 1: m}"
    tree, problems = read(text)
    assert not problems
    assert tree.plain() == {
        "a": "on",
        "b": "no",
        "c": "yes",
        "d": "1:30",
        "e": 8,
        "f": 10,
        "g": 31,
        "h": 1000.0,
        "i": None,
        "j": "2020-01-01",
        "k": True,
        "l": "1",
        "1": "m",
    }


def test_big_integers_and_aliases_keep_their_value():
    tree, _ = read("a: &n 12345678901234567890123\nb: [*n, *n]\nc: &m {x: 1}\nd: *m")
    assert tree.plain() == {
        "a": 12345678901234567890123,
        "b": [12345678901234567890123] * 2,
        "c": {"x": 1},
        "d": {"x": 1},
    }


def test_a_merge_key_in_quotes_is_a_key():
    tree, problems = read("{\"<<\": {x: 1}, '<<y': 2}")
    assert not problems
    assert tree.plain() == {"<<": {"x": 1}, "<<y": 2}
    assert read("<<: {x: 1}")[1], "without quotes it would mean something else to others"


def test_deepest_allowed_document():
    tree, problems = read("a: " + "[" * 99 + "]" * 99)
    assert tree is not None
    assert not problems


@over(
    ("text", "name", "line", "column"),
    [
        ("a: |\n  first {{ x }}\n  second {{ name }}\n", "name", 3, 13),
        ("a: |2\n\n    deep\n   {{ name }}\n", "name", 4, 7),
        ("a: >-\n  folded\n  {{ x }}\n\n  more {{ name }}\n", "name", 5, 11),
        ('a: "é {{ name }}"', "name", 1, 10),
        ('a: "tab\\t{{ x }} quote\\" {{ name }}"', "name", 1, 29),
        ("a: 'it''s {{ name }}'", "name", 1, 14),
        ("a: plain\n  {{ x }} on\n  {{ name }}", "name", 3, 6),
        ("a: |\r\n  one\r\n  {{ name }}\r\n", "name", 3, 6),
        ("\ufeffa: '{{ name }}'", "name", 1, 8),
    ],
)
def test_places_inside_values(text, name, line, column):
    tree, problems = read(text)
    assert not problems
    scalar = tree.get("a")
    assert scalar.locate(scalar.value.index(name)) == Pos(line, column)
    shown = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")[line - 1]
    assert shown[column - 1 :].startswith(name)
