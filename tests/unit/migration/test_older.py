"""Playbooks of an older dialect compile as they are, where every rule that they need keeps their meaning."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from noetl.adapters.memory.catalog import MemoryCatalog
from noetl.domain.text.version_text import join_version
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.dsl.nodes import Pos
from noetl.kinds.registry import default_registry
from noetl.migration import older
from noetl.migration.equality import same_program
from noetl.migration.migrate import migrate_text
from noetl.migration.older import compile_any, identity_of
from noetl.runtime.programs import Programs
from tests.parts import parted
from tests.unit.migration.test_rules import BEFORE, compiled

KINDS = default_registry()
OLD = """\
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: garden }
workload: { beds: 3 }
workflow:
  - step: start
    type: python
    libs: { m: math }
    with: { beds: "{{ workload.beds }}" }
    code: |
      # rounds up
      def main(beds):
          return {"plants": m.ceil(beds * 2.5)}
    next:
      - when: "{{ start.plants > 5 }}"
        then: [{ step: big }]
      - when: "{{ start.plants <= 5 }}"
        then: [{ step: small }]
  - step: big
    type: python
    code: 'result = "big"'
  - step: small
    type: python
    args: { given: "{{ workload.nothing }}" }
    code: 'result = given'
"""


def places(value: object):
    if isinstance(value, Pos):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from places(getattr(value, name))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from places(item)
    elif isinstance(value, dict):
        yield from places(tuple(value.values()))


def accepted(text: str):
    try:
        return compile_any(text, source_name="old.yaml", kinds=KINDS)
    except InvalidPlaybookError:
        return None


def test_an_older_text_compiles_to_what_its_migration_compiles_to() -> None:
    done, rewritten = compile_any(OLD, source_name="old.yaml", kinds=KINDS)

    migrated = compile_playbook(
        migrate_text(OLD, source_name="old.yaml", kinds=KINDS).text, source_name="old.yaml", kinds=KINDS
    )
    assert rewritten and same_program(done.program, migrated.program)
    assert done.program.hash != migrated.program.hash, "its positions are others, so it is another program"


def test_each_rule_warns_once_at_its_place_and_the_first_warning_has_the_remedy() -> None:
    found = compile_any(OLD, source_name="old.yaml", kinds=KINDS)[0].diagnostics
    rules = [(one.line, one.column, one.message.split(":")[0]) for one in found if one.code == older.OLDER]

    assert rules == [
        (1, 1, "api-version"),
        (7, 5, "tool-name"),
        (8, 5, "python-libs"),
        (15, 7, "next-conditions"),
    ]
    assert [one.severity for one in found] == ["warning"] * len(found)
    assert "noetl migrate --write" in (found[0].hint or "")
    assert sum("noetl migrate" in (one.hint or "") for one in found) == 1


def test_code_and_templates_keep_the_places_of_the_author() -> None:
    program = compile_any(OLD, source_name="old.yaml", kinds=KINDS)[0].program
    lines = OLD.splitlines()

    start, _, small = program.steps
    assert start.body is not None and small.body is not None
    task = start.body.tasks[0]
    code = str(msgspec.to_builtins(task.params)["value"]["code"]).splitlines()
    line = code.index("def main(beds):") + task.code_pos.line
    assert lines[line - 1] == "      def main(beds):", "an import is above it in what runs"
    (guard, _) = (arc.when for arc in start.arcs)
    assert guard is not None and lines[guard.pos.line - 1][guard.pos.column - 1 :].startswith(
        "start.plants > 5"
    )


FIRST = [next(some) for _, some in groupby(BEFORE, key=lambda path: path.parent)]


@pytest.mark.parametrize(
    "path",
    parted(BEFORE, FIRST, ids=[f"{path.parent.name}/{path.name.split('.')[0]}" for path in BEFORE]),
)
def test_every_place_of_an_accepted_playbook_is_in_the_text_of_its_author(path: Path) -> None:
    text = path.read_text()
    made = accepted(text)
    if made is None or not made[1]:
        assert (compiled(text) is None) or not (made and made[1])
        return
    lines = text.splitlines()
    for pos in [*places(made[0].program), *(Pos(one.line, one.column) for one in made[0].diagnostics)]:
        assert pos.line == 0 or 1 <= pos.line <= len(lines)
        assert pos.line == 0 or 1 <= pos.column <= len(lines[pos.line - 1]) + 1


UNCLEAR = {
    "two guards may be true": (
        "workload: { n: 1 }\nworkflow:\n  - step: start\n    next:\n      - when: '{{ workload.n > 0 }}'\n"
        "        then: [{ step: a }]\n      - when: '{{ workload.n > 1 }}'\n        then: [{ step: a }]\n  - step: a\n",
        (7, 5, "next-conditions"),
    ),
    "a value is SQL": (
        "workload: { q: select 1 }\nworkflow:\n  - step: start\n    tool:\n      kind: postgres\n"
        "      command: '{{ workload.q }}'\n",
        (9, 7, "sql-text"),
    ),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_a_place_that_needs_an_answer_is_refused_with_its_position(name: str) -> None:
    rest, (line, column, rule) = UNCLEAR[name]
    text = f"apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {{ name: unclear }}\n{rest}"
    assert migrate_text(text, source_name="old.yaml", kinds=KINDS).runs

    with pytest.raises(InvalidPlaybookError) as refused:
        compile_any(text, source_name="old.yaml", kinds=KINDS)
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.line, problem.column) == (older.ASKS, line, column)
    assert problem.message.startswith(f"{rule}: ") and "noetl migrate --write" in (problem.hint or "")


def test_what_no_rule_mends_is_refused_alone_at_its_place() -> None:
    text = OLD.replace("step: big }", "step: bigger }")
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_any(text, source_name="old.yaml", kinds=KINDS)
    (problem,) = refused.value.diagnostics
    (entry,) = (number for number, one in enumerate(text.splitlines()) if "bigger }" in one)
    assert (problem.code, problem.line, problem.hint) == ("unknown-step", entry, "did you mean 'big'?")


def test_what_only_a_file_beside_it_mends_is_refused_with_the_compilers_words() -> None:
    text = (
        "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: { name: script }\nworkflow:\n"
        "  - { step: start, tool: { kind: python, script: { path: a.py, source: { type: file } } } }\n"
    )
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_any(text, source_name="old.yaml", kinds=KINDS)
    with pytest.raises(InvalidPlaybookError) as plain:
        compile_playbook(text, source_name="old.yaml", kinds=KINDS)
    assert refused.value.diagnostics == plain.value.diagnostics


def test_a_stored_version_keeps_its_text_and_its_program_when_the_rules_change(monkeypatch) -> None:
    catalog = MemoryCatalog()
    first = Programs(catalog, KINDS).register(OLD, source_name="old.yaml", path="garden")
    program = Programs(catalog, KINDS)(first.program)
    assert first.content == OLD and first.rewritten and program.hash == first.program

    def other_rules(text: str, **rest: object):
        return migrate_text(text.replace("2.5", "7.5"), **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(older, "migrate_text", other_rules)
    again = Programs(catalog, KINDS)
    assert again(first.program) == program, "what ran is made of what is stored"
    second = again.register(OLD, source_name="old.yaml", path="garden")
    assert (second.version, second.content) == (2, OLD) and second.program != first.program


def test_two_texts_of_one_migration_are_two_programs() -> None:
    one, rewritten = compile_any(OLD, source_name="old.yaml", kinds=KINDS)
    spaced = OLD.replace("workflow:\n", "\nworkflow:\n")
    other, _ = compile_any(spaced, source_name="old.yaml", kinds=KINDS)
    assert same_program(one.program, other.program) and one.program.hash != other.program.hash
    assert identity_of(OLD, rewritten) != identity_of(spaced, rewritten)


def test_settings_of_all_steps_are_kept():
    settings = "executor: { spec: { budget: { calls: 5 }, defaults: { timeout: 30 } } }\n"
    done, rewritten = compile_any(
        OLD.replace("workflow:\n", f"{settings}workflow:\n"), source_name="p.yaml", kinds=KINDS
    )
    assert rewritten and done.program.budget is not None
    tasks = [task for step in done.program.steps if step.body is not None for task in step.body.tasks]
    assert len(tasks) == 3 and all(task.timeout is not None for task in tasks)


def test_an_older_playbook_has_modules_beside_it() -> None:
    text = join_version(
        OLD.replace("kind: Playbook\n", "kind: Playbook\nmodules: [beds.py]\n"), {"beds.py": "ROWS = 2\n"}, {}
    )
    done, rewritten = compile_any(text, source_name="old.yaml", kinds=KINDS)
    assert list(done.program.modules.values()) == ["ROWS = 2\n"]
    again, _ = compile_any(text, source_name="old.yaml", kinds=KINDS, rewritten=rewritten)
    assert again.program == done.program
    assert "older-dialect" in {one.code for one in done.diagnostics}
    assert done.program.steps[0].pos.line == 7
