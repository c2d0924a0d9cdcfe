"""The canonical form lowered: task lists, policies, admission, loops, arcs, layering, in every spelling."""

from __future__ import annotations

import pytest

from noetl.dsl.program import (
    AdmitRule,
    BreakAction,
    ContinueAction,
    Expr,
    FailAction,
    JumpAction,
    LiteralNode,
    Map,
    ResultSpec,
    RetryAction,
    Seq,
    SetAction,
    Sql,
    Text,
)


def tasks(program, tool, extra=""):
    return program(f"workflow:\n  - step: start\n{extra}    tool:\n{tool}").step("start").body.tasks


@pytest.mark.parametrize(
    "spelling",
    [
        "      - { name: load, kind: python, code: result = 1, input: { a: 1 } }\n",
        "      - load: { kind: python, code: result = 1, args: { a: 1 } }\n",
        "      - load:\n          kind: python\n          with: { a: 1 }\n          code: result = 1\n",
    ],
)
def test_spellings_of_a_task(program, spelling):
    (task,) = tasks(program, spelling)
    assert (task.label, task.kind, task.form, task.params, task.input) == (
        *("load", "python", "canonical"),
        LiteralNode({"code": "result = 1"}),
        LiteralNode({"a": 1}),
    )


def test_labels_of_unlabelled_tasks(program):
    found = tasks(program, "      - { kind: noop }\n      - named: { kind: noop }\n      - { kind: noop }\n")
    assert [task.label for task in found] == ["task_0", "named", "task_2"]


def test_values_keep_their_kind(program):
    (task,) = tasks(
        program,
        """\
      - call:
          kind: http
          url: "http://x/{{ workload.id }}"
          params: { literal: [ 1, "00123" ], one: " {{ workload.id }} ", list: [ 1, "{{ workload.id }}" ] }
""",
        extra="",
    )
    url, params = (node for _, node in task.params.entries)
    assert isinstance(url, Text)
    assert url.source == "http://x/{{ workload.id }}"
    entries = dict(params.entries)
    assert entries["literal"] == LiteralNode([1, "00123"])
    assert isinstance(entries["one"], Expr)
    assert entries["one"].source == "workload.id"
    assert isinstance(entries["list"], Seq)


def test_code_is_never_a_template(program):
    (task,) = tasks(program, '      - { kind: python, code: "result = {{}}" }\n')
    assert task.params == LiteralNode({"code": "result = {{}}"})


def test_sql_fields(program):
    one, many = tasks(
        program,
        """\
      - { kind: postgres, query: "SELECT {{ workload.id }}" }
      - kind: postgres
        commands: [ "SELECT 1", "SELECT {{ workload.id }}" ]
""",
    )
    assert isinstance(dict(one.params.entries)["command"], Sql)
    listed = dict(many.params.entries)["command"]
    assert isinstance(listed, Seq)
    assert [(type(item), item.reads) for item in listed.items] == [(Sql, ()), (Sql, ("workload.id",))]


RULES = """\
      - page:
          kind: noop
          spec:
            timeout: {{ connect: 1, read: 2.5 }}
            policy:
              on_unmatched: continue
              rules:
                - when: "{{{{ {outcome}.status == 'error' and {outcome}.error.retryable }}}}"
                  then: {{ do: retry, attempts: 5, backoff: exponential, delay: 0.5, max_delay: 9 }}
                - when: "{{{{ {outcome}.status == 'error' }}}}"
                  then: {{ do: fail, message: "no {{{{ {outcome}.error.message }}}}" }}
                - when: true
                  then: {{ do: jump, to: previous, {writes} }}
      - stop: {{ kind: noop, spec: {{ policy: {{ rules: [ {{ else: {{ then: {{ do: break }} }} }} ] }} }} }}
"""


@pytest.mark.parametrize(
    ("outcome", "writes"),
    [
        ("outcome", "set_ctx: { total: { add: 1 } }, set_iter: { page: 2 }"),
        ("output", "set: { ctx.total: { add: 1 }, iter.page: 2 }"),
        ("output", "set: { ctx: { total: { add: 1 } }, iter: { page: 2 } }"),
    ],
)
def test_policies(program, outcome, writes):
    first, page, stop = tasks(
        program, "      - { kind: noop }\n" + RULES.format(outcome=outcome, writes=writes)
    )
    assert first.on_unmatched == "fail"
    assert (page.on_unmatched, page.timeout) == ("continue", LiteralNode(3.5))
    (retry,), (fail,), (total, number, jump) = (rule.actions for rule in page.rules)
    assert isinstance(retry, RetryAction)
    assert (retry.attempts, retry.backoff, retry.delay, retry.max_delay, retry.exhausted) == (
        *(LiteralNode(5), "exponential", LiteralNode(0.5), LiteralNode(9)),
        "fail",
    )
    assert isinstance(fail, FailAction)
    assert isinstance(fail.message, Text)
    assert isinstance(total, SetAction)
    assert [(a.scope, a.name, a.op, a.value) for a in (total, number)] == [
        ("ctx", "total", "add", LiteralNode(1)),
        ("iter", "page", "set", LiteralNode(2)),
    ]
    assert (type(jump), jump.to) == (JumpAction, "previous")
    assert (stop.rules[0].when, stop.rules[0].actions) == (None, (BreakAction(),))


@pytest.mark.parametrize(
    ("backoff", "expected"), [("", "none"), (", backoff: fixed", "none"), (", backoff: linear", "linear")]
)
def test_retry_defaults(program, backoff, expected):
    text = f"      - {{ kind: noop, spec: {{ policy: {{ rules: [ {{ when: false, then: {{ do: retry{backoff} }} }} ] }} }} }}\n"
    (task,) = tasks(program, text)
    (retry,) = task.rules[0].actions
    assert (retry.attempts, retry.delay, retry.backoff) == (LiteralNode(3), LiteralNode(1), expected)


def test_do_defaults_to_continue(program):
    (task,) = tasks(
        program,
        "      - { kind: noop, spec: { policy: { rules: [ { else: { then: { set: { step.z: 1 } } } } ] } } }\n",
    )
    assert [type(a) for a in task.rules[0].actions] == [SetAction, ContinueAction]


def test_admission(program):
    step = program(
        """\
workflow:
  - step: start
    spec:
      policy:
        admit:
          timeout: 3600
          rules:
            - { when: "{{ ctx.approved | default(false) }}", then: { allow: true } }
            - { when: "{{ ctx.rejected | default(false) }}", then: { allow: skip } }
            - { else: { then: { allow: false } } }
    tool: { kind: noop }
"""
    ).step("start")
    assert [rule.allow for rule in step.admit.rules] == ["yes", "skip", "park"]
    assert step.admit.rules[2] == AdmitRule("park", None, step.admit.rules[2].pos)
    assert step.admit.timeout == LiteralNode(3600)
    assert step.enter_reads.names == ("ctx.approved", "ctx.rejected")


def test_loop_spec_and_layers(program):
    step = program(
        """\
executor:
  spec:
    timeout: 600
    no_next_is_error: true
    result: { inline_max_bytes: 1000, store: { kind: auto, ttl: 1h } }
    policy: { failure: { mode: best_effort }, lifecycle: { timeout_s: 60 }, on_unmatched: continue }
workload: { rows: [] }
workflow:
  - step: start
    spec: { result: { preview_max_bytes: 10, store: { ttl: 2h } } }
    loop: { in: "{{ workload.rows }}", iterator: row, spec: { mode: parallel, max_in_flight: 5, result: { store: { scope: step } } } }
    tool:
      - a: { kind: noop, spec: { result: { inline_max_bytes: 5, select: [ { path: $.n, as: n } ] } } }
      - b: { kind: noop, output: { select: { m: $.m }, compression: gzip } }
"""
    )
    start = step.step("start")
    assert (start.loop.failure, start.loop.max_in_flight, start.timeout) == (
        "best_effort",
        LiteralNode(5),
        LiteralNode(60),
    )
    assert (step.timeout, step.no_next_is_error) == (LiteralNode(600), True)
    assert start.result == ResultSpec(inline_max_bytes=1000, preview_max_bytes=10, store="auto", ttl="2h")
    first, second = start.body.tasks
    assert first.result == ResultSpec(5, 10, "auto", "step", "2h", select=(("$.n", "n"),))
    assert second.result == ResultSpec(1000, 10, "auto", "step", "2h", "gzip", (("$.m", "m"),))
    assert first.on_unmatched == "continue"


ARCS = """\
workflow:
  - step: start
    tool: {{ kind: noop }}
    set: {{ ctx.seen: "{{{{ output.data }}}}" }}
    next:
      spec: {{ mode: {mode} }}
      arcs:
        - {{ step: b, when: "{{{{ event.name == 'step.done' and output.data.big }}}}", args: {{ x: "{{{{ ctx.seen }}}}" }} }}
        - {{ step: c, when: "{{{{ event.name == 'step.failed' }}}}", set: {{ ctx.reason: failed }} }}
        - {{ step: c, when: "{{{{ outcome.status == 'error' }}}}" }}
        - {{ step: b }}
  - step: b
  - {{ step: c, next: {{ arcs: [ {{ step: b }} ] }} }}
"""


@pytest.mark.parametrize(
    ("mode", "expected"), [("exclusive", "exclusive"), ("inclusive", "inclusive"), ("all", "inclusive")]
)
def test_arcs(program, mode, expected):
    found = program(ARCS.format(mode=mode))
    start = found.step("start")
    assert start.mode == expected
    assert [(a.target, a.index, a.on, a.sync) for a in start.arcs] == [
        ("b", 0, ("done",), True),
        ("c", 1, ("failed",), False),
        ("c", 2, ("done", "failed"), True),
        ("b", 0 if expected == "exclusive" else 3, ("done",), True),
    ]
    assert isinstance(start.arcs[0].args, Map)
    assert [(s.scope, s.name) for s in (*start.sets, *start.arcs[1].sets)] == [
        ("ctx", "seen"),
        ("ctx", "reason"),
    ]
    assert start.exit_reads.names == ("ctx.seen",)
    assert found.step("c").arcs[0].index == (3 if expected == "exclusive" else 4)


def test_mode_defaults_to_exclusive(program):
    assert (
        program("workflow:\n  - { step: start, next: { arcs: [ { step: b } ] } }\n  - step: b\n")
        .step("start")
        .mode
        == "exclusive"
    )


@pytest.mark.parametrize(
    ("join", "expected"), [("sync", "sync"), ("all", "all"), ("any", "any"), ("each", "each"), ("2", "2")]
)
def test_joins(program, join, expected):
    text = f"""\
workflow:
  - {{ step: start, next: [ a, b ] }}
  - {{ step: a, next: c }}
  - {{ step: b, next: c }}
  - {{ step: c, spec: {{ join: {join} }} }}
"""
    step = program(text).step("c")
    assert (step.join, step.incoming) == (expected, 2)


def test_incoming_and_reaches_follow_cycles_and_case_targets(program):
    found = program(
        """\
workflow:
  - step: start
    tool: { kind: noop }
    case:
      - { when: "{{ event.name == 'call.done' }}", then: { next: [ c ] } }
      - { when: "{{ error is defined }}", then: { next: [ d ] } }
    next: [ b ]
  - { step: b, next: [ c ] }
  - { step: c, next: { arcs: [ { step: b, when: "{{ workload.again }}" }, { step: d } ] } }
  - step: d
"""
    )
    assert {step.name: step.incoming for step in found.steps} == {"start": 0, "b": 2, "c": 2, "d": 2}
    assert found.step("start").reaches == ("b", "c", "d")
    assert found.step("b").reaches == ("b", "c", "d")
    assert found.step("d").reaches == ()


def test_failure_arcs_do_not_synchronise(program):
    found = program(
        """\
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [ { step: b }, { step: alarm, when: "{{ event.name == 'step.failed' }}" } ] }
  - step: b
  - { step: alarm, next: [ b ] }
"""
    )
    assert found.step("start").reaches == ("b",)
    assert (found.step("alarm").incoming, found.step("b").incoming) == (0, 2)


@pytest.mark.parametrize(
    ("tool", "pool"),
    [
        ("{ kind: noop }", "control"),
        ("[ { kind: noop }, { kind: http, url: x } ]", "io"),
        ("[ { kind: duckdb, query: SELECT 1 }, { kind: http, url: x } ]", "cpu"),
        ("[ { kind: python, code: x }, { kind: duckdb, query: SELECT 1 } ]", "python"),
        ("{ kind: script, uri: a.py, args: [ -v ] }", "python"),
    ],
)
def test_pool_is_that_of_the_most_demanding_kind(program, tool, pool):
    assert program(f"workflow:\n  - step: start\n    tool: {tool}\n").step("start").body.pool == pool


@pytest.mark.parametrize(
    ("tool", "params", "given"),
    [
        (
            "kind: script, path: a.py, args: [ -v ], input: { a: 1 }",
            {"uri": "a.py", "args": ["-v"]},
            {"a": 1},
        ),
        ("kind: postgres, table: t, args: [ { a: 1 } ]", {"table": "t", "args": [{"a": 1}]}, None),
        ("kind: postgres, table: t, args: { a: 1 }", {"table": "t"}, {"a": 1}),
        ("kind: python, code: x, args: { a: 1 }", {"code": "x"}, {"a": 1}),
    ],
)
def test_args_are_the_input_unless_the_kind_takes_a_list_of_that_name(program, tool, params, given):
    (task,) = program(f"workflow:\n  - step: start\n    tool: {{ {tool} }}\n").step("start").body.tasks
    assert task.params == LiteralNode(params)
    assert task.input == (None if given is None else LiteralNode(given))


def test_computed_rows_of_a_sink_go_to_the_kind(program):
    (task,) = (
        program(
            "workflow:\n  - step: start\n    tool: { kind: postgres, table: t, args: '{{ workload.rows }}' }\n"
        )
        .step("start")
        .body.tasks
    )
    assert task.input is None
    assert dict(task.params.entries)["args"].source == "workload.rows"


@pytest.mark.parametrize(
    ("write", "ordered"),
    [
        ("set_ctx: { a: 1 }", True),
        ("set: { vars.a: { add: 1 } }", True),
        ("set: { step.a: 1 }", True),
        ("set_iter: { a: 1 }", False),
    ],
)
def test_writes_of_sequential_loops_are_ordered(program, write, ordered):
    text = f"""\
workflow:
  - step: start
    loop: {{ in: [ 1 ], iterator: n, spec: {{ mode: sequential }} }}
    tool:
      - kind: noop
        spec: {{ policy: {{ rules: [ {{ else: {{ then: {{ do: continue, {write} }} }} }} ] }} }}
"""
    assert program(text).step("start").loop.ordered_writes is ordered
