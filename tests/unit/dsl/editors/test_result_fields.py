"""The entries of results that follow from a playbook's text."""

from __future__ import annotations

from noetl.dsl.editors.names import names_of
from noetl.kinds.registry import default_registry
from tests.parts import over

KINDS = default_registry()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a }\nworkflow:\n  - step: start\n"


def fields(step: str) -> list[str]:
    lines = "".join(f"    {line}\n" for line in step.strip("\n").splitlines())
    found = names_of(HEAD + lines, KINDS)
    assert found is not None
    return found.steps[0].fields


def code(text: str) -> list[str]:
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    return fields(f"tool:\n  kind: python\n  code: |\n{lines}")


def test_a_sql_result_has_rows_and_what_each_statement_returned():
    found = fields("tool: { kind: duckdb, query: SELECT 1 }")
    assert found[:4] == ["rows", "row_count", "columns", "affected_rows"]
    assert {"results", "command_0", "command_0.rows", "command_1.row_count"} <= set(found)


def test_an_answer_of_http_is_its_body_in_the_event_form():
    assert "status_code" in fields('tool: { kind: http, url: "http://a" }\nnext: { arcs: [{ step: start }] }')
    assert (
        fields('tool: { kind: http, url: "http://a" }\ncase: [{ when: "{{ true }}", then: { next: end } }]')
        == []
    )


def test_noop_returns_what_it_is_given():
    found = fields("tool: { kind: noop, args: { paid: '{{ 1 }}', by: { name: me } } }")
    assert found == ["paid", "by", "by.name"]


@over(
    ("tool", "expected"),
    [
        ("{ kind: wait, approve: true }", ["approved", "comment"]),
        ("{ kind: wait, callback: true, schema: { properties: { ok: {}, note: {} } } }", ["ok", "note"]),
        ("{ kind: wait, seconds: 3 }", ["seconds"]),
        ("{ kind: wait, schema: 3 }", []),
        ("{ kind: playbook, path: a/b }", []),
        ("{ kind: nothing_known }", []),
    ],
)
def test_what_ends_a_wait(tool, expected):
    assert fields(f"tool: {tool}") == expected


@over(
    ("text", "expected"),
    [
        ('result = {"tax": 1, "of": {"rate": 2}}', ["tax", "of", "of.rate"]),
        ('if x:\n    return {"a": 1}\nreturn {"b": 2}', ["a", "b"]),
        (
            'def main(x):\n    try:\n        return {"a": 1}\n    except E:\n        return {"b": 2}',
            ["a", "b"],
        ),
        ('def help():\n    return {"no": 1}\nresult = {"yes": help()}', ["yes"]),
        ('return {"status": "ok", "data": {"rows": []}}', ["rows"]),
        ('return {"status": "ok", "data": {"rows": []}, "more": 1}', ["status", "data", "data.rows", "more"]),
        ('match x:\n    case 1:\n        result = {"one": 1}', ["one"]),
        ('result = {**a, key: 1, "two words": 2, 3: 4}', []),
        ("result = a", []),
        ("result = {", []),
        ("(" * 5000, []),
    ],
)
def test_keys_that_code_writes(text, expected):
    assert code(text) == expected


def test_a_loop_has_counts_and_results():
    found = fields("loop: { in: [1], iterator: n }\ntool: { kind: noop, args: { a: 1 } }")
    assert (
        found[:6] == ["count", "failed", "results", "stats", "failures", "successes"]
        and "stats.success" in found
        and "a" not in found
    )


def test_tasks_of_a_step_are_entries_of_it():
    found = fields(
        "tool:\n  - { name: load, kind: noop, args: { rows: 1 }, output: { as: loaded, select: { first: $.rows } } }"
        "\n  - { name: keep, kind: noop, args: { n: 2 } }"
    )
    assert found == [
        "n",
        "load",
        "load.first",
        "load.rows",
        "loaded",
        "loaded.first",
        "loaded.rows",
        "keep",
        "keep.n",
    ]


def test_selections_are_names_and_a_part_of_a_result_is_not_known():
    assert (
        fields(
            "spec: { result: { select: [{ path: $.n, as: amount }] } }\ntool: { kind: noop, args: { n: 1 } }"
        )[0]
        == "amount"
    )
    assert fields("tool: { kind: noop, args: { n: { m: 1 } }, output: { path: $.n } }") == []


def test_a_result_of_very_many_entries_is_cut():
    keys = ", ".join(f"k{number}: 1" for number in range(1_000))
    assert len(fields(f"tool: {{ kind: noop, args: {{ {keys} }} }}")) == 200
