"""Event form: ``case`` entries for calls and iterations, step-level ``retry``, ``vars``, ``sink``."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from noetl.domain.commands import FrozenScope
from noetl.domain.outcomes.outcomes import ErrorInfo, Target
from noetl.pipeline import Item, TaskOutcome

from .conftest import Driven, Run

BUSY = ErrorInfo("busy", "server_error", status=503, retryable=True, details={"body": {"why": "load"}})
BROKEN = ErrorInfo("broken", "client_error", status=400)


def step(
    *entries: str,
    tool: str = "{ kind: http, url: u }",
    extra: str = "",
    iterator: str = "",
    workload: str = "{}",
) -> str:
    lines = [f"workload: {workload}", "workflow:", "  - step: s", f"    tool: {tool}"]
    if iterator:
        lines.append(f"    loop: {{ in: '{{{{ [1] }}}}', iterator: {iterator} }}")
    if entries:
        lines.append("    case:")
        lines += [f"      - {entry}" for entry in entries]
    lines += ["    " + line for line in extra.strip("\n").splitlines()]
    lines += [
        "    next: [other, third]",
        "  - step: other",
        "    tool: { kind: noop }",
        "  - step: third",
        "    tool: { kind: noop }",
    ]
    return "\n".join(lines) + "\n"


def http(body: Any, status: int = 200) -> dict[str, Any]:
    return {"status_code": status, "headers": {"x": "1"}, "url": "u", "elapsed": 0.1, "data": body}


def on(guard: str, then: str) -> str:
    """A case entry."""
    return f'{{ when: "{{{{ {guard} }}}}", then: {then} }}'


DONE = "event.name == 'call.done'"
ERROR = "event.name == 'call.error'"


def test_the_result_is_the_body_and_response_shows_both(run: Run) -> None:
    seen = (
        "{ c: '{{ response.status_code }}', n: '{{ response.n }}', d: '{{ response.data }}', t: '{{ this.data.n }}',"
        " r: '{{ result.n }}', m: '{{ this.status }}', h: '{{ response.headers.x }}' }"
    )
    made = run(
        step(on(DONE, f"[{{ result: {seen} }}]")),
        {"s_task": [http({"n": 5})]},
    )
    assert made.outcome.result == {
        "c": 200,
        "n": 5,
        "d": {"n": 5},
        "t": 5,
        "r": 5,
        "m": "success",
        "h": "1",
    }
    plain = run(step(), {"s_task": [http({"n": 5})]})
    assert (plain.outcome.result, plain.outcome.trace) == ({"n": 5}, [])


def test_pagination_with_call_and_collect(run: Run) -> None:
    body = step(
        on(
            f"{DONE} and response.next is defined",
            "[{ collect: { from: response.rows, into: rows, mode: extend } },"
            " { call: { params: { page: '{{ response.next }}' } } }]",
        ),
        on(
            DONE,
            "[{ collect: { from: response.rows, into: rows, mode: extend } }, { result: { from: ctx.rows } }]",
        ),
        tool="{ kind: http, url: u, params: { page: 1, size: 50 } }",
    )
    pages = [http({"rows": [1, 2], "next": 2}), http({"rows": [3], "next": 3}), http({"rows": [4]})]
    made = run(body, {"s_task": pages})
    assert made.outcome.result == [1, 2, 3, 4]
    assert [params["params"] for params in made.params()] == [{"page": n, "size": 50} for n in (1, 2, 3)]
    assert [call.key for call in made.calls] == ["s_task", "s_task#2", "s_task#3"]
    assert made.patches() == {"ctx.rows": ("extend", [1, 2, 3, 4])}


@pytest.mark.parametrize("event", [ERROR, DONE])
def test_retry_answers_a_failure_however_its_event_is_called(run: Run, event: str) -> None:
    body = step(
        on(
            f"{event} and error.status == 503",
            "{ retry: { max_attempts: 3, initial_delay: 2, backoff_multiplier: 3 } }",
        )
        if event == ERROR
        else on(
            f"{event} and error is defined and error.status == 503",
            "{ retry: { max_attempts: 3, initial_delay: 2, backoff_multiplier: 3 } }",
        )
    )
    made = run(body, {"s_task": [BUSY, BUSY, http(1)]})
    assert (made.outcome.status, made.outcome.result, made.delays) == ("ok", 1, [2.0, 6.0])
    assert made.facts().count("retry.scheduled") == 2
    failed = run(body, {"s_task": [BUSY]})
    told = replace(BUSY, position="t.yaml:7:13")
    assert (failed.outcome.status, len(failed.calls), failed.outcome.error) == ("error", 3, told)


@pytest.mark.parametrize(
    ("answer", "status", "result", "route"),
    [
        (
            "next: [{ step: other, args: { why: '{{ error.body.why }}' } }]",
            "ok",
            None,
            [("other", {"why": "load"})],
        ),
        ("result: { value: '{{ error.status }}' }", "ok", {"value": 503}, None),
        ("skip: { message: 'not today' }", "skipped", "not today", None),
        ("fail: { message: 'gave up: {{ error.message }}' }", "error", None, None),
        ("set: { ctx: { seen: '{{ error.kind }}' } }", "error", None, None),
    ],
)
def test_what_answers_a_failure(
    run: Run, answer: str, status: str, result: Any, route: list[tuple[str, Any]] | None
) -> None:
    made = run(step(on(ERROR, f"[{{ {answer} }}]")), {"s_task": [BUSY]})
    assert (made.outcome.status, made.outcome.result) == (status, result)
    wanted = None if route is None else [Target(name, args) for name, args in route]
    assert made.outcome.route == wanted
    if status == "error":
        message = "gave up: busy" if answer.startswith("fail") else "busy"
        assert made.outcome.error is not None and made.outcome.error.message == message


def test_an_exhausted_retry_counts_as_no_match_and_later_entries_are_tried(run: Run) -> None:
    made = run(
        step(
            on(f"{ERROR} and error.retryable", "{ retry: { max_attempts: 2, initial_delay: 0 } }"),
            on(ERROR, "{ next: third }"),
        ),
        {"s_task": [BUSY]},
    )
    assert (len(made.calls), made.outcome.route) == (2, [Target("third")])


def test_an_entry_that_does_not_answer_leaves_the_failure_to_call_done_and_runs_once(run: Run) -> None:
    made = run(
        step(
            "{ when: \"{{ event.name in ['call.error', 'call.done'] }}\", then: [{ collect: { from: error.kind, into: kinds } }] }",
            on(f"{DONE} and response.ready", "[{ result: 1 }]"),
            on(DONE, "[{ next: other }]"),
        ),
        {"s_task": [BROKEN]},
    )
    assert (made.outcome.status, made.outcome.route) == ("ok", [Target("other")])
    assert made.patches() == {"ctx.kinds": ("append", "client_error")}


def test_a_guard_that_fails_is_an_error_with_its_place(run: Run) -> None:
    made = run(
        step(on(f"{DONE} and event + 1", "{ next: other }")),
        {"s_task": [http({})]},
    )
    error = made.outcome.error
    assert error is not None and (error.code, (error.position or "")[:9]) == ("template_error", "t.yaml:9:")


def retrying(fields: str, calls: list[Any], run: Run) -> Driven:
    return run(step(extra=f"retry: {{ {fields} }}"), {"s_task": calls})


@pytest.mark.parametrize(
    ("fields", "calls", "tries", "status", "code"),
    [
        ("max_attempts: 3, initial_delay: 0", [BUSY, http(1)], 2, "ok", None),
        ("max_attempts: 2, initial_delay: 0", [BUSY], 2, "error", None),
        ("initial_delay: 0", [BUSY], 3, "error", None),
        ("initial_delay: 0, retry_when: '{{ error.status == 503 }}'", [BUSY, http(1)], 2, "ok", None),
        ("initial_delay: 0, retry_when: '{{ error.status == 503 }}'", [BROKEN, http(1)], 1, "error", None),
        ("initial_delay: 0, retry_when: '{{ status_code == 202 }}'", [http(0, 202), http(1)], 2, "ok", None),
        ("max_attempts: 5, initial_delay: 0, stop_when: '{{ data.done }}'", [http({"done": False})] * 3 + [http({"done": True})], 4, "ok", None),
        ("max_attempts: 3, initial_delay: 0, stop_when: '{{ result.done }}'", [http({"done": False})], 3, "error", "retry_exhausted"),
        ("max_attempts: 4, initial_delay: 0, stop_when: '{{ response.done }}'", [BUSY, http({"done": True})], 2, "ok", None),
        ("max_attempts: 4, initial_delay: 0, stop_when: '{{ attempt == 2 and max_attempts == 4 }}'", [http(1)], 2, "ok", None),
        ("max_attempts: 4, initial_delay: 0, retry_when: '{{ not success }}', stop_when: '{{ status_code == 400 }}'", [BUSY, BROKEN, http(1)], 2, "error", None),  # noqa: E501
    ],
)  # fmt: skip
def test_step_level_retry(
    run: Run, fields: str, calls: list[Any], tries: int, status: str, code: str | None
) -> None:
    made = retrying(fields, calls, run)
    assert (len(made.calls), made.outcome.status) == (tries, status)
    if code is not None:
        assert made.outcome.error is not None and made.outcome.error.code == code


def test_step_level_retry_waits_one_second_doubled_by_default(run: Run) -> None:
    assert retrying("max_attempts: 4", [BUSY], run).delays == [1.0, 2.0, 4.0]
    assert retrying("max_attempts: 4, max_delay: 3", [BUSY], run).delays == [1.0, 2.0, 3.0]


def test_jitter_shortens_by_the_chance_it_is_given(run: Run) -> None:
    unlucky = TaskOutcome(error=BUSY, chance=0.5)
    made = retrying("max_attempts: 2, initial_delay: 8, jitter: true", [unlucky, http(1)], run)
    assert made.delays == [6.0]
    made = retrying("max_attempts: 2, initial_delay: 8, jitter: 0.2", [unlucky, http(1)], run)
    assert made.delays == [7.2]


def test_a_template_that_cannot_be_rendered_is_not_tried_again(run: Run) -> None:
    made = run(
        step(tool="{ kind: http, url: '{{ ctx[_task] }}' }", extra="retry: { max_attempts: 3 }"),
    )
    assert (made.calls, made.delays, made.outcome.status) == ([], [], "error")


def test_vars_see_the_result_and_each_other_and_rules_see_them(run: Run) -> None:
    made = run(
        step(
            on(
                f"{DONE} and vars.twice == 10",
                '[{ next: [{ step: other, args: { t: "{{ vars.twice }}" } }] }]',
            ),
            extra="vars: { n: '{{ result.n }}', twice: '{{ vars.n * 2 }}', zero: 0, none: null }",
        ),
        {"s_task": [http({"n": 5})]},
    )
    assert made.patches() == {
        "vars.n": ("set", 5),
        "vars.twice": ("set", 10),
        "vars.zero": ("set", 0),
        "vars.none": ("set", None),
    }
    assert made.outcome.route == [Target("other", {"t": 10})]


def test_vars_count_once_and_follow_a_replaced_result(run: Run) -> None:
    made = run(
        step(
            on(f"{DONE} and response.more", "{ call: { params: { p: 2 } } }"),
            on(DONE, "[{ result: { n: 100 } }]"),
            extra="vars: { n: '{{ result.n }}', runs: '{{ vars.runs | default(0) + 1 }}' }",
        ),
        {"s_task": [http({"n": 1, "more": True}), http({"n": 2, "more": False})]},
        scope=FrozenScope(vars={"runs": 7}),
    )
    assert made.patches() == {"vars.n": ("set", 100), "vars.runs": ("set", 8)}


def test_vars_are_not_written_on_failure_but_after_is(run: Run) -> None:
    extra = "vars: { before: { a: 1 }, after: { b: '{{ error.message | default(\"fine\") }}' } }"
    failed = run(step(extra=extra), {"s_task": [BROKEN]})
    assert failed.patches() == {"vars.a": ("set", 1), "vars.b": ("set", "broken")}
    fine = run(step(extra=extra), {"s_task": [http(1)]})
    assert fine.patches()["vars.b"] == ("set", "fine")
    plain = run(step(extra="vars: { n: '{{ result }}' }"), {"s_task": [BROKEN]})
    assert plain.outcome.patches == []


def test_vars_after_that_fail_do_not_hide_what_failed_first(run: Run) -> None:
    extra = "vars: { after: { b: '{{ result.rows }}' } }"
    twice, once = run(step(extra=extra), {"s_task": [BROKEN]}), run(step(extra=extra), {"s_task": [http(1)]})
    first, only = twice.outcome.error, once.outcome.error
    assert first is not None and only is not None
    assert (first.message, "result.rows" in first.details["vars_error"]) == ("broken", True)
    assert (only.code, "vars_error" in only.details) == ("undefined", False)


SINK = "sink: { tool: { kind: postgres, table: t, args: { v: '{{ result.n }}' } } }"


def test_a_step_sink_runs_after_the_call_with_the_result_in_scope(run: Run) -> None:
    made = run(step(extra=SINK), {"s_task": [http({"n": 3})]})
    assert [call.label for call in made.calls] == ["s_task", "s_sink"]
    assert made.calls[1].input == {"v": 3}
    assert made.outcome.result == {"n": 3}
    assert made.facts() == ["task.started", "task.done", "sink.started", "sink.processed"]


def test_a_sink_that_fails_fails_the_step(run: Run) -> None:
    made = run(step(extra=SINK), {"s_task": [http({"n": 3})], "s_sink": [BUSY]})
    error = made.outcome.error
    assert error is not None
    assert (made.outcome.status, error.message, error.details["sink"]) == (
        "error",
        "sink s_sink: busy",
        "s_sink",
    )
    assert made.outcome.trace[-1].status == "error"


@pytest.mark.parametrize(("when", "calls"), [("false", 1), ("true", 2)])
def test_a_sink_is_skipped_when_its_guard_says_so(run: Run, when: str, calls: int) -> None:
    made = run(
        step(extra=f"sink: {{ tool: {{ kind: postgres, table: t }}, when: '{{{{ {when} }}}}' }}"),
        {"s_task": [http({})]},
    )
    assert len(made.calls) == calls
    assert made.outcome.trace[-1].status == ("success" if calls == 2 else "skipped")


def test_no_sink_after_a_failed_or_skipped_call(run: Run) -> None:
    for answer in ("next: other", "skip: true"):
        made = run(step(on(ERROR, f"{{ {answer} }}"), extra=SINK), {"s_task": [BROKEN]})
        assert [call.label for call in made.calls] == ["s_task"]


def test_inline_tasks_run_before_the_next_of_their_list_and_sinks_after(run: Run) -> None:
    made = run(
        step(
            on(
                DONE,
                "[{ sink: { tool: { kind: postgres, table: t } } },"
                " { one: { kind: python, args: { n: '{{ response.n }}' }, code: x } },"
                " { two: { kind: python, args: { n: '{{ one.n + result.n }}' }, code: x } },"
                " { set: { ctx: { two: '{{ two }}' } } }, { next: [{ step: other, args: { two: '{{ two }}' } }] }]",
            ),
        ),
        {"s_task": [http({"n": 1})], "one": [{"n": 10}], "two": ["end"]},
    )
    assert [call.label for call in made.calls] == ["s_task", "one", "two", "s_case_0_sink"]
    assert [call.input for call in made.calls[1:3]] == [{"n": 1}, {"n": 11}]
    assert made.outcome.route == [Target("other", {"two": "end"})]
    assert made.outcome.result == {"n": 1}
    assert made.patches() == {"ctx.two": ("set", "end")}


def test_an_inline_task_that_is_retried_keeps_its_place(run: Run) -> None:
    rule = "{ when: \"{{ outcome.status == 'error' }}\", then: { do: retry, attempts: 3, delay: 4 } }"
    policy = f"{{ policy: {{ rules: [{rule}] }} }}"
    then = f"[{{ one: {{ kind: http, url: '{{{{ response.n }}}}', spec: {policy} }} }}, {{ result: {{ from: result.n }} }}]"
    made = run(step(on(DONE, then)), {"s_task": [http({"n": 9})], "one": [BUSY, 1]})
    assert (made.delays, made.outcome.result, [call.label for call in made.calls]) == (
        [4.0],
        9,
        ["s_task", "one", "one"],
    )


@pytest.mark.parametrize("delay", [0, 5])
def test_a_retry_is_told_when_its_entry_has_done_all_it_does(run: Run, delay: int) -> None:
    then = (
        f"[{{ retry: {{ max_attempts: 2, initial_delay: {delay} }} }}, {{ note: {{ kind: noop }} }},"
        " { sink: { tool: { kind: postgres, table: t } } }]"
    )
    made = run(step(on(ERROR, then)), {"s_task": [BUSY, http(1)], "note": [0]})
    assert made.delays == [5.0] * (delay > 0)
    told = ["task.started", "task.done", "case.evaluated", "task.started", "task.done", "sink.started"]
    again = ["retry.scheduled", "task.started", "task.done", "retry.processed"]
    assert made.facts() == [*told, "sink.processed", *again]


def test_inline_task_failure_fails_the_step(run: Run) -> None:
    made = run(
        step(on(DONE, "[{ one: { kind: noop } }, { next: other }]")),
        {"s_task": [http(1)], "one": [BROKEN]},
    )
    told = replace(BROKEN, position="t.yaml:9:68")
    assert (made.outcome.status, made.outcome.route, made.outcome.error) == ("error", None, told)


def test_loop_item_follows_the_items_result(run: Run) -> None:
    entries = (
        on(ERROR, "{ result: { bad: true } }"),
        "{ when: \"{{ event.name == 'loop.item' and result.bad is defined }}\", then: { next: other } }",
        "{ when: \"{{ event.name == 'loop.item' }}\", then: [{ sink: { tool: { kind: postgres, table: t, args: { b: '{{ book }}' } } } }] }",
    )
    body = step(*entries, iterator="book")
    item = Item(0, "moby", "book", 2)
    fine = run(body, {"s_task": [http({"n": 1})]}, item=item)
    assert [call.input for call in fine.calls] == [{}, {"b": "moby"}]
    bad = run(body, {"s_task": [BROKEN]}, item=item)
    assert (bad.outcome.result, bad.outcome.route) == ({"bad": True}, [Target("other")])
    alone = run(body, {"s_task": [http({"n": 1})]})
    assert len(alone.calls) == 1, "no loop, no loop.item"


def test_iterator_variables(run: Run) -> None:
    made = run(step(iterator="x"), {"s_task": [1]}, item=Item(3, "v", "x", 9, variables=True))
    assert made.patches() == {
        "vars.s_index": ("set", 3),
        "vars.s_item": ("set", "v"),
        "vars.s_count": ("set", 4),
        "vars.s_total": ("set", 9),
    }


def test_a_workbook_tasks_own_sink_runs_before_the_rules(run: Run) -> None:
    body = (
        "workbook:\n  - name: pull\n    tool: { kind: http, url: u }\n    "
        "sink: { tool: { kind: postgres, table: t, args: { v: '{{ result.n }}' } } }\n"
        + step(
            on(DONE, '[{ set: { ctx: { n: "{{ result.n }}" } } }]'),
            tool="{ kind: workbook, name: pull }",
        )
    )
    made = run(body, {"s_task": [http({"n": 8})]})
    assert len(made.calls) == 2
    assert made.calls[1].input == {"v": 8}
    assert made.patches() == {"ctx.n": ("set", 8)}
    assert made.facts() == ["task.started", "task.done", "sink.started", "sink.processed"]
