"""Loops inside one run: what is asked for, in which order, and that a run suspended anywhere goes on alike."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.commands import FrozenScope
from noetl.domain.outcomes.outcomes import ChildRequest, ErrorInfo, Outcome
from noetl.pipeline import PipelineRun, RunTask, Surroundings, TaskOutcome
from tests.unit.pipeline.conftest import Run, compile_text

LIMIT = ErrorInfo("busy", "rate_limit", status=429, retryable=True)


def step(tasks: str) -> str:
    return f"workflow:\n  - step: s\n    tool:\n{tasks}"


def each(task: str, collection: str = "[a, b]", more: str = "") -> str:
    return step(
        f"      - each: {{ kind: iterator, collection: {collection}, element: x, task: {task}{more} }}\n"
    )


def test_every_call_has_a_key_of_its_own(run: Run) -> None:
    inner = "{ kind: iterator, collection: [1, 2], element: y, task: [{ t: { kind: noop } }] }"
    made = run(each(inner))
    assert [call.key for call in made.calls] == [
        "each[0]/each_item[0]/t",
        "each[0]/each_item[1]/t",
        "each[1]/each_item[0]/t",
        "each[1]/each_item[1]/t",
    ]
    assert made.outcome.result["count"] == 2


def test_a_visit_of_the_loop_and_of_a_task_in_it_are_told_apart(run: Run) -> None:
    again = "{ policy: { rules: [{ when: '{{ outcome.result.more }}', then: { do: jump, to: t } }] } }"
    back = "{ policy: { rules: [{ when: '{{ outcome.result.more }}', then: { do: jump, to: each } }] } }"
    made = run(
        step(
            f"      - each: {{ kind: iterator, collection: [a], element: x, task: [{{ t: {{ kind: noop, spec: {again} }} }}] }}\n"
            f"      - last: {{ kind: noop, spec: {back} }}\n"
        ),
        {"t": [{"more": True}, {"more": False}], "last": [{"more": True}, {"more": False}]},
    )
    assert [call.key for call in made.calls] == [
        "each[0]/t",
        "each[0]/t#2",
        "last",
        "each#2[0]/t",
        "last#2",
    ]


def test_a_retry_inside_waits_and_keeps_what_was_done(run: Run) -> None:
    rules = "{ policy: { rules: [{ when: \"{{ outcome.status == 'error' }}\", then: { do: retry, attempts: 2, delay: 5 } }] } }"
    made = run(each(f"[{{ t: {{ kind: http, url: '{{{{ x }}}}', spec: {rules} }} }}]"), {"t": [1, LIMIT, 2]})
    assert [call.params["url"] for call in made.calls] == ["a", "b", "b"]
    assert made.delays == [5]
    assert made.outcome.result["results"] == [1, 2]


def test_a_sub_playbook_inside_is_waited_for(run: Run) -> None:
    made = run(
        each("[{ ask: { kind: playbook, path: p, args: { x: '{{ x }}' } } }, { tell: { kind: noop } }]"),
        {"ask": [ChildRequest("p")]},
        child=Outcome("ok", {"n": 1}),
    )
    assert len(made.children) == 2
    assert [call.label for call in made.calls] == ["ask", "tell", "ask", "tell"]


@pytest.mark.parametrize(
    ("more", "status", "calls"),
    [
        ("", "error", 1),
        (", spec: { policy: { failure: { mode: best_effort } } }", "ok", 2),
        (", spec: { policy: { rules: [{ when: '{{ true }}', then: { do: continue } }] } }", "ok", 1),
    ],
)
def test_what_a_failed_iteration_does(run: Run, more: str, status: str, calls: int) -> None:
    made = run(each("[{ t: { kind: noop } }]", more=more), {"t": [LIMIT, {"n": 2}]})
    assert (made.outcome.status, len(made.calls)) == (status, calls)
    if status == "error":
        assert made.outcome.error is not None
        assert (made.outcome.error.kind, made.outcome.error.details["iteration"]) == ("rate_limit", [0])
    elif calls == 2:
        found = made.outcome.result
        assert (found["count"], found["failed"], found["results"][1]) == (2, 1, {"n": 2})
        assert found["results"][0]["error"]["status"] == 429


def test_a_template_that_fails_inside_a_rule_fails_the_iteration_alone(run: Run) -> None:
    rules = "{ policy: { rules: [{ when: '{{ nope + [] }}', then: { do: break } }] } }"
    made = run(
        "workload: { nope: 1 }\n"
        + each(
            f"[{{ t: {{ kind: noop, spec: {rules} }} }}]",
            more=", spec: { policy: { failure: { mode: best_effort } } }",
        ),
        scope=FrozenScope(workload={"nope": 1}),
    )
    assert made.outcome.status == "ok"
    assert made.outcome.result["failed"] == 2


def test_the_input_of_the_loop_is_seen_inside_and_a_row_set_is_its_rows(run: Run) -> None:
    rows = {"columns": ["n"], "rows": [{"n": 1}, {"n": 2}], "row_count": 2}
    made = run(
        step(
            "      - load: { kind: noop }\n"
            "      - each: { kind: iterator, in: '{{ load }}', element: row, args: { k: 5 },"
            " task: { kind: http, url: '{{ row.n }}/{{ k }}' } }\n"
        ),
        {"load": [rows]},
    )
    assert [call.params for call in made.calls[1:]] == [{"url": "1/5"}, {"url": "2/5"}]


@pytest.mark.parametrize(
    ("collection", "more", "code"),
    [
        ("'{{ workload.text }}'", "", "template_type"),
        ("'{{ workload.gone }}'", "", "undefined"),
        ("[1]", ", max_in_flight: '{{ workload.text }}'", "template_type"),
    ],
)
def test_a_list_that_cannot_be_gone_over(run: Run, collection: str, more: str, code: str) -> None:
    made = run(
        "workload: { text: abc, gone: 1 }\n" + each("{ kind: noop }", collection, more),
        scope=FrozenScope(workload={"text": "abc"}),
    )
    assert made.calls == []
    assert made.outcome.error is not None
    assert made.outcome.error.code == code


def test_a_turn_of_many_iterations_ends_and_the_next_goes_on() -> None:
    program = compile_text(each("{ kind: noop }", "'{{ range(700) | list }}'"))
    body = program.steps[0].body
    assert body is not None
    around = Surroundings(FrozenScope(), 7, "s")
    turns, machine, total = 0, None, 0
    while True:
        run = PipelineRun(body, around)
        op = run.begin() if machine is None else run.resume(machine)
        while isinstance(op, RunTask):
            total += 1
            op = run.feed(TaskOutcome(total))
        turns += 1
        if op.outcome.suspend is None:
            break
        assert len(op.outcome.trace) < 1000
        machine = op.outcome.suspend.machine
    assert (turns, total) == (3, 700)
    assert op.outcome.result["results"] == list(range(1, 701))


def test_large_results_are_kept_one_by_one(run: Run) -> None:
    def keep(value: Any) -> Any:
        return {"kind": "result_ref", "ref": f"r{value}"}

    made = run(each("{ kind: noop }"), {"each_item": ["long", "longer"]}, keep=keep)
    assert [one["ref"] for one in made.outcome.result["results"]] == ["rlong", "rlonger"]


def test_a_resumed_run_needs_the_loops_it_was_in(run: Run) -> None:
    program = compile_text(each("{ kind: noop }"))
    other = compile_text(step("      - each: { kind: noop }\n      - more: { kind: noop }\n"))
    around = Surroundings(FrozenScope(), 7, "s")
    first = PipelineRun(program.steps[0].body, around)  # type: ignore[arg-type]
    first.begin()
    suspend = first.park().suspend
    assert suspend is not None
    with pytest.raises(Exception, match="does not fit"):
        PipelineRun(other.steps[0].body, around).resume(suspend.machine)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("then", "first"),
    [("{ do: skip }", None), ("{ do: skip, result: 7 }", 7), ("{ do: break, result: 8 }", 8)],
)
def test_skip_and_result_mean_the_iteration(run: Run, then: str, first: Any) -> None:
    rules = f"{{ policy: {{ rules: [{{ when: \"{{{{ x == 'a' }}}}\", then: {then} }}] }} }}"
    made = run(
        each(f"[{{ t: {{ kind: noop, spec: {rules} }} }}, {{ u: {{ kind: noop }} }}]"), {"t": [1], "u": [2]}
    )
    assert (made.outcome.status, made.outcome.result["results"]) == ("ok", [first, 2])
    assert [call.label for call in made.calls] == ["t", "t", "u"]
