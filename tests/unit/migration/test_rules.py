"""Rules of ``noetl migrate``: each is held against playbooks before and after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.cli.commands.rewriting.migrate import files_of
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.kinds.registry import default_registry
from noetl.migration.equality import same_program
from noetl.migration.migrate import Migrated, migrate_text
from noetl.migration.older import compile_any
from noetl.migration.rules import RULES
from tests.parts import parted, sampled

CASES = Path(__file__).parent / "cases"
BEFORE = sorted(CASES.glob("*/*.before.yaml"))
RULE = {rule.name: rule for rule in RULES}


def migrated(path: Path, text: str | None = None) -> Migrated:
    return migrate_text(
        path.read_text() if text is None else text,
        source_name=path.name,
        kinds=default_registry(),
        read_file=files_of(path),
        canonical=path.parent.name == "canonical-form",
    )


def compiled(text: str):
    try:
        return compile_playbook(text, kinds=default_registry()).program
    except InvalidPlaybookError:
        return None


GATE = sampled(f"{path.parent.name}/{path.name}" for path in BEFORE)
PARTED = parted(
    BEFORE,
    [path for path in BEFORE if f"{path.parent.name}/{path.name}" in GATE],
    ids=[f"{path.parent.name}/{path.name.split('.')[0]}" for path in BEFORE],
)


@pytest.mark.parametrize("path", PARTED)
def test_a_playbook_before_and_after(path: Path) -> None:
    made = migrated(path)
    assert made.text == path.with_name(path.name.replace(".before.", ".after.")).read_text()
    assert made.runs and path.parent.name in {change.rule for change in made.changes}
    original, program = compiled(made.original), compiled(made.text)
    assert program is not None
    repaired = RULE[path.parent.name].repairs
    assert made.proved is (original is not None and not repaired)
    if original is not None and not repaired:
        assert same_program(original, program)
    lines = made.original.splitlines()
    comments = [line.split("# ", 1)[1] for line in lines if "# " in line]
    assert all(f"# {comment}" in made.text for comment in comments), "comments stay"
    for change in made.changes:
        assert 1 <= change.line <= len(lines)
        assert change.before != change.after


@pytest.mark.parametrize("path", PARTED)
def test_applied_twice_it_changes_nothing_more(path: Path) -> None:
    after = path.with_name(path.name.replace(".before.", ".after.")).read_text()
    assert migrated(path, after).text == after


def test_every_rule_has_cases_and_every_case_a_rule() -> None:
    assert {path.parent.name for path in BEFORE} == set(RULE)
    assert len(RULE) == len(RULES)
    assert all(rule.summary.endswith(".") for rule in RULES)
    assert {path.name.replace(".before.", ".after.") for path in BEFORE} == {
        path.name for path in CASES.glob("*/*.after.yaml")
    }


HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: refused }\nworkflow:\n"
_WAY = "      - { when: \"{{ event.name == 'step.exit' }}\", then: { next: [{ step: %s, args: { n: '{{ n }}' } }] } }\n"
_ITEMS = "  - step: start\n    loop: { in: [1], iterator: n }\n    tool: { kind: noop }\n    case:\n%s%s"
_STEP = "  - { step: %s, tool: { kind: noop }%s }\n"
_CODE = '  - { step: %s, tool: { kind: python, code: "result = %s" } }\n'
REFUSED = {
    "script elsewhere": (
        "  - step: start\n    tool:\n      kind: postgres\n      script: { uri: 's3://b/a.sql', source: { type: s3 } }\n",
        ("script-file", 8, 7, "outside of the playbook"),
    ),
    "script missing": (
        "  - step: start\n    tool:\n      kind: python\n      script: { path: nowhere.py }\n",
        ("script-file", 8, 7, "cannot be read"),
    ),
    "script above": (
        "  - step: start\n    tool:\n      kind: python\n      script: { path: ../../../../pyproject.toml }\n",
        ("script-file", 8, 7, "cannot be read"),
    ),
    "branches in a shell command": (
        "  - step: start\n    tool:\n      kind: shell\n      cmds: ['{% if execution_id %}ls{% endif %}']\n",
        ("shell-commands", 8, 7, "by a template"),
    ),
    "a value in a literal document": (
        "  - step: start\n    tool:\n      kind: shell\n      cmds:\n        - |\n          cat <<'END'\n"
        "          {{ execution_id }}\n          END\n",
        ("shell-commands", 8, 7, "no variable is read"),
    ),
    "a value in a document whose end has a backslash": (
        "  - step: start\n    tool:\n      kind: shell\n      cmds:\n        - |\n          cat <<\\END\n"
        "          {{ execution_id }}\n          END\n",
        ("shell-commands", 8, 7, "no variable is read"),
    ),
    "a cursor that is broken off": (
        "  - step: start\n    loop: { cursor: { kind: postgres, claim: SELECT 1 }, iterator: row }\n    tool:\n"
        "      - a: { kind: noop, spec: { policy: { rules: [{ else: { then: { do: break } } }] } } }\n"
        "    next: { arcs: [] }\n",
        ("cursor-loop", 6, 5, "ends one iteration"),
    ),
    "libs that name nothing": (
        "  - step: start\n    tool:\n      kind: python\n      libs: { 'a b': json }\n      code: result = 1\n",
        ("python-libs", 8, 7, "what to import"),
    ),
    "pass by a template": (
        "  - step: start\n    pass: '{{ vars.skip }}'\n    tool: { kind: noop }\n",
        ("step-pass", 6, 5, "releases differ"),
    ),
    "upsert into a template": (
        "  - step: start\n    tool: { kind: noop }\n    sink:\n"
        "      tool: { kind: postgres, table: '{{ t }}', mode: upsert, key: a }\n      args: { a: 1 }\n",
        ("sink-upsert", 8, 49, "cannot be written as SQL"),
    ),
    "a loop that saves beside its case": (
        "  - step: start\n    loop: { in: [1], iterator: n }\n    tool: { kind: noop }\n    case: []\n"
        "    save: { storage: postgres, table: t, data: { n: '{{ count }}' } }\n",
        ("loop-save", 9, 5, "beside `case`"),
    ),
    "a loop that saves what belongs to a call": (
        "  - step: start\n    tool: { kind: iterator, collection: [1], element: n, task: { kind: noop } }\n"
        "    save: { storage: postgres, table: t, data: { n: '{{ this }}' } }\n",
        ("loop-save", 7, 5, "belongs to one call"),
    ),
    **{
        f"{why} of a loop": (_ITEMS % (case, rest), ("item-targets", 9, 7, words))
        for why, case, rest, words in (
            ("two ways", _WAY % "a" + _WAY % "b", _STEP % ("a", "") + _STEP % ("b", ""), "several steps"),
            ("a way back", _WAY % "a", _STEP % ("a", ", next: start"), "leads back"),
            (
                "a loop after an item",
                _WAY % "a",
                _STEP % ("a", ", loop: { in: [1], iterator: m }"),
                "has a loop",
            ),
            (
                "a way of another step",
                _WAY % "a",
                _STEP % ("a", "") + _STEP % ("b", ", next: a"),
                "goes there once",
            ),
            ("a way nowhere", _WAY % "gone", "", "no step"),
            (
                "a payload out",
                _WAY % "a",
                _STEP % ("a", ", next: [{ step: b, args: { n: '{{ args.n }}' } }]") + _STEP % ("b", ""),
                "reads what belongs to one item",
            ),
            (
                "a result",
                _WAY % "a",
                _STEP % ("a", ", next: b") + _STEP % ("b", ", args: { a: '{{ a }}' }"),
                "would be a list",
            ),
            (
                "a name of its own",
                _WAY % "a",
                _STEP
                % (
                    "a",
                    ", case: [{ when: \"{{ event.name == 'step.exit' and a.n }}\", then: { set: { x: 1 } } }]",
                ),
                "by its name",
            ),
            (
                "an answer of its own",
                _WAY % "a"
                + "      - { when: \"{{ event.name == 'call.done' }}\", then: { set: { x: 1 } } }\n",
                _STEP % ("a", ""),
                "one event for both",
            ),
        )
    },
    **{
        f"a value that begins before the loop and {why}": (
            "  - step: start\n    loop: { in: [1], iterator: n }\n    tool: { kind: noop }\n    case:\n"
            "      - when: \"{{ event.name == 'call.done' }}\"\n        then:\n"
            f"          collect: {{ from: result, into: all, mode: {mode} }}\n"
            "          next: [{ step: a, args: { n: '{{ n }}', sofar: '{{ all }}' } }]\n"
            "      - when: \"{{ event.name == 'step.enter' }}\"\n"
            f"        then: {{ set: {{ ctx: {{ all: {first} }} }} }}\n" + after,
            ("item-targets", 9, 7, "'all' begins before the loop"),
        )
        for why, mode, first, after in (
            (
                "is read behind it",
                "append",
                "[]",
                _STEP % ("a", ", next: b") + _STEP % ("b", ", args: { n: '{{ ctx.all }}' }"),
            ),
            ("is read by code", "append", "[]", _STEP % ("a", ", next: b") + _CODE % ("b", "context['all']")),
            ("begins with a template", "append", "'{{ workload.all }}'", _STEP % ("a", "")),
            ("begins with null in it", "append", "[null]", _STEP % ("a", "")),
            ("begins with an element", "append", "[0]", _STEP % ("a", "")),
            (
                "is read in a template of all",
                "append",
                "[]",
                _STEP % ("a", ", next: b") + _STEP % ("b", ", args: { n: '{{ ctx }}' }"),
            ),
            ("is a mapping", "merge", "[]", _STEP % ("a", "")),
        )
    },
    "a value that begins before the loop and is read between two places that add to it": (
        "  - step: start\n    loop: { in: [1], iterator: n }\n    tool: { kind: noop }\n    case:\n"
        "      - when: \"{{ event.name == 'call.done' }}\"\n        then:\n"
        "          collect: { from: result, into: all, mode: append }\n          result: { from: all }\n"
        "          set: { ctx: { n: 1 } }\n"
        "          next: [{ step: a, args: { n: '{{ n }}', all: '{{ all }}' } }]\n"
        "      - { when: \"{{ event.name == 'step.enter' }}\", then: { set: { ctx.all: [] } } }\n"
        + _STEP
        % ("a", ""),
        ("item-targets", 9, 7, "'all' begins before the loop"),
    ),
    "a step after an item that acts before its call": (
        _ITEMS
        % (
            _WAY % "a",
            _STEP
            % ("a", ", case: [{ when: \"{{ event.name == 'step.enter' }}\", then: { set: { x: 1 } } }]"),
        ),
        ("item-targets", 9, 7, "once for all items"),
    ),
    "a loop with a task that reads its caller": (
        _ITEMS % (_WAY % "a", "  - { step: a, tool: { kind: workbook, task: t } }\n")
        + "workbook: [{ name: t, tool: { kind: noop, args: { all: '{{ n }}' } } }]\n",
        ("item-targets", 9, 7, "a task of the workbook"),
    ),
    "a loop without a tool that is read": (
        "  - step: start\n    loop: { in: [1], iterator: n }\n    case:\n"
        + _WAY % "a"
        + _STEP % ("a", ", args: { all: '{{ start }}' }"),
        ("item-targets", 8, 7, "is read by another step"),
    ),
    "transfer by statement": (
        "  - step: start\n    tool:\n      kind: transfer\n      source: { kind: postgres, query: SELECT 1 }\n"
        "      target: { kind: postgres, query: INSERT }\n",
        ("transfer-ends", 9, 33, "not by a statement"),
    ),
    "transfer from http that replaces": (
        "  - step: start\n    tool:\n      kind: transfer\n      source: { kind: http, url: 'https://a.test' }\n"
        "      target: { kind: postgres, table: t, mode: overwrite, mapping: { a: b } }\n",
        ("transfer-http", 6, 5, "`mode: overwrite`"),
    ),
    "rows that are lists": (
        "  - step: start\n    tool: { kind: duckdb, query: SELECT 1 AS n, as_objects: false }\n",
        ("row-objects", 6, 49, "never lists"),
    ),
    "status codes beside a guard": (
        "  - step: start\n    tool: { kind: http, url: 'https://a.test', retry: { retry_on_status: [503], when: true } }\n",
        ("retry-status", 6, 57, "beside a guard"),
    ),
    "kinds of errors that no call has": (
        "  - step: start\n    tool: { kind: http, url: 'https://a.test' }\n    retry: { retry_on: [moon] }\n",
        ("retry-status", 7, 14, "known kinds"),
    ),
    "two steps of one name": (
        "  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: a/b }] } }\n"
        "  - { step: a/b, tool: { kind: noop }, next: { arcs: [{ step: a_b }] } }\n"
        "  - { step: a_b, tool: { kind: noop } }\n",
        ("step-names", 6, 7, "would be read as another"),
    ),
    "status codes that are words": (
        "  - step: start\n    tool: { kind: http, url: 'https://a.test', retry: { retry_on_status: 5xx } }\n",
        ("retry-status", 6, 57, "not a list"),
    ),
    "positions that do not fit": (
        "  - step: start\n    tool:\n      kind: postgres\n      params: ['{{ execution_id }}', 2]\n      query: SELECT $1\n",
        ("sql-positions", 8, 7, "does not fit"),
    ),
    "a position that is half a template": (
        "  - step: start\n    tool: { kind: postgres, params: ['a {{ execution_id }}'], query: SELECT $1 }\n",
        ("sql-positions", 6, 29, "does not fit"),
    ),
    "packages for code without imports": (
        "  - step: start\n    tool: { kind: python, libs: [psycopg2-binary], code: result = 1 }\n",
        ("python-libs", 6, 27, "what to import"),
    ),
    "guard of two expressions": (
        "  - step: start\n    tool: { kind: noop }\n    vars: { a: 1 }\n    next:\n"
        "      - { when: '{{ a }}{{ b }}', step: start }\n",
        ("next-conditions", 8, 5, "no single expression"),
    ),
    "statements that are counted": (
        "  - step: start\n    tool: { kind: postgres, query: SELECT 1; SELECT 2 }\n"
        "    vars: { n: '{{ result.data.command_1[0].n }}' }\n",
        ("vars-data", 7, 13, "counts the statements"),
    ),
    "a sequence to which another way leads": (
        "  - step: start\n    next:\n      - { when: '{{ workload.a }} == b', then: [{ step: one }, { step: two }] }\n"
        "      - { step: other }\n  - { step: other, tool: { kind: noop }, next: one }\n"
        "  - { step: one, tool: { kind: noop } }\n  - { step: two, tool: { kind: noop } }\n",
        ("then-sequence", 7, 42, "two ways lead to it"),
    ),
    "a sequence with a way of its own": (
        "  - step: start\n    case:\n      - when: '{{ workload.a }} == b'\n        then: [{ step: one }, { step: two }]\n"
        "  - { step: one, tool: { kind: noop }, next: [{ step: two }] }\n  - { step: two, tool: { kind: noop } }\n",
        ("then-sequence", 8, 9, "one after the other"),
    ),
    "a sequence whose second step is given what the first is given, too": (
        "  - step: start\n    next:\n"
        "      - { when: '{{ workload.a }} == b', then: [{ step: one, data: { v: 1 } }, { step: two, data: { w: '{{ v }}' } }] }\n"
        "  - { step: one, tool: { kind: noop } }\n  - { step: two, tool: { kind: noop } }\n",
        ("then-sequence", 7, 42, "one after the other"),
    ),
    "a template that is the name of an argument": (
        "  - step: start\n    tool: { kind: python, code: 'result = dict({{ workload.key }}=1)' }\n",
        ("code-templates", 6, 27, "a part of it"),
    ),
    "a template that is the name of a variable": (
        "  - step: start\n    tool: { kind: python, code: '{{ workload.key }} = 1' }\n",
        ("code-templates", 6, 27, "a part of it"),
    ),
    "a here document whose quoted end has a space": (
        "  - step: start\n    tool:\n      kind: shell\n      command: |\n        cat <<'END OF'\n        {{ n }}\n        END OF\n",
        ("shell-commands", 8, 7, "quoted end"),
    ),
    "quotes of a command in a here document": (
        "  - step: start\n    tool:\n      kind: shell\n      command: |\n        cat <<END\n        $(echo '{{ n }}')\n        END\n",
        ("shell-commands", 8, 7, "in quotes of a command"),
    ),
    "quotes of a command in ticks in a here document": (
        "  - step: start\n    tool:\n      kind: shell\n      command: |\n        cat <<END\n        `echo '{{ n }}'`\n        END\n",
        ("shell-commands", 8, 7, "in quotes of a command"),
    ),
    "a template that makes the name of a variable": (
        '  - step: start\n    tool:\n      kind: shell\n      command: |\n        echo "${{ n }}"\n',
        ("shell-commands", 8, 7, "name of a variable"),
    ),
    "a case in a command in quotes": (
        '  - step: start\n    tool:\n      kind: shell\n      command: |\n        echo "$(case a in a) echo "{{ n }}";; esac)"\n',
        ("shell-commands", 8, 7, "`case` within"),
    ),
    "a template that counts in braces": (
        "  - step: start\n    tool: { kind: shell, command: 'for i in {1..{{ n }}}; do echo $i; done' }\n",
        ("shell-commands", 6, 26, "counts in braces"),
    ),
    "a database in a folder that is changed": (
        "  - step: start\n    tool: { kind: duckdb, database: /srv/state.duckdb, query: CREATE TABLE t (n int) }\n",
        ("duckdb-memory", 6, 27, "only read"),
    ),
}


@pytest.mark.parametrize(
    ("key", "meant"),
    [("shedule", "schedule"), ("trigger", "triggers"), ("lables", "labels")],
)
def test_a_misspelt_key_of_metadata_is_refused_and_not_kept_as_a_label(
    key: str, meant: str, tmp_path: Path
) -> None:
    text = HEAD.replace("name: refused", f"name: refused, {key}: {{ cron: '0 * * * *' }}") + _STEP % (
        "start",
        "",
    )
    made = migrated(tmp_path / "misspelt.yaml", text)
    (refusal,) = made.refusals
    assert (refusal.rule, refusal.line, refusal.column) == ("metadata-fields", 3, 28)
    assert refusal.hint == f"did you mean '{meant}'?"
    with pytest.raises(InvalidPlaybookError, match=f"`{key}` is not a key of metadata"):
        compile_any(text, source_name="misspelt.yaml", kinds=default_registry())


@pytest.mark.parametrize(
    "entry", ["trigger: manual", "scheduler: airflow", "patch: 3", "label: [etl, daily]", "versions: 2"]
)
def test_a_word_of_metadata_that_is_like_a_key_is_kept_as_a_label(entry: str, tmp_path: Path) -> None:
    made = migrated(
        tmp_path / "word.yaml",
        HEAD.replace("name: refused", f"name: refused, {entry}") + _STEP % ("start", ""),
    )
    assert (
        made.runs and made.changed and f"labels: {{{entry.partition(':')[0]}:" in made.text.replace("{ ", "{")
    )


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_rule_rewrites_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    body, (rule, line, column, words) = REFUSED[name]
    made = migrated(tmp_path / "refused.yaml", HEAD + body)
    assert not made.runs
    found = [(one.rule, one.line, one.column) for one in made.refusals]
    assert (rule, line, column) in found
    assert words in next(one.message for one in made.refusals if one.rule == rule)
    assert all(one.hint for one in made.refusals)


_HTTP = "  - step: start\n    type: http\n    endpoint: https://a.test\n    method: %s\n    data: %s\n"
_RETRY = "  - step: start\n    tool: { kind: http, url: 'https://a.test' }\n    retry:\n      - { when: '%s', then: %s }\n"
_AGAIN, _NEXT = "{ max_attempts: 3 }", "{ next_call: { params: { page: 2 } }, max_attempts: 3 }"


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        (_HTTP % ("GET", "{ query: { a: 1 } }"), ""),
        (_HTTP % ("GET", "{ a: 1 }"), ""),
        (_HTTP % ("GET", "{ query: word }"), "http-data"),
        (_HTTP % ("POST", "{ query: 'query { a }' }"), "http-data"),
        (_HTTP % ("DELETE", "{ a: 1 }"), "http-data"),
        (_RETRY % ("{{ error.status == 500 }}", _AGAIN), ""),
        (_RETRY % ("{{ response.data.more }}", _NEXT), ""),
        (_RETRY % ("{{ response.status == 202 }}", _AGAIN), "retry-list"),
        (_RETRY % ("{{ error.status == 500 }}", _NEXT), "retry-list"),
        (_RETRY % ("{{ response.data.more }}", _NEXT.replace("max_attempts: 3", "delay: 5")), "retry-pages"),
    ],
)
def test_a_rewriting_that_may_change_the_meaning_needs_an_answer(
    body: str, asks: str, tmp_path: Path
) -> None:
    made = migrated(tmp_path / "asks.yaml", HEAD + body)
    assert made.changed
    assert {note.rule for note in made.notes if not note.safe} == ({asks} if asks else set())


def test_what_the_compiler_refuses_stands_at_its_line_of_the_original(tmp_path: Path) -> None:
    text = (
        "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: moved}\nworkflow:\n"
        "  - step: start\n    tool: python\n    libs:\n        js: json\n    code: |\n      result = 1\n"
        "    next: [{step: gone}]\n"
        "  - step: other\n    type: whale\n"
    )
    made = migrated(tmp_path / "moved.yaml", text)
    assert not made.runs and made.changed
    assert {(one.code, one.line) for one in made.problems} >= {("unknown-step", 11), ("unknown-kind", 13)}


def test_a_playbook_that_needs_nothing_keeps_every_character() -> None:
    text = "apiVersion:   noetl.io/v2\nkind: Playbook\nmetadata: {name: neat}\nworkflow:\n    -   step: start\n        tool: {kind: noop}\n"
    made = migrate_text(text, source_name="neat.yaml", kinds=default_registry())
    assert made.text == text and made.runs and made.proved and not made.changed


def test_a_rule_that_would_change_what_runs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.formatting.nodes import Text, map_of
    from noetl.migration import migrate
    from noetl.migration.rule import Rule

    def other(page) -> None:
        map_of(page.steps()[0].get("tool")).put("kind", Text("wait"))

    monkeypatch.setattr(migrate, "RULES", (Rule("careless", "Changes the kind.", other), *RULES))
    text = HEAD + "  - step: start\n    tool: { kind: noop, args: { n: 1 } }\n"
    made = migrate_text(text, source_name="kept.yaml", kinds=default_registry())
    assert made.proved and "kind: noop, input: { n: 1 }" in made.text
    assert {change.rule for change in made.changes} == {"spelling"}


CANONICAL = CASES / "canonical-form" / "older-dialect.before.yaml"


def test_a_step_that_stays_in_the_event_form_is_named_with_its_line() -> None:
    made = migrated(CANONICAL)
    (note,) = [one for one in made.notes if one.rule == "canonical-form"]
    assert (note.line, note.safe) == (26, True) and "'odd'" in note.text and "before, after" in note.text
    with pytest.raises(InvalidPlaybookError) as strict:
        compile_playbook(made.text, kinds=default_registry(), strict=True)
    assert {made.text.splitlines()[one.line - 1].strip() for one in strict.value.diagnostics} == {
        "vars: { before: { z: 1 } }  # kept",
        "next: end",
    }


def test_what_the_canonical_form_says_passes_strict() -> None:
    kept = "    vars: { before: { z: 1 } } # kept\n    next: end\n"
    made = migrated(CANONICAL, CANONICAL.read_text().replace(kept, ""))
    compile_playbook(made.text, kinds=default_registry(), strict=True)


def test_a_program_that_runs_keeps_its_form() -> None:
    text = HEAD + "  - { step: start, tool: { kind: noop, args: { n: 1 } }, next: last }\n  - step: last\n"
    made = migrate_text(text, source_name="runs.yaml", kinds=default_registry(), canonical=True)
    assert made.proved and "next: last" in made.text and "input: { n: 1 }" in made.text


def test_a_step_whose_canonical_form_is_refused_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.formatting.nodes import Text
    from noetl.formatting.steps import Converter

    right = Converter.convert

    def wrong(self, entry):
        step = right(self, entry)
        if step.get("step").value == "load":
            step.put("tool", Text("whale"))
        return step

    monkeypatch.setattr(Converter, "convert", wrong)
    made = migrated(CANONICAL)
    assert made.runs and "sink: { tool: { kind: postgres" in made.text
    assert "arcs: [{ step: load }]" in made.text
    noted = {one.line: one.text for one in made.notes if one.rule == "canonical-form"}
    assert set(noted) == {22, 26} and "the compiler refuses its canonical form" in noted[22]


def test_a_word_of_an_answer_that_no_answer_has_is_refused(tmp_path: Path) -> None:
    text = HEAD.replace("io/v2", "io/v1") + (
        "  - step: start\n    type: http\n    url: https://a.test\n    next:\n"
        "      - { when: \"{{ result.status == 'success' }}\", then: [{ step: end }] }\n  - step: end\n"
    )
    made = migrated(tmp_path / "word.yaml", text)
    assert [(one.rule, one.line, one.column) for one in made.refusals] == [("save-answer", 9, 11)]
    assert migrated(tmp_path / "word.yaml", text.replace("'success'", "200")).runs


@pytest.mark.parametrize(
    ("read", "refused"), [("result.data.n", 1), ("result.status", 0), ("this.data.n", 0)]
)
def test_a_name_that_an_envelope_has_twice_is_refused(read: str, refused: int, tmp_path: Path) -> None:
    text = HEAD.replace("io/v2", "io/v1") + (
        "  - step: start\n    tool: python\n"
        "    code: \"result = {'status': 'success', 'data': {'data': {'n': 1}, 'n': 2}}\"\n"
        f"    save: {{ storage: {{ type: postgres, table: jars }}, args: {{ n: '{{{{ {read} }}}}' }} }}\n"
    )
    made = migrated(tmp_path / "twice.yaml", text)
    found = [(one.rule, one.line, one.column) for one in made.refusals]
    assert found == [("result-envelope", 8, 63)] * refused
    assert made.runs is not bool(refused)


@pytest.mark.parametrize(
    "more",
    [
        "credentials: { httpDigestAuth: { name: jar } }",
        "credentials: { httpBearerAuth: { name: jar } }, auth: cellar",
        "credentials: { httpBearerAuth: { name: jar }, httpBasicAuth: { name: jar } }",
        "credentials: { httpBearerAuth: { id: '7' } }",
        "credentials: { httpBearerAuth: { name: jar } }, genericAuthType: httpBasicAuth",
        "credentials: { httpBearerAuth: { name: jar } }, authentication: predefinedCredentialType",
    ],
)
def test_credentials_of_a_call_that_name_no_single_one_stay(more: str, tmp_path: Path) -> None:
    text = HEAD + f"  - step: start\n    tool: {{ kind: http, url: 'https://a.test', {more} }}\n"
    made = migrated(tmp_path / "stays.yaml", text)
    assert not made.runs and {problem.line for problem in made.problems} == {6}


def test_what_is_behind_an_anchor_is_rewritten_once() -> None:
    text = (
        "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: { name: anchored }\nworkload: &given { n: 1 }\nworkflow:\n"
        "  - step: start\n    tool: { kind: noop, args: *given }\n"
    )
    made = migrate_text(text, source_name="anchored.yaml", kinds=default_registry())
    assert made.runs and "&given" in made.text and "*given" in made.text


@pytest.mark.parametrize(
    "other",
    [
        "tool: { kind: http, url: 'http://127.0.0.1/{{ start.name }}' }",
        "tool: { kind: python, code: \"result = context.get('start')\" }",
        "tool: { kind: duckdb, query: \"SELECT 'SELECT ''{{ start.name }}''' AS text\" }",
    ],
)
def test_quotes_that_code_doubles_for_others_too_stay(other: str, tmp_path: Path) -> None:
    body = (
        "  - step: start\n    tool:\n      kind: python\n      code: |\n"
        "        result = {'name': 'it'.replace(\"'\", \"''\")}\n    next: { arcs: [{ step: put }] }\n"
        "  - step: put\n    tool: { kind: duckdb, query: \"SELECT '{{ start.name }}' AS name\" }\n"
        f"    next: {{ arcs: [{{ step: other }}] }}\n  - step: other\n    {other}\n"
    )
    made = migrated(tmp_path / "doubled.yaml", HEAD + body)
    assert "replace" in made.text and not made.runs
    assert ("sql-escaped-by-hand", 9) in {(one.code, one.line) for one in made.problems}


@pytest.mark.parametrize(
    "read", ["{{ vars.y | default('none') }}", "{{ vars.x | default('none') }}", "{{ vars.y is none }}"]
)
def test_variables_that_are_read_with_a_default_are_not_null(read: str, tmp_path: Path) -> None:
    made = migrated(
        tmp_path / "null.yaml",
        "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: { name: n }\nworkflow:\n"
        "  - step: start\n    tool: { kind: python, code: 'result = {}' }\n"
        "    vars: { x: '{{ result.x }}', y: '{{ result.y }}' }\n"
        "    next: [{ when: '{{ vars.x is defined and vars.y }}', then: [{ step: end }] }]\n"
        f'  - {{ step: end, tool: {{ kind: noop, args: {{ n: "{read}" }} }} }}\n',
    )
    assert made.runs and "vars-defined" not in {change.rule for change in made.changes}
