"""What is kept of tasks: gathered results, second names, selections, and workbook tasks that are chosen at run time."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.commands import FrozenScope
from noetl.domain.outcomes.outcomes import ErrorInfo
from tests.unit.pipeline.conftest import Run

MORE = "{ policy: { rules: [{ when: '{{ outcome.result.more | default(false) }}', then: { do: jump, to: page } }] } }"


def pages(accumulate: str, spec: str = MORE) -> str:
    return (
        "workflow:\n  - step: s\n    tool:\n"
        f"      - page: {{ kind: noop, output: {{ accumulate: {accumulate} }}, spec: {spec} }}\n"
        "      - end: { kind: http, url: '{{ page }}' }\n"
    )


PAGES: list[Any] = [
    {"rows": [1, 2], "at": {"a": 1}, "more": True},
    {"rows": [3], "at": {"b": {"c": 2}}, "more": False},
]


@pytest.mark.parametrize(
    ("accumulate", "result"),
    [
        ("{ path: $.rows }", [[1, 2], [3]]),
        ("{ strategy: append, path: '$.rows[0]' }", [1, 3]),
        ("{ strategy: concat, path: $.rows }", [1, 2, 3]),
        ("{ strategy: merge, path: $.at }", {"a": 1, "b": {"c": 2}}),
        ("{ strategy: replace, path: $.rows }", [3]),
        ("{ strategy: concat, merge_path: $.rows }", {**PAGES[1], "rows": [1, 2, 3]}),
        (
            "{ strategy: merge, path: $.at, merge_path: $.all.at }",
            {**PAGES[1], "all": {"at": {"a": 1, "b": {"c": 2}}}},
        ),
    ],
)
def test_strategies(run: Run, accumulate: str, result: Any) -> None:
    made = run(pages(accumulate), {"page": PAGES})
    assert made.outcome.labels["page"] == result
    assert made.calls[-1].params["url"] == result


@pytest.mark.parametrize("strategy", ["concat", "merge"])
def test_what_does_not_fit_fails_the_task(run: Run, strategy: str) -> None:
    made = run(pages(f"{{ strategy: {strategy}, path: $.more }}"), {"page": PAGES})
    assert made.outcome.error is not None
    assert made.outcome.error.code == "accumulate_type"


def test_only_the_try_that_counted_is_gathered(run: Run) -> None:
    rules = (
        "{ policy: { rules: [{ when: \"{{ outcome.status == 'error' or outcome.result.wait }}\","
        " then: { do: retry, attempts: 5, delay: 0 } },"
        " { when: '{{ outcome.result.more }}', then: { do: jump, to: page } }] } }"
    )
    made = run(
        pages("{ path: $.n }", rules),
        {
            "page": [
                ErrorInfo("busy"),
                {"n": 1, "wait": True, "more": True},
                {"n": 2, "wait": False, "more": True},
                {"n": 3, "wait": False, "more": False},
            ]
        },
    )
    assert made.outcome.labels["page"] == [2, 3]


def test_the_rules_see_this_call_and_each_iteration_gathers_for_itself(run: Run) -> None:
    made = run(
        "workflow:\n  - step: s\n    tool:\n"
        "      - each:\n          kind: iterator\n          in: [a, b]\n          element: x\n          task:\n"
        f"            - page: {{ kind: noop, output: {{ accumulate: {{ path: $.n }} }}, spec: {MORE} }}\n",
        {"page": [{"n": 1, "more": True}, {"n": 2}, {"n": 3}]},
    )
    assert made.outcome.result["results"] == [[1, 2], [3]]


def test_call_gathers_pages_of_the_event_form(run: Run) -> None:
    made = run(
        "workbook:\n  pull: { kind: http, url: u, output: { accumulate: { strategy: concat, path: $.rows } } }\n"
        "workflow:\n  - step: s\n    tool: { kind: workbook, name: pull }\n"
        "    case:\n      - when: \"{{ event.name == 'call.done' and response.more }}\"\n        then: [{ call: { params: { n: 2 } } }]\n"
        "    vars: { n: '{{ result | length }}' }\n",
        {
            "s_task": [
                {"status_code": 200, "headers": {}, "data": {"rows": [1], "more": True}},
                {"status_code": 200, "headers": {}, "data": {"rows": [2, 3], "more": False}},
            ]
        },
    )
    assert made.outcome.result == [1, 2, 3]
    assert made.patches()["vars.n"] == ("set", 3)


def test_a_second_name_and_selections_are_read_in_the_step_and_afterwards(run: Run) -> None:
    made = run(
        "workflow:\n  - step: s\n    spec: { result: { select: { total: $.n } } }\n    tool:\n"
        "      - load: { kind: noop, output: { as: loaded, select: [{ path: '$.rows[1].id', as: second }, { path: $.nowhere, as: gone }] } }\n"
        "      - end: { kind: noop, args: { a: '{{ load.second }}', d: \"{{ load.gone | default('none') }}\","
        " b: '{{ loaded.second }}', c: '{{ loaded.rows | length }}' } }\n",
        {"load": [{"rows": [{"id": 1}, {"id": 2}]}], "end": [{"n": 4}]},
    )
    assert made.calls[1].input == {"a": 2, "b": 2, "c": 2, "d": "none"}
    assert made.outcome.labels["loaded"] == {"rows": [{"id": 1}, {"id": 2}]}
    assert made.outcome.labels["total"] == 4


def test_the_selection_of_a_single_task_is_the_steps(run: Run) -> None:
    made = run(
        "workflow:\n  - step: s\n    tool: { kind: noop, output: { as: it, select: { first: '$[0]' } } }\n",
        {"s_task": [[7, 8]]},
    )
    assert made.outcome.labels == {"first": 7, "it": [7, 8]}


BOOK = (
    "workload: { how: b }\n"
    "workbook:\n"
    "  a: { kind: http, url: 'a/{{ n }}' }\n"
    "  b:\n    tool: { kind: http, url: 'b/{{ n }}', input: { n: 1, m: 2 } }\n"
    "    sink: { tool: { kind: postgres, table: t, args: { v: '{{ result }}' } } }\n"
    "workflow:\n  - step: s\n    tool:\n"
    "      - first: { kind: noop }\n"
    "      - named: { kind: workbook, task: '{{ workload.how }}', input: { n: 5 }, spec: { policy: { rules: RULES } } }\n"
    "      - last: { kind: noop, args: { got: '{{ named }}' } }\n"
)


def test_a_workbook_task_is_chosen_when_it_is_reached(run: Run) -> None:
    made = run(
        BOOK.replace(
            "RULES", "[{ when: '{{ outcome.result == 1 }}', then: { do: retry, attempts: 3, delay: 4 } }]"
        ),
        {"named": [1, 2]},
        scope=FrozenScope(workload={"how": "b"}),
    )
    assert [(call.label, call.kind) for call in made.calls] == [
        ("first", "noop"),
        ("named", "http"),
        ("named_sink", "postgres"),
        ("named", "http"),
        ("named_sink", "postgres"),
        ("last", "noop"),
    ]
    assert made.calls[1].params == {"url": "b/5"}
    assert made.calls[1].input == {"n": 5, "m": 2}
    assert made.calls[-1].input == {"got": 2}


@pytest.mark.parametrize("how", ["c", 3, None])
def test_a_name_that_is_not_there_is_an_error_that_rules_may_answer(run: Run, how: Any) -> None:
    failed = run(BOOK.replace("RULES", "[]"), scope=FrozenScope(workload={"how": how}))
    assert failed.outcome.error is not None
    assert failed.outcome.error.code == "unknown_task"
    assert failed.outcome.error.hint == "tasks: a, b"
    answered = run(
        BOOK.replace(
            "RULES",
            "[{ when: \"{{ outcome.error.code == 'unknown_task' }}\", then: { do: jump, to: last, set_ctx: { no: 1 } } }]",
        ).replace("got: '{{ named }}'", "got: '{{ ctx.no }}'"),
        scope=FrozenScope(workload={"how": how}),
    )
    assert [call.label for call in answered.calls] == ["first", "last"]
    assert answered.calls[-1].input == {"got": 1}


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        ("{ connect: '{{ workload.c }}', read: 10 }", 12.0),
        ("{ read: '{{ workload.c }}' }", 2.0),
        ("{ connect: 1, read: 2 }", 3.0),
    ],
)
def test_templates_in_the_parts_of_a_timeout(run: Run, timeout: str, seconds: float) -> None:
    made = run(
        f"workload: {{ c: 2 }}\nworkflow:\n  - step: s\n    tool: {{ kind: http, url: u, spec: {{ timeout: {timeout} }} }}\n",
        scope=FrozenScope(workload={"c": 2}),
    )
    assert made.calls[0].timeout == seconds


def test_what_runs_inside_a_task_is_given_its_own_arguments_and_may_name_the_tasks(run: Run) -> None:
    made = run(
        "workflow:\n  - step: s\n    tool: { kind: noop, args: { id: 7, secret: x } }\n"
        "    case:\n      - when: \"{{ event.name == 'call.done' }}\"\n        then:\n"
        "          - { name: inner, kind: noop, args: { n: '{{ id }}' } }\n"
        "          - sink: { tool: { kind: postgres, table: t, args: { v: '{{ result }}' } } }\n",
        {"s_task": [1]},
    )
    assert [call.input for call in made.calls] == [{"id": 7, "secret": "x"}, {"n": 7}, {"v": 1}]
