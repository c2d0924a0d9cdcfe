"""`on` of an arc: the guard that the compiler makes of it, what it refuses, and how a picture shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.domain.outcomes.step_ends import ERROR_KINDS, STEP_CODES, condition, shown
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.dsl.editors.graph import graph_of
from noetl.formatting.format import format_text
from noetl.kinds.registry import default_registry
from tests.parts import over

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "layers" / "core" / "python" / "noetl"
CODE = re.compile(r'code="(\w+)"')
KIND = re.compile(r'kind="(\w+)"')
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| ", re.MULTILINE)
WORD = re.compile(r"`(\w+)`")
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: t }}
workload: {{ zero: 0 }}
workflow:
  - step: start
    {step}
    next: {{ arcs: [{{ step: end, {arc} }}] }}
  - {{ step: end, tool: {{ kind: noop }} }}
"""
WAIT = "tool: { kind: wait, callback: true, timeout: 1h }"
HTTP = 'tool: { kind: http, url: "http://a.test/" }'
CODE_STEP = 'tool: { kind: python, code: "result = 1" }'


def arc_of(arc, step=WAIT):
    program = compile_playbook(PLAYBOOK.format(step=step, arc=arc), kinds=default_registry()).program
    return program, program.step("start").arcs[0]


@over(
    ("arc", "guard", "boundaries", "label"),
    [
        ("on: done", "(event.name == 'step.done')", ("done",), "on done"),
        ("on: [failed]", "(event.name == 'step.failed')", ("failed",), "on failed"),
        (
            "on: callback_timeout",
            "(event.name == 'step.failed' and output.error.code == 'callback_timeout')",
            ("failed",),
            "on callback_timeout",
        ),
        (
            "on: [timeout, done]",
            "(event.name == 'step.done' or event.name == 'step.failed'"
            " and (output.error.code == 'timeout' or output.error.kind == 'timeout'))",
            ("done", "failed"),
            "on done, timeout",
        ),
        (
            'on: done, when: "{{ start.a }}"',
            "(start.a) if (event.name == 'step.done') else false",
            ("done",),
            "on done, when start.a",
        ),
        (
            "on: [done, failed], when: true",
            "(event.name in ['step.done', 'step.failed'])",
            ("done", "failed"),
            "on done, failed",
        ),
    ],
)
def test_the_compiler_makes_a_guard(arc, guard, boundaries, label):
    program, found = arc_of(arc)
    assert (found.when.source, found.on, found.sync) == (guard, boundaries, "done" in boundaries)
    assert graph_of(program).edges[0].label == label


def test_a_guard_of_an_author_is_shown_as_it_is():
    written = [
        "event.name == 'step.done'",
        "(event.name == 'other')",
        "(x) if (event.name == 'step.done') else true",
        "a",
    ]
    assert [shown(source) for source in written] == written


@over("words", [["failed", "x"], ["x", "y"], ["timeout", "x"], ["done", "loop.done", "auth"]])
def test_words_are_found_again_in_their_guard(words):
    assert shown(condition(words)) == f"on {', '.join(words)}"


def test_an_error_in_when_keeps_its_place():
    _, found = arc_of('on: done, when: "{{ 1 / workload.zero }}"')
    column = PLAYBOOK.format(step=WAIT, arc='on: done, when: "{{ 1').splitlines()[7].index("1 }")
    assert (found.when.pos.line, found.when.pos.column) == (8, column)


@over(
    ("arc", "step", "code", "hint"),
    [
        ("on: callback_timout", WAIT, "unknown-end", "callback_timeout"),
        ("on: http_404", WAIT, "unknown-end", ""),
        ("on: faild", CODE_STEP, "unknown-end", "failed"),
        ("on: step.done", CODE_STEP, "unknown-end", "done"),
        ("on: loop.done", CODE_STEP, "unknown-end", "done"),
        ("on: DONE", CODE_STEP, "unknown-end", "done"),
        ("on: success", CODE_STEP, "unknown-end", "done"),
        ("on: error", CODE_STEP, "unknown-end", "failed"),
        ("on: http_5xx", HTTP, "unknown-end", "server_error"),
        ("on: step.enter", CODE_STEP, "unknown-end", "case"),
        ("on: []", WAIT, "wrong-type", "1 to 20"),
        ("on: 404", WAIT, "wrong-type", "http_404"),
        ("on: 08006", CODE_STEP, "wrong-type", "in quotes"),
        ("on: 1e5", CODE_STEP, "wrong-type", "in quotes"),
        ("on: { done: true }", WAIT, "wrong-type", "done, failed"),
        ('on: done, when: "{% if true %}1{% endif %}"', WAIT, "guard-not-expression", "braces"),
    ],
)
def test_refused(arc, step, code, hint):
    with pytest.raises(InvalidPlaybookError) as refused:
        arc_of(arc, step)
    problem = refused.value.diagnostics[0]
    assert problem.code == code
    assert hint in (problem.hint or "")
    assert problem.line == 8


@over(
    "word",
    ["ValueError", "timeout", "undefined", "40P01", "failed_by_rule", "gone", "tls_failed", "aws_failed"],
)
def test_a_kind_that_does_not_list_its_codes_may_end_with_any(word):
    assert f"'{word}'" in arc_of(f'on: "{word}"', CODE_STEP)[1].when.source


def test_a_result_that_cannot_be_stored_ends_a_step_of_any_kind():
    assert "'result_store_failed'" in arc_of("on: result_store_failed", HTTP)[1].when.source


@pytest.mark.parametrize(
    ("arc", "code"),
    [
        ('on: done, when: "{{ start.status_code == 404 }}"', "failed-status"),
        ('on: [done, http_404], when: "{{ start.status_code == 404 }}"', None),
        ('on: done, when: "{{ 1 == 1 }}"', "no-effect"),
        ('on: done, when: "{{ 1 == 2 }}"', "never-fires"),
    ],
)
def test_what_is_said_about_when_alone_is_said_beside_on(arc, code):
    found = compile_playbook(PLAYBOOK.format(step=HTTP, arc=arc), kinds=default_registry()).diagnostics
    assert [(one.code, one.line) for one in found] == ([(code, 8)] if code else [])


@over("never", ["false", "0", '"no"', '""'])
def test_an_arc_that_is_never_taken_takes_nothing_from_the_next(never):
    text = PLAYBOOK.format(step=WAIT, arc=f"on: done, when: {never} }}, {{ step: end")
    found = compile_playbook(text, kinds=default_registry()).diagnostics
    assert [one.message for one in found] == ["this can never be reached: its guard is always false"]


def test_two_arcs_on_done_are_taken_together():
    arcs = "on: done }, { step: other, on: done"
    text = PLAYBOOK.format(step=WAIT, arc=arcs).replace("arcs:", "spec: { mode: inclusive }, arcs:")
    text = text.replace("kind: noop } }", "kind: noop }, set: { ctx.x: 1 } }")
    text += "  - { step: other, tool: { kind: noop }, set: { ctx.x: 2 } }\n"
    found = compile_playbook(text, kinds=default_registry()).diagnostics
    assert [(one.code, one.line) for one in found] == [("concurrent-write", 10)]


def test_the_layout_puts_on_behind_the_step():
    text = PLAYBOOK.format(step=WAIT, arc='when: "{{ start.a }}", on: [done, failed]')
    assert (
        '{ step: end, on: [done, failed], when: "{{ start.a }}" }'
        in format_text(text, source_name="t.yaml").text
    )


def test_every_code_that_the_page_lists_for_any_step_is_known():
    page = (ROOT / "docs" / "dsl" / "failures.md").read_text().partition("\n## Errors\n")[2]
    kinds, codes = page.split("| code | meaning |")
    assert {word for row in ROW.findall(kinds) for word in WORD.findall(row)} <= ERROR_KINDS
    listed = {word for row in ROW.findall(codes) for word in WORD.findall(row)}
    assert listed - {"playbook_not_found"} <= STEP_CODES


def test_codes_and_kinds_of_errors_in_the_source_are_known():
    """What runs inside of every task, and the kinds that list their codes."""
    every = [
        *(SOURCE / "pipeline").glob("*.py"),
        *(SOURCE / "templating").glob("*.py"),
        *(SOURCE / "engine").glob("*.py"),
    ]
    for file in every:
        assert set(CODE.findall(file.read_text())) <= STEP_CODES | {"callback_timeout"}, file.name
    registry = default_registry()
    own = {"http": [*(SOURCE / "kinds" / "http").glob("*.py")]}
    own |= {name: [SOURCE / "kinds" / f"{name}.py"] for name in ("wait", "noop")}
    for name, files in own.items():
        known = STEP_CODES | set(registry.spec(name).codes or ())
        for file in files:
            assert set(CODE.findall(file.read_text())) <= known, file.name
    for file in SOURCE.rglob("*.py"):
        if "TaskError(" in (text := file.read_text()):
            assert {word for word in KIND.findall(text) if "_" in word} - ERROR_KINDS == set(), file.name
