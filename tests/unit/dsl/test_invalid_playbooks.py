"""Every refused playbook is refused for its reason, at its place, with a remedy, and for nothing else; so are warnings given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from tests.parts import over

FOLDER = Path(__file__).parents[3] / "playbooks" / "invalid"
FILES = sorted(FOLDER.glob("*.yaml"))
WARNED = sorted((FOLDER / "warnings").glob("*.yaml"))
STRICT = sorted((FOLDER / "strict").glob("*.yaml"))
EXPECT = re.compile(r"# expect: (\S+) (\d+):(\d+)")


def test_there_are_enough_of_them():
    assert len(FILES) >= 45


@over("path", FILES, ids=lambda path: path.stem)
def test_refused(path, kinds):
    text = path.read_text()
    expected = [(code, int(line), int(column)) for code, line, column in EXPECT.findall(text)]
    assert expected, "the file does not say what is expected of it"
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(text, source_name=path.name, kinds=kinds)
    errors = [d for d in refused.value.diagnostics if d.severity == "error"]
    assert [(d.code, d.line, d.column) for d in errors] == expected, str(refused.value)
    for error in errors:
        assert error.hint and len(error.hint) > 5, f"no remedy: {error}"
        assert f"{path.name}:{error.line}:{error.column}: {error.code}: " in str(refused.value)


@over("path", WARNED, ids=lambda path: path.stem)
def test_warned(path, kinds):
    text = path.read_text()
    expected = [(code, int(line), int(column)) for code, line, column in EXPECT.findall(text)]
    assert expected, "the file does not say what is expected of it"
    found = compile_playbook(text, source_name=path.name, kinds=kinds).diagnostics
    assert [(d.code, d.line, d.column) for d in found] == expected
    for warning in found:
        assert warning.severity == "warning"
        assert warning.hint and len(warning.hint) > 5, f"no remedy: {warning}"


@pytest.mark.parametrize("path", STRICT, ids=lambda path: path.stem)
def test_refused_by_the_newest_standard_only(path, kinds):
    text = path.read_text()
    expected = [(code, int(line), int(column)) for code, line, column in EXPECT.findall(text)]
    assert compile_playbook(text, kinds=kinds).diagnostics == ()
    try:
        found = compile_playbook(text, kinds=kinds, strict=True).diagnostics
    except InvalidPlaybookError as refused:
        found = refused.diagnostics
    assert [(d.code, d.line, d.column) for d in found] == expected
    for problem in found:
        assert problem.hint
        assert problem.code != "deprecated-spelling" or re.search(
            "noetl fmt --canonical|by hand", problem.hint
        )


def test_a_text_that_a_comma_cut_is_told_as_such(kinds):
    path = FOLDER / "cut-by-comma.yaml"
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(path.read_text(), kinds=kinds)
    assert all("between quotes" in problem.hint for problem in refused.value.diagnostics)


def test_a_set_that_is_meant_for_each_item_is_sent_to_the_tool(kinds):
    loop = "workflow: [{ step: start, loop: { in: [1], iterator: n }, tool: { kind: noop%s }%s }]\n"
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: items }\n"
    each = ", set: { ctx.seen: { append: '{{ iter.n }}' } }"
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(head + loop % ("", each), source_name="items.yaml", kinds=kinds)
    assert "the tool's own `set`" in str(refused.value)
    assert not compile_playbook(head + loop % (each, ""), source_name="items.yaml", kinds=kinds).diagnostics


@pytest.mark.parametrize("own", ["workload: { outcome: paid }", "workload: { args: paid }"])
def test_a_name_of_the_workload_is_no_older_spelling(own, kinds):
    name = "outcome" if "outcome" in own else "args"
    text = (
        f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: own }}\n{own}\n"
        f"workflow: [{{ step: start, tool: {{ kind: noop, input: {{ word: '{{{{ {name} }}}}' }} }} }}]\n"
    )
    assert compile_playbook(text, kinds=kinds, strict=True).diagnostics == ()
    with pytest.raises(InvalidPlaybookError, match="older spelling"):
        compile_playbook(text.replace(own, "workload: {}"), kinds=kinds, strict=True)
