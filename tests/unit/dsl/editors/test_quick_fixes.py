"""The change that a diagnostic suggests: it is there where a word is, and makes the problem go away."""

from __future__ import annotations

from pathlib import Path

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
from noetl.dsl.editors.quick_fixes import quick_fix
from noetl.kinds.registry import default_registry
from tests.parts import over

PLAYBOOKS = Path(__file__).parents[4] / "playbooks"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a }\n"


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    try:
        return compile_playbook(text, kinds=default_registry()).diagnostics
    except InvalidPlaybookError as refused:
        return refused.diagnostics


def fixed(text: str, found: Diagnostic) -> str:
    lines = text.split("\n")
    edit = quick_fix(lines, found)
    assert edit is not None, found
    line = lines[edit.line - 1]
    lines[edit.line - 1] = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
    return "\n".join(lines)


def test_a_word_that_is_suggested_is_written_and_ends_the_problem():
    stayed, tried = [], 0
    for file in sorted((PLAYBOOKS / "invalid").rglob("*.yaml")):
        text = file.read_text()
        for found in diagnostics(text):
            if not (found.hint and found.hint.startswith("did you mean")):
                continue
            tried += 1
            after = diagnostics(fixed(text, found))
            if (found.code, found.message, found.line) in [
                (one.code, one.message, one.line) for one in after
            ]:
                stayed.append(f"{file.stem}-{found.line}-{found.code}")
    assert stayed == []
    assert tried >= 29


@over(
    ("wrong", "right"),
    [
        ("when: workload.x > 3", 'when: "{{ workload.x > 3 }}"'),
        ("when: 'workload.x > 3'", 'when: "{{ workload.x > 3 }}"'),
        ('when: "{{ workload.y }}"', 'when: "{{ workload.yy }}"'),
        ('when: "{{ ctx.totl > 1 }}"', 'when: "{{ ctx.total > 1 }}"'),
        ("stp: b", "step: b"),
    ],
)
def test_the_change_touches_only_the_word(wrong, right):
    arc = wrong if wrong.startswith("stp") else f"step: b, {wrong}"
    text = (
        f"{HEAD}workload: {{ x: 1, yy: 2 }}\nworkflow:\n  - step: start\n    set: {{ ctx.total: 1 }}\n"
        f"    next: {{ arcs: [{{ {arc} }}] }}\n  - step: b\n"
    )
    found = next(one for one in diagnostics(text) if one.line == 8 and one.code != "missing-key")
    assert fixed(text, found) == text.replace(wrong, right)


def test_the_version_of_the_language_is_written():
    text = HEAD.replace("/v2", "/v1") + "workflow:\n  - step: start\n"
    (found,) = [one for one in diagnostics(text) if one.code == "api-version"]
    assert fixed(text, found) == text.replace("/v1", "/v2")


@over(
    "found",
    [
        Diagnostic("x", "'a' is odd", 9, 1, hint="did you mean 'b'?"),
        Diagnostic("x", "'a' is odd", 1, 99, hint="did you mean 'b'?"),
        Diagnostic("x", "'zz' is odd", 1, 1, hint="did you mean 'b'?"),
        Diagnostic("x", "nothing is quoted", 1, 1, hint="did you mean 'b'?"),
        Diagnostic("x", "'a' is odd", 1, 1, hint="rename it"),
        Diagnostic("x", "'a' is odd", 1, 1),
    ],
)
def test_there_is_no_change_where_none_is_known(found):
    assert quick_fix(["a: a"], found) is None
