"""The event form lowered: cases by side, actions, retries, vars, sinks, iterators, workbook calls."""

from __future__ import annotations

import pytest

from noetl.dsl.program import (
    CallAction,
    CollectAction,
    Expr,
    FailAction,
    LiteralNode,
    Map,
    NextAction,
    ResultAction,
    RetryAction,
    RunAction,
    SetAction,
    SinkAction,
    SkipAction,
    Sql,
    Text,
)


def only_step(program, body, name="start"):
    return program("workflow:\n" + body).step(name)


def case(when, then):
    return f"""\
  - step: start
    tool: {{ kind: http, url: http://127.0.0.1/ }}
    case:
      - when: "{{{{ {when} }}}}"
        then: {then}
    next: [ other ]
  - step: other
"""


@pytest.mark.parametrize(
    ("when", "worker", "engine"),
    [
        ("event.name == 'call.done'", ("call.done",), None),
        ("event.name == 'worker.done'", ("call.done",), None),
        ("event.name == 'call.error' and error.status == 503", ("call.error",), None),
        ("event.name in ['loop.item', 'loop.done']", ("loop.item",), ("loop.done",)),
        ("event.name == 'step.exit'", None, ("step.exit",)),
        ("event.name == 'step.enter'", None, ("step.enter",)),
        ("event.name != 'step.enter'", ("call.done", "call.error", "loop.item"), ("loop.done", "step.exit")),
        ("error is defined", ("call.error",), ("step.exit",)),
        ("this.status == 'error' and ctx.x is defined", ("call.error",), ("step.exit",)),
        ("result is defined", None, ("step.exit",)),
        ("event.payload.error.status == 404", ("call.error",), ("step.exit",)),
    ],
)
def test_cases_go_to_the_side_that_evaluates_them(program, when, worker, engine):
    step = only_step(program, case(when, "{ fail: no }"))
    assert [rule.events for rule in step.body.tasks[0].rules] == ([] if worker is None else [worker])
    assert [rule.events for rule in step.cases] == ([] if engine is None else [engine])


def test_entries_that_call_again_and_name_no_event_answer_calls(program):
    for then in ("{ retry: {} }", "[{ set: { ctx: { x: 1 } } }, { call: { params: { page: 2 } } }]"):
        step = only_step(program, case("result is defined", then))
        assert [rule.events for rule in step.body.tasks[0].rules] == [("call.done", "call.error")]
        assert step.cases == ()
    assert (
        only_step(program, case("result is defined", "{ call: { step: other } }")).body.tasks[0].rules == ()
    )


def action(program, then, when="event.name == 'call.done'"):
    rules = only_step(program, case(when, then)).body.tasks[0].rules
    return rules[0].actions


def test_retry_defaults_and_fields(program):
    (plain,) = action(program, "{ retry: true }")
    assert isinstance(plain, RetryAction)
    assert (plain.attempts, plain.delay, plain.multiplier, plain.backoff) == (
        LiteralNode(3),
        LiteralNode(1),
        LiteralNode(2),
        "exponential",
    )
    assert plain.exhausted == "next_rule"
    (full,) = action(
        program,
        '{ retry: { max_attempts: 5, initial_delay: 0.5, backoff_multiplier: 3, max_delay: 60, jitter: "{{ 1 }}" } }',
    )
    assert (full.attempts, full.delay, full.multiplier, full.max_delay) == (
        LiteralNode(5),
        LiteralNode(0.5),
        LiteralNode(3),
        LiteralNode(60),
    )
    assert isinstance(full.jitter, Expr)


@pytest.mark.parametrize(
    ("then", "source", "mode"),
    [
        ("{ collect: { from: response.rows, into: rows, mode: extend } }", "response.rows", "extend"),
        ('{ collect: { from: "{{ response.rows }}", into: ctx.rows } }', "response.rows", "append"),
        (
            "{ collect: { strategy: merge, path: '$.data.items[0]', into: rows } }",
            "response.data.items[0]",
            "merge",
        ),
    ],
)
def test_collect_has_two_shapes(program, then, source, mode):
    (found,) = action(program, then)
    assert isinstance(found, CollectAction)
    assert (found.source.source, found.into, found.mode) == (source, "rows", mode)


def test_call_overrides_use_first_names(program):
    (own,) = action(program, '{ call: { endpoint: "{{ response.next }}", body: { a: 1 } } }')
    assert isinstance(own, CallAction)
    assert isinstance(own.overrides, Map)
    assert [name for name, _ in own.overrides.entries] == ["url", "json"]
    (other,) = action(program, "{ call: { step: other, args: { a: 1 } } }")
    assert isinstance(other, NextAction)
    assert (other.targets[0].step, other.targets[0].args) == ("other", LiteralNode({"a": 1}))


def test_actions_keep_their_order(program):
    found = action(
        program,
        """
          - set: { ctx: { a: "{{ response.a }}" }, vars.b: 2, c: 3 }
          - sink: { tool: { kind: postgres, auth: db }, table: t, args: { a: 1 }, when: "{{ response.ok }}" }
          - result: { from: response.rows }
          - result: { from: x, to: y }
          - log: { kind: noop }
          - { name: audit, kind: postgres, command: "SELECT {{ ctx.a }}" }
          - skip: { message: "seen {{ response.id }}" }
          - fail: true
          - next: [ other, { step: other, args: { n: "{{ response.n }}" } } ]
""",
    )
    assert [type(item) for item in found] == [
        *(
            SetAction,
            SetAction,
            SetAction,
            SinkAction,
            ResultAction,
            ResultAction,
            RunAction,
            SkipAction,
            FailAction,
            NextAction,
        )
    ]
    assert [(a.scope, a.name) for a in found[:3]] == [("ctx", "a"), ("vars", "b"), ("ctx", "c")]
    sink = found[3]
    assert sink.task.params == LiteralNode({"auth": "db", "table": "t"})
    assert sink.task.input == LiteralNode({"a": 1})
    assert isinstance(sink.when, Expr)
    assert found[4].value.source == "response.rows"
    assert found[5].value == LiteralNode({"from": "x", "to": "y"})
    labels = [(task.label, task.kind, task.form) for task in found[6].tasks]
    assert labels == [("log", "noop", "canonical"), ("audit", "postgres", "canonical")]
    assert isinstance(found[6].tasks[1].params.entries[0][1], Sql)
    assert isinstance(found[7].message, Text)
    assert found[8].message is None
    assert [target.step for target in found[9].targets] == ["other", "other"]


def test_reducers_in_set(program):
    found = action(program, "{ set: { ctx.n: { add: 2 }, ctx.m: { add: 1, max: 2 } } }")
    assert [(a.name, a.op, a.value) for a in found] == [
        ("n", "add", LiteralNode(2)),
        ("m", "set", LiteralNode({"add": 1, "max": 2})),
    ]


def test_step_retry_vars_and_sink(program):
    step = only_step(
        program,
        """\
  - step: start
    tool: { kind: http, endpoint: http://127.0.0.1/ }
    retry: { max_attempts: 8, stop_when: "{{ result.ready }}", retry_when: "{{ status_code == 503 }}" }
    vars: { first: "{{ result.a }}", second: "{{ vars.first }}", three: 3 }
    sink: { tool: { kind: postgres, table: t, args: "{{ result }}" }, when: true }
""",
    )
    task = step.body.tasks[0]
    assert (task.label, task.form, task.params) == (
        "start_task",
        "event",
        LiteralNode({"url": "http://127.0.0.1/"}),
    )
    assert task.retry.action.attempts == LiteralNode(8)
    assert (task.retry.stop_when.source, task.retry.retry_when.source) == (
        "result.ready",
        "status_code == 503",
    )
    assert [name for name, _ in step.body.vars] == ["first", "second", "three"]
    (sink,) = step.body.sinks
    assert (sink.task.label, sink.task.input, sink.when) == ("start_sink", None, LiteralNode(True))
    params = dict(sink.task.params.entries)
    assert (params["table"], params["args"].source) == (LiteralNode("t"), "result")


def test_vars_alone_get_a_body_to_run_in(program):
    step = only_step(program, "  - step: start\n    vars: { before: { a: 1 }, after: { b: 2 } }\n")
    assert [task.kind for task in step.body.tasks] == ["noop"]
    assert (step.body.vars_before, step.body.vars, step.body.vars_after) == (
        (("a", LiteralNode(1)),),
        (),
        (("b", LiteralNode(2)),),
    )
    assert step.body.pool == "control"


def test_variables_may_be_called_before(program):
    step = only_step(program, "  - step: start\n    vars: { before: 1, x: 2 }\n")
    assert [name for name, _ in step.body.vars] == ["before", "x"]


def test_structural_next_is_inclusive_and_unconditional(program):
    step = only_step(
        program,
        """\
  - step: start
    next: [ b, { step: c, args: { x: 1 } } ]
  - { step: b, next: c }
  - { step: c, next: { step: d } }
  - step: d
""",
    )
    assert step.mode == "inclusive"
    assert [(arc.target, arc.index, arc.on, arc.sync, arc.when) for arc in step.arcs] == [
        ("b", 0, ("done",), True, None),
        ("c", 1, ("done",), True, None),
    ]
    assert step.arcs[1].args == LiteralNode({"x": 1})


@pytest.mark.parametrize(
    ("spelling", "mode"),
    [("", "sequential"), (", mode: parallel", "parallel"), (", mode: async", "parallel")],
)
def test_loop(program, spelling, mode):
    step = only_step(
        program,
        f"  - step: start\n    loop: {{ in: [ 1, 2 ], iterator: n{spelling} }}\n    tool: {{ kind: http, url: 'http://x/{{{{ n }}}}' }}\n",
    )
    assert (step.loop.collection, step.loop.iterator, step.loop.mode) == (LiteralNode([1, 2]), "n", mode)
    assert not step.loop.ordered_writes


def test_iterator_is_a_loop_that_keeps_its_variables(program):
    step = only_step(
        program,
        """\
  - step: start
    tool:
      kind: iterator
      collection: "{{ [1, 2] }}"
      element: row
      mode: parallel
      task: { tool: { kind: http, url: "http://x/{{ row }}" }, sink: { tool: { kind: postgres, table: t } } }
    next: [ after ]
  - step: after
    tool: { kind: http, url: "http://x/{{ vars.start_total }}" }
""",
    )
    assert (step.loop.iterator, step.loop.mode, step.loop.iterator_vars) == ("row", "parallel", True)
    assert [task.kind for task in step.body.tasks] == ["http"]
    assert [sink.task.kind for sink in step.body.sinks] == ["postgres"]


WORKBOOK = """\
workbook:
  notify:
    tool:
      kind: http
      url: http://127.0.0.1/notify
      input: { channel: ops, level: info }
      params: { channel: "{{ channel }}", text: "{{ input.text }}" }
      spec: { timeout: 3 }
    sink: { tool: { kind: postgres, command: "INSERT INTO sent VALUES ({{ result.id }})" } }
  twice: { kind: workbook, name: notify, with: { level: high } }
workflow:
"""


@pytest.mark.parametrize(
    ("call", "level"),
    [
        ("{ kind: workbook, name: notify, with: { text: hi } }", "info"),
        ("{ kind: workbook, task: twice, args: { text: hi } }", "high"),
    ],
)
def test_workbook_calls_are_replaced(program, call, level):
    step = program(WORKBOOK + f"  - step: start\n    tool: {call}\n").step("start")
    (task,) = step.body.tasks
    assert (task.kind, task.label, task.timeout) == ("http", "start_task", LiteralNode(3))
    assert task.input == LiteralNode({"channel": "ops", "level": level, "text": "hi"})
    (sink,) = task.sinks
    assert isinstance(sink.task.params.entries[0][1], Sql)
    assert step.body.reads.names == ()


def test_workbook_as_a_list(program):
    text = "workbook:\n  - { name: a, tool: { kind: noop } }\nworkflow:\n  - step: start\n    tool: { kind: workbook, name: a }\n"
    assert program(text).step("start").body.tasks[0].kind == "noop"


def test_mixed_forms_in_one_playbook(program):
    found = program(
        """\
workflow:
  - { step: start, tool: { kind: noop }, next: [ b ] }
  - { step: b, tool: [ { kind: noop } ], next: { arcs: [ { step: c } ] } }
  - { step: c, tool: { kind: noop } }
"""
    )
    assert [(step.name, step.form) for step in found.steps] == [
        ("start", "event"),
        ("b", "canonical"),
        ("c", "event"),
    ]
