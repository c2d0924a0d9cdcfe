"""Cases: which reply answers which call, what is found when something is not as expected, and what coverage counts."""

from __future__ import annotations

from noetl.testing.assertions import differences
from noetl.testing.mocks import matches
from tests.parts import over

FETCH = """
workflow:
  - step: start
    tool: { kind: http, method: POST, url: "http://api.test/{{ workload.what | default('a') }}", json: { n: 1 } }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, args: { v: "{{ start.v }}" } } }
"""

TWO = """
workload: { items: [1, 2, 3] }
workflow:
  - step: start
    loop: { in: "{{ workload.items }}", iterator: item, mode: parallel }
    tool:
      - page: { kind: http, url: "http://api.test/{{ iter.item }}" }
      - sum: { kind: python, args: { v: "{{ page.data.v }}" }, code: "result = {'sum': v + 1}" }
    next: { arcs: [{ step: store }] }
  - step: store
    tool: { kind: postgres, auth: db, query: "SELECT {{ start.results | length }} AS n" }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, args: { sums: "{{ start.results }}", n: "{{ store.rows[0].n }}" } } }
"""


@over(
    ("part", "whole", "fits"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": {"b": "x*z"}}, {"a": {"b": "x and\nz"}}, True),
        ({"a": "*"}, {"a": ""}, True),
        ({"a": "a.c"}, {"a": "abc"}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, True),
        ({"a": None}, {}, False),
        ({"a": None}, {"a": None}, True),
    ],
)
def test_a_part_fits(part, whole, fits):
    assert matches(part, whole) is fits


def test_differences_have_places_and_types():
    wanted = {"a": [1, {"b": 2}], "gone": None, "same": "x"}
    got = {"a": [1.0, {"b": 2}, 3], "same": "x", "new": True}
    found = [(one.where, one.expected, one.got) for one in differences(wanted, got, "result")]
    assert found == [
        ("result.a[0]", "1", "1.0"),
        ("result.a[2]", "nothing", "3"),
        ("result.gone", "null", "nothing"),
        ("result.new", "nothing", "true"),
    ]


def test_each_wrong_expectation_is_found_alone(play):
    head = "{ name: %s, tools: { start: { body: { v: 1 } } }, expect: { %s } }"
    wrong = {
        "status": "status: failed",
        "result": "result: { v: 2 }",
        "part": "result_has: { w: 1 }",
        "path": "path: [end, start]",
        "never": "never: [end]",
        "runs": "runs: { end: 2 }",
        "count": "calls: { start: 2 }",
        "params": "calls: { start: [{ json: { n: 2 } }] }",
        "ctx": "ctx: { x: 1 }",
        "vars": "vars: { x: 1 }",
        "elapsed": "elapsed: 1",
        "events": "events: [step.exit end, step.exit start]",
        "executions": "executions: { tests/other: [completed] }",
    }
    ran = play(FETCH, "cases:\n" + "\n".join(f"  - {head % one}" for one in wrong.items()))
    assert {name: ran.findings(name) for name in wrong} == {
        "status": [("status", "failed", "completed")],
        "result": [("result.v", "2", "1")],
        "part": [("result", 'at least {"w": 1}', '{"v": 1}')],
        "path": [("path", "end → start", "start → end")],
        "never": [("never.end", "not entered", "entered once")],
        "runs": [("runs.end", "entered 2 times", "entered once")],
        "count": [("calls.start", "called 2 times", "called once")],
        "params": [("calls.start[0].body", '{"n": 2}', '{"n": 1}')],
        "ctx": [("ctx.x", "1", "nothing")],
        "vars": [("vars.x", "1", "nothing")],
        "elapsed": [("elapsed", "1 s", "0 s")],
        "events": [("events[1]", "step.exit start", "step.exit start, step.exit end")],
        "executions": [("executions.tests/other", '["completed"]', "nothing")],
    }


def test_what_is_right_passes_in_every_form(play):
    ran = play(
        FETCH,
        """
cases:
  - name: all of it
    tools: { start: { body: { v: 1 }, delay: 2.5, headers: { ETag: x } } }
    expect:
      status: completed
      result: { v: 1 }
      result_has: { v: 1 }
      path: [[start], end]
      runs: { start: 1 }
      calls: { start: [{ url: "*/a", payload: { n: 1 } }], start/start_task: 1 }
      elapsed: 2.5
      events: [step.enter start, next.evaluated, playbook.completed]
      executions: {}
  - name: a failure
    tools: { start: { status: 409, body: { taken: true } } }
    expect:
      error:
        { kind: client_error, code: http_409, status: 409, step: start, retryable: false, message: POST, details: { body: { taken: true } } }
  - { name: its own error, tools: { start: { error: { kind: auth, code: x, message: no } } }, expect: { error: { kind: auth, code: x } } }
""",
    )
    assert {name: ran.findings(name) for name in ran} == {
        "all of it": [],
        "a failure": [],
        "its own error": [],
    }


def test_no_case_meets_what_another_one_left_in_a_process_of_the_playbook(play):
    counted = """
workflow:
  - step: start
    tool: &count
      kind: python
      process: playbook
      code: |
        import sys
        sys.calls = getattr(sys, "calls", 0) + 1
        result = {"calls": sys.calls}
    next: { arcs: [{ step: end }] }
  - { step: end, tool: *count }
"""
    cases = [f"  - {{ name: {name}, expect: {{ result: {{ calls: 2 }} }} }}\n" for name in ("one", "two")]
    ran = play(counted, "cases:\n" + "".join(cases), shuffle=2)
    assert list(ran) == ["one", "two"]
    assert ran.wrong == {}


def test_a_call_that_paginates_is_given_a_page_or_all_items(play):
    pages = """
workflow:
  - step: start
    tool: { kind: http, url: "http://api.test/a", paginate: { by: page, items: $.data.rows } }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, args: { rows: "{{ start.data }}", count: "{{ start.count }}", more: "{{ start.more }}" } } }
"""
    ran = play(
        pages,
        """
defaults: { expect: { result: { rows: [1, 2], count: 2, more: false } } }
cases:
  - { name: a page, tools: { start: { body: { data: { rows: [1, 2] } } } } }
  - { name: all items, tools: { start: { body: [1, 2] } } }
""",
    )
    assert {name: ran.findings(name) for name in ran} == {"a page": [], "all items": []}


def test_replies_by_call_item_and_kind(play):
    ran = play(
        TWO,
        """
defaults: { tools: { store: { rows: [{ n: 3 }] } } }
cases:
  - name: by what is asked
    tools:
      start/page:
        - { when: { url: "*/1" }, body: { v: 10 } }
        - { when: { endpoint: "*/2" }, replies: [{ body: { v: 20 } }] }
        - { default: { body: { v: 0 } } }
    expect: { result: { sums: [{ sum: 11 }, { sum: 21 }, { sum: 1 }], n: 3 } }
  - name: by item
    tools: { "page[0]": { body: { v: 1 } }, page: { body: { v: 2 } }, "start/sum[2]": { result: { sum: 9 } } }
    expect: { result: { sums: [{ sum: 2 }, { sum: 3 }, { sum: 9 }], n: 3 } }
  - name: one after the other
    tools: { start: [{ body: { v: 1 } }, { body: { v: 2 } }, { body: { v: 3 } }], sum: { result: {} } }
    expect: { calls: { store: [{ auth: db }], start/page: 3 } }
""",
    )
    assert ran.wrong == {}


def test_the_script_is_held_to(play):
    ran = play(
        FETCH,
        """
cases:
  - { name: no reply }
  - { name: none that fits, tools: { start: [{ when: { url: "*/b" }, body: {} }] } }
  - { name: too many, tools: { start: [{ body: { v: 1 } }, { body: { v: 2 } }] } }
  - { name: too many of a choice, tools: { start: [{ when: { url: "*" }, replies: [{ body: { v: 1 } }, { body: {} }] }] } }
  - { name: too many and said so, tools: { start: [{ body: { v: 1 } }, { body: { v: 2 } }] }, unused_tools: true }
  - { name: too late, tools: { start: { body: { v: 1 } } }, happenings: [{ when: { calls: 5 }, cancel: x }] }
""",
    )
    told = {
        name: [found.message.splitlines()[0] for found in report.findings[:1]] for name, report in ran.items()
    }
    assert told == {
        "no reply": [
            'start (http) reaches outside and has no reply: POST http://api.test/a {"body": {"n": 1}}'
        ],
        "none that fits": ['no `when` of start fits this call: POST http://api.test/a {"body": {"n": 1}}'],
        "too many": ["start: 1 reply was never asked for (or write unused_tools: true)"],
        "too many of a choice": ["start #1: 1 reply was never asked for (or write unused_tools: true)"],
        "too many and said so": [],
        "too late": ["this never happened, its moment did not come: {'when': {'calls': 5}, 'cancel': 'x'}"],
    }
    assert "add under `tools`:  start: { body: {} }" in ran["no reply"].findings[0].message


def test_what_nobody_answered_has_the_line_that_does(play):
    playbook = """
workflow:
  - step: start
    tool: { kind: wait, approve: true, message: "Go?" }
"""
    cases = "cases:\n  - name: asked\n"
    (found,) = play(playbook, cases)["asked"].findings
    says, _, line = found.message.partition("\nadd under `happenings`:  ")
    assert (found.where, says) == ("status", "step start waits for an answer")
    assert line == "- { when: idle, callback: { step: start, body: { approved: true } } }"
    assert play(playbook, f"{cases}    happenings:\n      {line}\n").findings("asked") == []


def test_parameters_of_a_replaced_call_are_checked(play):
    playbook = FETCH.replace('url: "http://api.test/', 'timeout: "{{ \'soon\' }}", url: "http://api.test/')
    ran = play(
        playbook,
        "cases: [{ name: a, tools: { start: { body: {} } }, expect: { error: { code: kind_params } } }]",
    )
    assert ran.findings("a") == []


DURATIONS = """\
defaults:
  tools: { fetch: [{ default: { body: {}, delay: 90s } }] }
cases:
  - { name: a default, expect: { elapsed: 1m30s } }
  - { name: the next reply, tools: { fetch: [{ body: {}, delay: 2h }] }, expect: { elapsed: 2h } }
  - { name: a choice, tools: { fetch: [{ when: { url: 'https://a.test' }, replies: [{ body: {}, delay: 500ms }] }] }, expect: { elapsed: 0.5 } }
  - name: a moment
    tools: { fetch: { body: {}, delay: 6h } }
    happenings: [{ at: 5h, cancel: enough }]
    expect: { status: cancelled, elapsed: 5h }
"""


def test_durations_are_written_as_in_playbooks(play):
    ran = play(
        "workflow:\n  - { step: fetch, tool: { kind: http, url: 'https://a.test', spec: { timeout: 1d } } }\n",
        DURATIONS,
    )
    assert (len(ran), ran.wrong) == (4, {})


def test_time_of_calls(play):
    playbook = """
workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }, { step: c }] }
  - { step: a, tool: { kind: http, url: "http://a.test/", timeout: 4 }, next: { arcs: [{ step: end }] } }
  - { step: b, tool: { kind: http, url: "http://b.test/", spec: { timeout: 5 } }, next: { arcs: [{ step: end }] } }
  - step: c
    spec: { timeout: 6 }
    tool: { kind: http, url: "http://c.test/" }
    next: { arcs: [{ step: end }] }
  - { step: end }
"""
    ran = play(
        playbook,
        """
defaults: { tools: { a: { body: {}, delay: 3 }, b: { body: {}, delay: 3 }, c: { body: {}, delay: 3 } } }
cases:
  - { name: side by side, expect: { elapsed: 3 } }
  - { name: the call's own limit, tools: { a: { body: {}, delay: 4.5 } }, expect: { error: { step: a, kind: timeout }, elapsed: 4 } }
  - { name: the task's limit, tools: { b: { body: {}, delay: 5.5 } }, expect: { error: { step: b, kind: timeout }, elapsed: 5 } }
  - { name: the step's limit, tools: { c: { body: {}, delay: 6.5 } }, expect: { error: { step: c, kind: timeout }, elapsed: 6 } }
""",
    )
    assert ran.wrong == {}


def test_an_endless_playbook_ends_its_case_only(play, monkeypatch):
    monkeypatch.setattr("noetl.testing.driver.MOST_TICKS", 200)
    playbook = "workflow: [{ step: start, tool: { kind: http, url: 'http://a.test/' }, next: start }]\n"
    ran = play(
        playbook,
        "cases: [{ name: a, tools: { start: { body: {} } } }, { name: b, tools: { start: { status: 404 } }, expect: { status: failed } }]",
    )
    assert [found.message for found in ran["a"].findings] == ["no end after 200 moves"]
    assert ran["b"].passed


def test_replies_that_always_ask_for_more_end_their_case(play, monkeypatch):
    monkeypatch.setattr("noetl.testing.play_case.MOST_CALLS", 1500)
    playbook = """
workflow:
  - step: start
    tool:
      - page:
          kind: http
          url: "http://a.test/"
          spec: { policy: { rules: [{ when: "{{ outcome.result.data.more }}", then: { do: jump, to: page } }] } }
"""
    ran = play(playbook, "cases: [{ name: a, tools: { start: { body: { more: true } } } }]")
    (found,) = ran["a"].findings
    assert found.message.startswith("no end after 1500 calls: start/page was called 1")


def test_a_payload_that_is_refused_is_a_finding(play):
    playbook = "input: { type: object, required: [id] }\nworkflow: [{ step: start }]\n"
    ran = play(playbook, "cases: [{ name: a }, { name: b, payload: { id: 1 } }]")
    assert "id" in ran["a"].findings[0].message
    assert ran["b"].passed


def test_duckdb_runs_in_memory_and_needs_a_reply_for_a_file(play):
    ran = play(
        """
workload: { database: null }
workflow:
  - step: start
    tool: { kind: duckdb, query: "SELECT 40 + 2 AS n" }
    next: { arcs: [{ step: kept, when: "{{ workload.kept | default(false) }}" }] }
  - { step: kept, tool: { kind: duckdb, database: state, query: "SELECT 1 AS n" } }
""",
        """
cases:
  - { name: in memory, expect: { result_has: { rows: [{ n: 42 }] } } }
  - { name: in a file, payload: { kept: true }, expect: { status: failed } }
  - name: replaced
    payload: { kept: true }
    tools: { kept: { rows: [{ n: 7 }] } }
    expect: { result: { columns: [n], rows: [{ n: 7 }], row_count: 1 } }
""",
    )
    assert [name for name in ran if not ran[name].passed] == ["in a file"]
    assert "add under `tools`:  kept: { rows: [] }" in ran["in a file"].findings[0].message


def test_credentials_are_made_up_or_missing(play):
    playbook = """
keychain: [{ name: api, kind: secret, credential: shop }]
workflow:
  - { step: start, tool: { kind: http, url: "http://a.test/", headers: { X-Key: "{{ keychain.api.key }}" } } }
"""
    ran = play(
        playbook,
        """
defaults: { tools: { start: { body: 1 } } }
cases:
  - { name: given, credentials: { shop: { key: abcdef } }, expect: { calls: { start: [{ headers: { X-Key: abcdef } }] } } }
  - { name: missing, expect: { error: { kind: auth, hint: "add under `credentials`:  shop: { data: { … } }" } } }
""",
    )
    assert ran.wrong == {}


BRANCHES = """
workbook:
  - name: ask
    tool:
      kind: http
      url: "http://a.test/"
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 2, delay: 1 } }] } }
workflow:
  - step: start
    tool: { kind: workbook, name: ask }
    spec: { compensate: { kind: http, url: "http://undo.test/" } }
    next:
      arcs:
        - { step: gate, when: "{{ event.name == 'step.done' }}" }
        - { step: end, when: "{{ event.name == 'step.failed' }}" }
  - step: gate
    spec: { policy: { admit: { rules: [{ when: "{{ ctx.go is defined }}", then: { allow: true } }, { else: { then: { allow: false } } }] } } }
    next: { arcs: [{ step: check }] }
  - step: check
    tool: { kind: workbook, name: ask }
    case:
      - when: "{{ event.name == 'call.done' and result.v > 1 }}"
        then: { next: [{ step: end }] }
    next: bad
  - { step: bad, tool: { kind: http, url: "http://b.test/" }, next: end }
  - { step: end }
"""


def test_coverage_counts_every_sort_of_branch_once(play):
    nothing = play(BRANCHES, "cases: [{ name: a, tools: { start: { status: 503 } } }]")
    assert nothing["a"].passed
    assert nothing.missed == [
        "compensation of step start",
        "arc start → gate",
        "step gate",
        "an admission rule of step gate (yes)",
        "an admission rule of step gate (park)",
        "arc gate → check",
        "step check",
        "a case entry of step check",
        "arc check → bad",
        "step bad",
        "arc bad → end",
    ]
    assert "failure arc" in {branch.kind for branch in nothing.run.coverage.taken}

    everything = play(
        BRANCHES,
        """
defaults: { happenings: [{ when: idle, patch: { go: true } }] }
cases:
  - { name: fails, tools: { start: { status: 503 } }, happenings: [] }
  - { name: large, tools: { start: { body: {} }, check: { body: { v: 2 } } }, expect: { path: [start, gate, check, end] } }
  - name: small
    tools: { start: { body: {} }, check: { body: { v: 1 } }, bad: { body: {} } }
    expect: { path: [start, gate, check, bad, end] }
  - name: undone
    tools: { start: { body: {} }, check: { body: { v: 1 } }, bad: { status: 404 }, start/start_compensate: { body: {} } }
    expect: { error: { step: bad } }
""",
    )
    assert everything.wrong == {}
    assert everything.missed == []
    assert everything.run.coverage.percent == 100.0


def test_a_handler_of_all_steps_is_one_branch(play):
    playbook = """
executor: { spec: { on_error: report } }
workflow:
  - { step: start, tool: { kind: http, url: "http://a.test/" }, next: second }
  - { step: second, tool: { kind: http, url: "http://b.test/" }, next: third }
  - { step: third, tool: { kind: noop } }
  - { step: report, tool: { kind: noop } }
"""
    ran = play(
        playbook,
        """
cases:
  - { name: well, tools: { start: { body: {} }, second: { body: {} } } }
  - { name: ill, tools: { start: { body: {} }, second: { status: 500 } }, expect: { path: [start, second, report] } }
""",
    )
    assert ran.missed == []


RACE = """
workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: http, url: "http://a.test/" }, set_ctx: { last: a }, next: { arcs: [{ step: end }] } }
  - { step: b, tool: { kind: http, url: "http://b.test/" }, set_ctx: { last: b }, next: { arcs: [{ step: end }] } }
  - { step: end, tool: { kind: noop, args: { ANSWER: 1 } } }
"""
RACE_CASE = "cases: [{ name: both, tools: { a: { body: 1 }, b: { body: 2 } } }]"


def test_shuffling_finds_a_race_and_its_seed_shows_it_again(play):
    assert play(RACE, RACE_CASE)["both"].passed
    found = play(RACE, RACE_CASE, shuffle=20)["both"]
    assert [(one.where, one.expected, one.got) for one in found.findings] == [("ctx.last", '"b"', '"a"')]
    assert found.seed is not None
    again = play(RACE, RACE_CASE, shuffle=1, seed=found.seed)["both"]
    assert [one.where for one in again.findings] == ["ctx.last"]
    assert again.seed == found.seed


def test_shuffling_passes_what_is_not_a_race(play):
    playbook = RACE.replace("set_ctx: { last: a }", "set: { ctx.sum: { add: 1 } }").replace(
        "set_ctx: { last: b }", "set: { ctx.sum: { add: 2 } }"
    )
    report = play(playbook, RACE_CASE, shuffle=20)["both"]
    assert (report.passed, report.orders, report.seed) == (True, 20, None)


def test_runs_repeat_exactly(play):
    playbook = "workflow: [{ step: start, tool: { kind: noop, args: { id: '{{ execution_id }}' } } }]\n"
    cases = "cases: [{ name: a, expect: { result: {} } }, { name: b, expect: { result: {} } }]"
    ran = play(playbook, cases)
    assert ran.findings("a") == ran.findings("b") == play(playbook, cases).findings("b") != []


def test_a_called_playbook_is_run_or_replaced(play, put):
    put("workflow: [{ step: start, tool: { kind: http, url: 'http://child.test/' } }]\n", name="child")
    put("workflow: [{ step: start, tools: 1 }]\n", name="broken")
    playbook = "workflow: [{ step: start, tool: { kind: playbook, path: '{{ workload.path }}' } }]\nworkload: { path: tests/child }\n"
    ran = play(
        playbook,
        """
cases:
  - name: run
    tools: { "child:start": { body: { v: 1 } } }
    expect: { result: { v: 1 }, executions: { tests/child: [completed] }, calls: { "child:start": 1 } }
  - name: replaced
    tools: { start: { result: { v: 2 } } }
    expect: { result: { v: 2 }, executions: {}, calls: { start: [{ path: tests/child }] } }
  - { name: fails, tools: { start: { error: { kind: timeout } } }, expect: { error: { kind: timeout, step: start } } }
  - { name: unknown, payload: { path: tests/other }, expect: { status: failed } }
""",
    )
    assert [name for name in ran if not ran[name].passed] == ["unknown"]
    assert (
        ran["unknown"]
        .findings[0]
        .message.startswith("no playbook here is tests/other (there are: tests/child, tests/play)")
    )
