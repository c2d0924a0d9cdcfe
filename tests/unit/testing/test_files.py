"""Test files: what is wrong with one is told with its place; the schema agrees with the models; which files a path means."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from noetl.domain.errors import NotFoundError
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.kinds.registry import Registry
from noetl.testing.discover import find_test_files
from noetl.testing.document import test_schema as schema_of_tests
from noetl.testing.testfile import read_test_file

EXAMPLES = Path(__file__).parents[3] / "playbooks" / "examples"
REGISTRY = Registry(discover=False)
PLAYBOOK = """
workflow:
  - step: start
    tool:
      - fetch: { kind: http, url: "http://a.test/" }
      - shape: { kind: python, code: "result = 1" }
    next: { arcs: [{ step: store }] }
  - { step: store, tool: { kind: postgres, auth: db, query: SELECT 1 }, next: { arcs: [{ step: end }] } }
  - { step: end }
"""
WRONG = {
    "": (1, 1, "yaml-empty", "start with cases"),
    "- name: a": (1, 1, "wrong-type", "start with cases"),
    "cases: []": (1, 8, "wrong-type", "at least one"),
    "case: [{ name: a }]": (1, 1, "unknown-key", "did you mean 'cases'?"),
    "cases: [{ nam: a }]": (1, 11, "unknown-key", "did you mean 'name'?"),
    "cases: [{ name: a, expect: { reslt: 1 } }]": (1, 30, "unknown-key", "did you mean 'result'?"),
    "cases: [{ name: a, expect: { status: done } }]": (1, 38, "wrong-value", "completed"),
    "cases: [{ name: a, expect: { error: { knd: x } } }]": (1, 39, "unknown-key", "did you mean 'kind'?"),
    "cases: [{ name: a, expect: { path: [3] } }]": (1, 37, "wrong-type", "step's name"),
    "cases: [{ name: a, expect: { path: [sart] } }]": (1, 37, "unknown-step", "did you mean 'start'?"),
    "cases: [{ name: a, expect: { path: [[start, stor]] } }]": (
        1,
        37,
        "unknown-step",
        "did you mean 'store'?",
    ),
    "cases: [{ name: a, expect: { never: [x] } }]": (1, 38, "unknown-step", "there are: end, start, store"),
    "cases: [{ name: a, expect: { runs: { x: 1 } } }]": (1, 38, "unknown-step", "there are"),
    "cases: [{ name: a, expect: { calls: { start/fetsh: 1 } } }]": (1, 39, "unknown-step", "'start/fetch'"),
    "cases: [{ name: a, expect: { calls: { start: many } } }]": (1, 46, "wrong-type", "write a number"),
    "cases: [{ name: a, expect: { calls: { end: 1 } } }]": (1, 39, "no-call", "`runs`"),
    "cases: [{ name: a, expect: { elapsed: 1 hour } }]": (1, 39, "wrong-type", "write 30s"),
    "cases: [{ name: a, happenings: [{ at: -1, cancel: no }] }]": (1, 39, "wrong-type", "write 30s"),
    "cases: [{ name: a, tools: { fetsh: { body: 1 } } }]": (1, 29, "unknown-step", "did you mean 'fetch'?"),
    "cases: [{ name: a, tools: { 'fetch[x]': { body: 1 } } }]": (
        1,
        29,
        "unknown-step",
        "did you mean 'fetch'?",
    ),
    "cases: [{ name: a, tools: { fetch: { bdy: 1 } } }]": (1, 38, "unknown-key", "did you mean 'body'?"),
    "cases: [{ name: a, tools: { fetch: { body: 1, rows: [] } } }]": (1, 36, "reply-form", "status/body"),
    "cases: [{ name: a, tools: { fetch: { delay: 1 } } }]": (1, 36, "reply-form", "write body"),
    "cases: [{ name: a, tools: { fetch: [] } }]": (1, 36, "wrong-type", "at least one"),
    "cases: [{ name: a, tools: { fetch: { status: 99 } } }]": (1, 46, "wrong-type", "see"),
    "cases: [{ name: a, tools: { fetch: { error: { knd: x } } } }]": (1, 47, "unknown-key", "'kind'"),
    "cases: [{ name: a, tools: { shape: { body: 1 } } }]": (1, 29, "reply-form", "write result"),
    "cases: [{ name: a, tools: { store: { body: 1 } } }]": (1, 29, "reply-form", "write result"),
    "cases: [{ name: a, tools: { fetch: [{ rows: [] }] } }]": (1, 29, "reply-form", "write result"),
    "cases: [{ name: a, tools: { fetch: [{ when: {}, body: 1 }, { body: 2 }] } }]": (
        1,
        60,
        "reply-form",
        "default",
    ),
    "cases: [{ name: a, tools: { fetch: [{ default: { body: 1 }, body: 2 }] } }]": (
        1,
        37,
        "reply-form",
        "default",
    ),
    "cases: [{ name: a, tools: { fetch: [{ replies: [{ body: 1 }] }] } }]": (1, 37, "reply-form", "when"),
    "cases: [{ name: a, now: tomorrow }]": (1, 25, "wrong-value", "epoch seconds"),
    "cases: [{ name: a, now: -1 }]": (1, 25, "wrong-value", "epoch seconds"),
    "cases: [{ name: a, happenings: [{ cancel: x }] }]": (1, 33, "happening", "write at"),
    "cases: [{ name: a, happenings: [{ at: 1 }] }]": (1, 33, "happening", "write patch"),
    "cases: [{ name: a, happenings: [{ when: soon, cancel: x }] }]": (1, 41, "wrong-value", "when: idle"),
    "cases: [{ name: a, happenings: [{ at: 1, token: { step: sart } }] }]": (
        1,
        57,
        "unknown-step",
        "'start'",
    ),
    "cases: [{ name: a }, { name: a }]": (1, 30, "duplicate-case", ""),
    "{ playbook: gone.yaml, cases: [{ name: a }] }": (1, 13, "no-playbook", "relative to this file"),
    "{ playbooks: [gone.yaml], cases: [{ name: a }] }": (1, 15, "no-playbook", "relative to this file"),
    "{ defaults: { tools: { x: { body: 1 } } }, cases: [{ name: a }] }": (1, 24, "unknown-step", "there are"),
    "cases: [{ name: {{ a }} }]": (1, 17, "yaml-unquoted-template", "quote"),
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:70])
def test_what_is_wrong_is_told_with_its_place(put, text):
    path = put(PLAYBOOK, "x")
    path.write_text(text)
    line, column, code, hint = WRONG[text]
    with pytest.raises(InvalidPlaybookError) as refused:
        read_test_file(path, REGISTRY)
    told = {
        (one.line, one.column, one.code): f"{one.message} {one.hint}" for one in refused.value.diagnostics
    }
    assert (line, column, code) in told, told
    assert hint in told[line, column, code]
    assert refused.value.source_name == str(path)


def test_every_problem_is_told_at_once(put):
    path = put(
        PLAYBOOK, "cases:\n  - { nam: a }\n  - { name: b, expct: {} }\n  - { name: c, order: backward }\n"
    )
    with pytest.raises(InvalidPlaybookError) as refused:
        read_test_file(path, REGISTRY)
    assert [found.line for found in refused.value.diagnostics] == [2, 2, 3, 4]


def test_a_test_file_without_its_playbook(tmp_path):
    path = tmp_path / "lost.test.yaml"
    path.write_text("cases: [{ name: a }]\n")
    with pytest.raises(InvalidPlaybookError, match=r"there is no playbook lost.yaml"):
        read_test_file(path, REGISTRY)


def test_the_playbook_itself_may_be_invalid(put):
    path = put("workflow: [{ step: start, tol: 1 }]\n", "cases: [{ name: a }]")
    with pytest.raises(InvalidPlaybookError) as refused:
        read_test_file(path, REGISTRY)
    assert refused.value.source_name.endswith("play.yaml")


def test_defaults_lie_under_every_case(put):
    path = put(
        PLAYBOOK,
        """
defaults:
  payload: { a: { x: 1 }, b: 1 }
  tools: { fetch: { body: 1 }, store: { rows: [] } }
  happenings: [{ when: idle, cancel: x }]
  credentials: { db: { data: {} } }
  expect: { status: failed, elapsed: 1 }
cases:
  - name: as they are
  - name: changed
    payload: { a: { y: 2 } }
    tools: { fetch: { body: 2 } }
    happenings: []
    expect: { status: cancelled }
""",
    )
    first, second = read_test_file(path, REGISTRY).cases
    assert (first.line, second.line) == (9, 10)
    assert first.payload == {"a": {"x": 1}, "b": 1}
    assert first.own == frozenset()
    assert second.payload == {"a": {"x": 1, "y": 2}, "b": 1}
    assert second.tools == {"fetch": {"body": 2}, "store": {"rows": []}}
    assert second.own == {"fetch"}
    assert list(second.happenings) == []
    assert second.expect == {"status": "cancelled", "elapsed": 1, "calls": {}}


def _steps(text: str) -> bool:
    """Whether it is the playbook, not the test file alone, that makes it wrong."""
    code = WRONG[text][2]
    return (
        code in ("unknown-step", "no-playbook", "duplicate-case", "reply-form", "happening", "no-call")
        or not text
    )


def test_the_schema_refuses_what_the_models_refuse():
    schema = schema_of_tests()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for text in WRONG:
        if not _steps(text) and "{{" not in text and "now:" not in text:
            assert not validator.is_valid(yaml.safe_load(text)), text
    good = "cases: [{ name: a, tools: { f: [{ when: { a: 1 }, replies: [{ body: 1 }] }, { default: { status: 500, delay: 1 } }] } }]"
    validator.validate(yaml.safe_load(good))


def test_the_tests_of_the_examples_fit_the_schema():
    from yamlcore import CCoreLoader

    validator = jsonschema.Draft202012Validator(schema_of_tests())
    files = find_test_files([str(EXAMPLES)])
    assert len(files) >= 3
    for file in files:
        validator.validate(yaml.load(file.read_text(), CCoreLoader))


def test_paths_mean_test_files(tmp_path, put):
    beside = put(PLAYBOOK, "cases: [{ name: a }]")
    inside = tmp_path / "tests" / "play.test.yml"
    inside.parent.mkdir()
    inside.write_text("cases: [{ name: b }]\n")
    hidden = tmp_path / ".git" / "x.test.yaml"
    hidden.parent.mkdir()
    hidden.write_text("cases: [{ name: c }]\n")

    assert find_test_files([str(tmp_path)]) == [beside, inside]
    assert find_test_files([str(tmp_path / "play.yaml")]) == [beside, inside]
    assert find_test_files([str(inside), str(tmp_path)]) == [inside, beside]
    assert read_test_file(inside, REGISTRY).playbook == tmp_path / "play.yaml"


@pytest.mark.parametrize("target", ["gone", "empty", "alone.yaml"])
def test_a_path_without_tests_is_an_error(tmp_path, put, target):
    (tmp_path / "empty").mkdir()
    put(PLAYBOOK, name="alone")
    with pytest.raises(NotFoundError):
        find_test_files([str(tmp_path / target)])
