"""What the compiler finds out about names: reads, warnings, guards, and what is no error."""

from __future__ import annotations

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
from tests.work import calls

LOOP = """\
workload: {{ rows: [], data: 1 }}
workflow:
  - step: start
    loop: {{ in: "{{{{ workload.rows }}}}", iterator: row, spec: {{ mode: parallel }} }}
    tool:
      - {task}
    next: {{ arcs: [ {{ step: end }} ] }}
  - step: end
"""


@pytest.mark.parametrize(
    ("task", "reads"),
    [
        ('{ kind: http, url: "{{ row.url }}{{ iter.page }}{{ loop.index }}" }', ()),
        ('{ kind: http, url: "{{ base }}", input: { base: "{{ workload.data }}" } }', ("workload.data",)),
        ('{ kind: http, url: "{{ data }}" }', ("data",)),
        ('{ kind: http, url: "{{ _prev.x }}{{ output.data }}{{ input.x }}", input: { x: 1 } }', ()),
        ('{ kind: python, code: "def main(row, data, other=1):\\n    return 1" }', ("data", "other")),
        (
            '{ kind: python, code: "def main(data):\\n    return 1", input: { data: "{{ ctx.n | default(1) }}" } }',
            ("ctx.n",),
        ),
        ('{ kind: python, code: "def main(: broken" }', ()),
        ('{ kind: postgres, command: "SELECT {{ ctx | tojson }}" }', ("ctx.*",)),
        (
            '{ kind: noop, spec: { policy: { rules: [ { when: "{{ outcome.x > workload.data }}", then: { do: fail } } ] } } }',
            ("workload.data",),
        ),
    ],
)
def test_body_reads(program, task, reads):
    step = program(LOOP.format(task=task)).step("start")
    assert step.body.reads.names == reads
    assert step.enter_reads.names == tuple(sorted({*reads, "workload.rows"}))


def test_what_computes_the_name_of_a_credential_goes_with_every_task(program):
    entry = 'keychain: [{ name: k, kind: bearer, credential: "shop_{{ workload.data }}" }]\n'
    undo = '    spec: { compensate: { kind: http, url: "http://x", auth: k } }\n'
    text = LOOP.format(task='{ kind: http, url: "{{ row }}", auth: k }').replace(
        "    tool:", undo + "    tool:"
    )
    step = program(entry + text).step("start")
    assert step.body.reads.names == step.compensate.reads.names == ("workload.data",)
    assert step.enter_reads.names == ("workload.data", "workload.rows")
    assert step.exit_reads.names == ()


def warnings(compiled, body):
    return [(d.code, d.line, d.column) for d in compiled(body).diagnostics]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "workbook:\n  greet: { kind: noop, input: { text: '{{ input.who }}' } }\nworkflow:\n"
            "  - { step: start, tool: { kind: workbook, name: greet, input: { who: Ada } } }\n",
            [("unset-argument", 5, 43)],
            id="a workbook task's own input",
        ),
        pytest.param(
            "workload: { how: greet }\nworkbook:\n  greet: { kind: noop, input: { text: '{{ input.who }}' } }\nworkflow:\n"
            "  - { step: start, tool: { kind: workbook, name: '{{ workload.how }}', input: { who: Ada } } }\n",
            [("unset-argument", 6, 43)],
            id="the own input of a workbook task that is chosen",
        ),
        pytest.param(
            "workflow:\n  - { step: start, tool: { kind: noop, input: { n: \"{{ input.get('n', 1) }}\" } } }\n",
            [],
            id="a method of the arguments",
        ),
        pytest.param(
            "workload: { how: tell }\nworkbook:\n"
            "  tell: { kind: http, url: 'http://a.test/{{ input.who }}', input: { n: '{{ args.n }}' } }\nworkflow:\n"
            "  - { step: start, input: { n: 1 }, tool: { kind: workbook, name: '{{ workload.how }}', input: { who: Ada } } }\n",
            [],
            id="what a workbook task may read",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    next: { arcs: [{ step: tell, args: { who: Ada } }] }\n"
            "  - { step: tell, tool: { kind: noop, input: { who: null, how: null } } }\n",
            [("null-argument", 6, 28)],
            id="an argument that a null hides",
        ),
        pytest.param("workflow:\n  - step: first\n    next: last\n  - step: last\n", [], id="no start"),
        pytest.param(
            "workflow:\n  - step: ask\n    next: { arcs: [{ step: act, when: '{{ execution_id }}' }] }\n"
            "  - step: act\n    next: { arcs: [{ step: ask }] }\n",
            [("entry-first-step", 5, 5)],
            id="an arc leads back to the first step",
        ),
        pytest.param(
            "workflow:\n  - step: poll\n    next: { arcs: [{ step: poll, when: '{{ execution_id }}' }] }\n",
            [("entry-first-step", 5, 5)],
            id="the first step leads to itself",
        ),
        pytest.param(
            "executor: { spec: { on_error: { step: mend } } }\nworkflow:\n  - step: mend\n  - step: work\n",
            [("entry-first-step", 6, 5), ("unreachable-step", 7, 5)],
            id="the first step answers failures",
        ),
        pytest.param(
            "workflow:\n  - step: load\n    next: { arcs: [{ step: start, when: '{{ execution_id }}' }] }\n  - step: start\n",
            [("unreachable-step", 5, 5)],
            id="start is not the first step",
        ),
        pytest.param(
            "executor: { spec: { entry_step: first } }\nworkflow:\n  - step: first\n", [], id="entry_step"
        ),
        pytest.param(
            "workflow:\n  - { step: start, args: { a: '{{ workload.limt }}' } }\n",
            [("unknown-workload-key", 5, 35)],
            id="workload",
        ),
        pytest.param(
            "input: { properties: { limit: {} } }\nworkflow:\n  - { step: start, args: { a: '{{ workload.limit + limit }}' } }\n",
            [],
            id="payload schema",
        ),
        pytest.param(
            "workflow:\n  - { step: start, args: { a: '{{ ctx.x }}' } }\n", [("unset-ctx", 5, 35)], id="ctx"
        ),
        pytest.param(
            "workflow:\n  - { step: start, args: { a: '{{ vars.x }}' } }\n",
            [("unset-variable", 5, 35)],
            id="vars",
        ),
        pytest.param(
            "workflow:\n  - { step: start, args: { a: '{{ ctx.x | default(1) }}', b: '{{ ctx.x }}' } }\n",
            [],
            id="guarded ctx",
        ),
        pytest.param(
            "workflow:\n  - { step: start, spec: { policy: { failure: { mode: best_effort } } } }\n",
            [("no-effect", 5, 38)],
            id="failure without loop",
        ),
        pytest.param(
            "workflow:\n  - { step: start, next: [ b ] }\n  - { step: b, spec: { join: 3 } }\n",
            [("join-count", 6, 7)],
            id="join",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    tool: { kind: postgres, command: 'SELECT {{ ctx.a | default(1) | raw_sql }}' }\n",
            [("raw-sql", 6, 70)],
            id="raw_sql",
        ),
        pytest.param(
            "workflow:\n  - { step: start, next: { arcs: [ { step: b }, { step: c } ] } }\n  - step: b\n  - step: c\n",
            [("never-fires", 5, 49)],
            id="arc after an unconditional one",
        ),
        pytest.param(
            "workflow:\n  - { step: start, next: { spec: { mode: inclusive }, arcs: [ { step: b }, { step: c } ] } }\n"
            "  - step: b\n  - step: c\n",
            [],
            id="inclusive arcs",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    next:\n      arcs:\n"
            "        - { step: b, when: \"{{ event.name == 'step.enter' }}\" }\n  - step: b\n",
            [("never-fires", 8, 11)],
            id="arc on an event that does not end a step",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    tool:\n      - kind: noop\n        spec:\n          policy:\n            rules:\n"
            "              - { when: '{{ true }}', then: { do: continue } }\n              - { else: { then: { do: fail } } }\n",
            [("never-fires", 12, 17)],
            id="rule after an always true one",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    tool: { kind: noop }\n    case:\n"
            "      - { when: \"{{ event.name == 'call.done' }}\", then: { skip: true } }\n"
            "      - { when: \"{{ event.name == 'call.done' and result.x }}\", then: { skip: true } }\n",
            [("never-fires", 9, 9)],
            id="case already answered",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    case:\n      - { when: \"{{ event.name == 'call.done' }}\", then: { skip: true } }\n",
            [("never-fires", 7, 9)],
            id="call.done without a tool",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    tool: { kind: noop }\n    case:\n"
            "      - { when: \"{{ event.name == 'loop.done' }}\", then: { skip: true } }\n",
            [("never-fires", 8, 9)],
            id="loop.done without a loop",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    next: [ a, b ]\n  - { step: a, next: [ start ] }\n  - step: b\n",
            [],
            id="cycle",
        ),
    ],
)
def test_warnings(compiled, body, expected):
    assert warnings(compiled, body) == expected


@pytest.mark.parametrize(
    "template",
    [
        "{{ unheard_of | default('x') }}",
        "{{ unheard_of is defined }}",
        "{{ workload.get('unheard_of', 1) ~ ctx.get('of') ~ vars.get('it') }}",
        "{{ unheard_of.deep.x is defined and unheard_of.deep.x }}",
        "{% for item in [1, 2] %}{{ item }}{{ loop.index }}{% endfor %}",
        "{% set local = 1 %}{{ local }}",
        "{{ execution_id ~ job ~ now() ~ attempt ~ range(3) }}",
        "{{ given ~ handed ~ limit ~ other.rows ~ total ~ token_name }}",
    ],
)
def test_names_that_are_known(compiled, template):
    body = f"""\
workload: {{ limit: 1 }}
workflow:
  - step: start
    set: {{ ctx.total: 1, vars.token_name: 2 }}
    next: {{ arcs: [ {{ step: use, args: {{ handed: 1 }} }}, {{ step: other, when: "{{{{ event.name == 'step.failed' }}}}" }} ] }}
  - step: use
    args: {{ given: 1 }}
    tool: {{ kind: http, url: "{template}" }}
  - step: other
"""
    assert compiled(body).program.entry == "start"


def test_a_computed_payload_may_bring_any_name(compiled):
    body = """\
workload: { payload: {} }
workflow:
  - step: start
    next: [ { step: b, args: "{{ workload.payload }}" } ]
  - { step: b, tool: { kind: http, url: "{{ whatever }}" } }
"""
    assert not compiled(body).diagnostics


def test_several_problems_are_sorted_and_told_together(compiled):
    with pytest.raises(InvalidPlaybookError) as refused:
        compiled(
            """\
workflow:
  - step: start
    tool: { kind: http, url: "{{ missing }}", metod: GET }
    next: [ nowhere ]
  - step: orphan
    tool: { kind: http, url: "{{ 1 + }}" }
"""
        )
    assert [(d.code, d.line) for d in refused.value.diagnostics] == [
        ("undefined-name", 6),
        ("kind-params", 6),
        ("unknown-step", 7),
        ("unreachable-step", 8),
        ("template-syntax", 9),
    ]
    assert (
        str(refused.value).splitlines()[2].startswith("t.yaml:7:13: unknown-step: there is no step 'nowhere'")
    )
    assert refused.value.details["diagnostics"][0]["code"] == "undefined-name"


def test_a_document_that_is_wrong_everywhere_is_cut(compiled):
    steps = "".join(f"  - {{ step: s{i}, bad: 1 }}\n" for i in range(300))
    with pytest.raises(InvalidPlaybookError) as refused:
        compiled("workflow:\n" + steps)
    assert len(refused.value.diagnostics) == 101
    assert refused.value.diagnostics[-1].code == "more-problems"


def test_formatting():
    found = Diagnostic("unknown-step", "there is no step 'b'", 3, 7, hint="did you mean 'a'?")
    assert found.format("x.yaml") == "x.yaml:3:7: unknown-step: there is no step 'b' (did you mean 'a'?)"
    warning = Diagnostic("never-fires", "no", 1, 2, "warning")
    assert warning.format("x.yaml") == "x.yaml:1:2: warning: never-fires: no"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("command: |\n        SELECT 1;\n        SELECT {{ workload.a }}", 9, 9),
        ('command: "SELECT {{ workload.a }}"', 8, 17),
        ("command: >-\n        SELECT\n        {{ workload.a }}", 9, 9),
    ],
)
def test_texts_begin_where_their_first_character_stands(program, text, line, column):
    found = program(f"workflow:\n  - step: start\n    tool:\n      kind: postgres\n      {text}\n")
    ((_, node),) = found.step("start").body.tasks[0].params.entries
    assert (node.pos.line, node.pos.column) == (line, column)


def test_expressions_begin_inside_their_braces(program):
    found = program('workload: { a: 1 }\nworkflow:\n  - step: start\n    args: { x: "{{   workload.a }}" }\n')
    ((_, node),) = found.step("start").args.entries
    assert (node.source, node.pos.line, node.pos.column) == ("workload.a", 7, 22)


def chain(length):
    steps = "".join(f"  - {{ step: s{i}, next: s{i + 1} }}\n" for i in range(1, length - 1))
    return f"workflow:\n  - {{ step: start, next: s1 }}\n{steps}  - step: s{length - 1}\n"


def test_a_long_chain(program):
    found = program(chain(1000))
    assert [len(step.reaches) for step in found.steps] == list(range(999, -1, -1))


def test_a_large_cycle_reaches_itself_from_everywhere(program):
    body = "workflow:\n  - { step: start, next: s0 }\n"
    body += "".join(f"  - {{ step: s{i}, next: s{(i - 1) % 200} }}\n" for i in range(200))
    found = program(body)
    assert {len(step.reaches) for step in found.steps} == {200}
    assert found.step("s0").incoming == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(chain(1001), "too-many-steps", id="steps"),
        pytest.param(
            "workload: { a: 1 }\nworkflow:\n  - step: start\n    args:\n      a: ["
            + "'{{ workload.a }}'," * 10_001
            + "]\n",
            "too-many-templates",
            id="templates",
        ),
        pytest.param(
            "workflow:\n  - step: start\n    args: { a: '"
            + "".join(f"{{{{ n{i} }}}}" for i in range(3000))
            + "' }\n",
            "undefined-name",
            id="unknown names",
        ),
    ],
)
def test_oversized_documents_are_refused_soon(compiled, body, code):
    def refuse():
        with pytest.raises(InvalidPlaybookError) as refused:
            compiled(body)
        assert refused.value.diagnostics[0].code == code

    assert calls(refuse) < 12_000_000


def test_a_wrong_shape_does_not_hide_other_problems(compiled):
    with pytest.raises(InvalidPlaybookError) as refused:
        compiled(
            """\
workload: { a: 1 }
workflow:
  - { step: start, nxt: end, tool: { kind: http, url: "{{ workload.a + }}" } }
  - { step: end, tool: { kind: htpt, code: "{{ unknown_name }}" } }
"""
        )
    assert [(d.code, d.line) for d in refused.value.diagnostics] == [
        ("unknown-key", 6),
        ("template-syntax", 6),
        ("unknown-kind", 7),
        ("undefined-name", 7),
    ]


ROWS_AND_CHOICE = """\
workflow:
  - step: start
    tool: { kind: postgres, query: SELECT 1 AS jars }
    next: { arcs: [ { step: count } ] }
  - step: count
    tool: { kind: python, code: "def main(rows):\\n    return 1 if isinstance(rows, list) else 0", input: { rows: ROWS } }
    next: { arcs: [ { step: last } ] }
  - step: last
    tool: { kind: noop, input: { n: "{{ 1 if start else 2 }}", text: "{{ 1 if not start else 2 }}!", key: "{{ 1 if start.x else 2 }}" } }
"""


@pytest.mark.parametrize(
    ("rows", "meaning", "chooses"),
    [("{{ start }}", 3, [False, False, False]), ("{{ start.rows }}", 4, [True, True, False])],
)
def test_code_that_wants_rows_and_choices_belong_to_meaning_4(kinds, rows, meaning, chooses):
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a }\n" + ROWS_AND_CHOICE
    text = text.replace("ROWS", f'"{rows}"')
    program = compile_playbook(text, kinds=kinds, semantics=meaning).program
    found = dict(program.step("last").body.tasks[0].input.entries)
    assert [found[name].chooses for name in ("n", "text", "key")] == chooses


def test_quotes_doubled_by_hand_belong_to_meaning_5(kinds):
    query = """SELECT '{{ execution_id | replace("'", "''") }}'"""
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a }\nworkflow:\n  - step: start\n    tool:\n"
    text = f"{head}      kind: postgres\n      query: |\n        {query}\n"
    assert compile_playbook(text, kinds=kinds, semantics=4).program.semantics == 4
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(text, kinds=kinds)
    assert [(one.code, one.line, one.column) for one in refused.value.diagnostics] == [
        ("sql-escaped-by-hand", 9, 33)
    ]


def test_an_entry_of_ctx_that_only_the_workload_has_belongs_to_meaning_11(kinds):
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a }\nworkload: { jars: 3 }\nworkflow:\n"
        "  - { step: start, tool: { kind: python, code: \"def main(ctx): return ctx.get('jars')\" } }\n"
    )
    assert compile_playbook(text, kinds=kinds, semantics=10).program.semantics == 10
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(text, kinds=kinds)
    assert [(one.code, one.line) for one in refused.value.diagnostics] == [("ctx-in-code", 6)]


CODE_FOR_SQL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: a }
workflow:
  - step: start
    tool: { kind: python, code: "CODE" }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: duckdb, query: "SELECT '{{ start.name }}' AS name" }
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("""result = {'name': who.replace(\\"'\\", \\"''\\")}""", "error"),
        ("""result = shape(who.replace(\\"'\\", \\"''\\"))""", "error"),
        ("""result = {'other': who.replace(\\"'\\", \\"''\\")}""", "warning"),
        ("""result = {'name': 'SELECT ' + who.replace(\\"'\\", \\"''\\")}""", "warning"),
        ("""result = {'other': 'SELECT ' + who.replace(\\"'\\", \\"''\\")}""", ""),
        ("""result = {'name': who.replace(\\"'\\", '')}""", ""),
    ],
)
def test_quotes_doubled_in_code_belong_to_meaning_11(kinds, code, found):
    text = CODE_FOR_SQL.replace("CODE", f"who = 'Ada'\\n{code}")
    compile_playbook(text, kinds=kinds, semantics=10)
    try:
        problems = compile_playbook(text, kinds=kinds).diagnostics
    except InvalidPlaybookError as refused:
        problems = refused.diagnostics
    assert [(one.code, one.severity) for one in problems] == (
        [("sql-escaped-by-hand", found)] if found else []
    )
