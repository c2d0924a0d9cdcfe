"""Canonical tasks: rules over ``outcome``, directives, writes, names."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from noetl.domain.commands import FrozenScope
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.pipeline import Item

from .conftest import Run

BUSY = ErrorInfo("busy", "rate_limit", status=503, retryable=True)
BROKEN = ErrorInfo("broken", "client_error", status=400)


def pipeline(*tasks: str, iterator: str = "", workload: str = "{}") -> str:
    lines = [line for task in tasks for line in task.strip("\n").splitlines()]
    loop = f"    loop: {{ in: '{{{{ [1] }}}}', iterator: {iterator} }}\n" if iterator else ""
    tool = "\n".join("      " + line for line in lines)
    return f"workload: {workload}\nworkflow:\n  - step: s\n{loop}    tool:\n{tool}\n"


def test_tasks_run_in_order_and_see_each_other(run: Run) -> None:
    body = pipeline(
        "- a: { kind: python, code: x }",
        "- b: { kind: python, args: { n: '{{ a.n + 1 }}', p: '{{ _prev.n }}', r: '{{ results.a.n }}' }, code: x }",
    )
    made = run(body, {"a": [{"n": 1}], "b": ["end"]})
    assert made.calls[1].input == {"n": 2, "p": 1, "r": 1}
    assert made.outcome.result == "end"
    assert made.outcome.labels == {"a": {"n": 1}, "b": "end"}
    assert made.facts() == ["task.started", "task.done"] * 2


def test_tasks_of_the_engine_are_no_calls(run: Run) -> None:
    rule = "when: \"{{ outcome.status == 'error' }}\", then: { do: retry, attempts: 4, backoff: none }"
    body = pipeline(
        "- opening: { kind: noop }",
        f"- ask: {{ kind: http, url: u, spec: {{ policy: {{ rules: [{{ {rule} }}] }} }} }}",
    )
    assert run(body, {"opening": [1], "ask": ["ok"]}).outcome.meta["attempts"] == 1
    assert run(body, {"opening": [1], "ask": [BUSY, "ok"]}).outcome.meta["attempts"] == 2
    assert run(body, {"opening": [1], "ask": [BUSY]}).outcome.meta["attempts"] == 4, (
        "as many as the rule says"
    )


def test_a_name_that_means_nothing_here_is_not_suggested(run: Run) -> None:
    made = run(pipeline("- a: { kind: python, args: { n: '{{ results.b }}' }, code: x }"), {"a": [1]})
    assert made.outcome.error is not None and "_results" not in (made.outcome.error.hint or "")


def test_one_task_tried_once_leaves_no_trace(run: Run) -> None:
    made = run(pipeline("- a: { kind: noop }"), {"a": [1]})
    assert (made.outcome.result, made.outcome.labels, made.outcome.trace) == (1, {}, [])


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [("exponential", [0.5, 1.0, 2.0]), ("linear", [0.5, 1.0, 1.5]), ("none", [0.5, 0.5, 0.5])],
)
def test_retry_counts_total_tries_and_waits_outside_the_worker(
    run: Run, backoff: str, delays: list[float]
) -> None:
    rule = (
        "{ when: \"{{ outcome.status == 'error' and outcome.error.retryable }}\","
        f" then: {{ do: retry, attempts: 4, backoff: {backoff}, delay: 0.5 }} }}"
    )
    body = pipeline(f"- a: {{ kind: http, url: u, spec: {{ policy: {{ rules: [{rule}] }} }} }}")
    made = run(body, {"a": [BUSY, BUSY, BUSY, "ok"]})
    assert (made.outcome.status, made.outcome.result, made.delays) == ("ok", "ok", delays)
    assert [call.attempt for call in made.calls] == [1, 2, 3, 4]
    assert {call.key for call in made.calls} == {"a"}, "one idempotency key for all attempts"
    assert made.outcome.meta["attempts"] == 4
    exhausted = run(body, {"a": [BUSY]})
    assert (exhausted.outcome.status, exhausted.outcome.error) == (
        "error",
        replace(BUSY, position="t.yaml:8:14"),
    )
    assert len(exhausted.calls) == 4


def test_a_retry_without_delay_does_not_suspend(run: Run) -> None:
    rule = "{ when: \"{{ outcome.status == 'error' }}\", then: { do: retry, attempts: 3, delay: 0 } }"
    made = run(
        pipeline(f"- a: {{ kind: http, url: u, spec: {{ policy: {{ rules: [{rule}] }} }} }}"),
        {"a": [BUSY, 5]},
    )
    assert (made.delays, made.outcome.result) == ([], 5)


PAGES = pipeline(
    """
- page:
    kind: http
    url: "{{ workload.api }}/{{ iter.shelf }}"
    params: { page: "{{ iter.page | default(1) }}" }
    spec:
      policy:
        rules:
          - { when: "{{ outcome.http.status == 503 }}", then: { do: retry, attempts: 2, delay: 1 } }
          - else: { then: { do: continue, set_iter: { more: "{{ outcome.result.more }}", rows: "{{ outcome.result.data.rows }}" } } }
- keep:
    kind: python
    args: { rows: "{{ iter.rows }}", shelf: "{{ shelf }}", at: "{{ _prev.status_code }}" }
    code: x
    spec:
      policy:
        rules:
          - { when: "{{ iter.more }}", then: { do: jump, to: page, set_iter: { page: "{{ (iter.page | default(1)) + 1 }}" } } }
          - else: { then: { do: break } }
- never: { kind: noop }
""",
    iterator="shelf",
    workload="{ api: x }",
)


def test_pagination_by_jump(run: Run) -> None:
    def page(more: bool, rows: list[int]) -> dict[str, Any]:
        return {"status_code": 200, "headers": {}, "url": "u", "data": {"more": more, "rows": rows}}

    made = run(
        PAGES,
        {"page": [page(True, [1]), BUSY, page(True, [2]), page(False, [3])], "keep": ["k"]},
        scope=FrozenScope(workload={"api": "http://h"}),
        item=Item(0, "A1", "shelf", 1),
    )
    assert made.outcome.status == "ok"
    pages = [call for call in made.calls if call.label == "page"]
    assert [call.params["params"]["page"] for call in pages] == [1, 2, 2, 3]
    assert {call.params["url"] for call in pages} == {"http://h/A1"}
    assert [call.attempt for call in pages] == [1, 1, 2, 1], "each visit has its own tries"
    assert [call.key for call in pages] == ["page", "page#2", "page#2", "page#3"]
    kept = [call.input for call in made.calls if call.label == "keep"]
    assert kept == [{"rows": [n], "shelf": "A1", "at": 200} for n in (1, 2, 3)]
    assert "never" not in made.outcome.labels


def test_an_http_envelope_shows_its_own_keys_before_the_bodys(run: Run) -> None:
    body = pipeline(
        """
- a:
    kind: http
    url: u
    set: { ctx.code: "{{ output.data.status_code }}", ctx.n: "{{ outcome.result.n }}", ctx.body: "{{ output.data.data }}" }
"""
    )
    envelope = {"status_code": 201, "headers": {}, "data": {"n": 5, "status_code": "inner"}}
    made = run(body, {"a": [envelope]})
    assert made.patches() == {
        "ctx.code": ("set", 201),
        "ctx.n": ("set", 5),
        "ctx.body": ("set", envelope["data"]),
    }
    assert made.outcome.result == envelope


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"status": "ok", "data": [1]}, [1]),
        ({"status": "ok", "id": 3}, {"status": "ok", "id": 3}),
        ([{"status": 1, "data": 2}], [{"status": 1, "data": 2}]),
    ],
)
def test_an_envelope_of_status_and_data_is_unwrapped(run: Run, given: Any, result: Any) -> None:
    assert run(pipeline("- a: { kind: python, code: x }"), {"a": [given]}).outcome.result == result


@pytest.mark.parametrize(
    ("policy", "status", "result"),
    [
        ("{ rules: [{ when: '{{ false }}', then: { do: break } }] }", "error", None),
        ("{ on_unmatched: continue, rules: [{ when: '{{ false }}', then: { do: break } }] }", "ok", "b"),
        ("{ rules: [{ else: { then: { do: continue } } }] }", "ok", "b"),
        ("{ rules: [{ else: { then: { do: break } } }] }", "ok", None),
        ("{ rules: [{ else: { then: { do: fail } } }] }", "error", None),
    ],
)
def test_what_follows_an_error(run: Run, policy: str, status: str, result: Any) -> None:
    body = pipeline(
        f"- a: {{ kind: http, url: u, spec: {{ policy: {policy} }} }}", "- b: { kind: python, code: x }"
    )
    made = run(body, {"a": [BROKEN], "b": ["b"]})
    assert (made.outcome.status, made.outcome.result) == (status, result)
    assert made.outcome.error == (replace(BROKEN, position="t.yaml:8:14") if status == "error" else None)


@pytest.mark.parametrize(("message", "advised"), [("", True), (", message: too few rows", False)])
def test_a_rule_that_fails_a_task_asks_for_a_message_where_there_is_none(
    run: Run, message: str, advised: bool
) -> None:
    rule = f"{{ else: {{ then: {{ do: fail{message} }} }} }}"
    body = pipeline(f"- a: {{ kind: python, code: x, spec: {{ policy: {{ rules: [{rule}] }} }} }}")
    error = run(body, {"a": [1]}).outcome.error
    assert error is not None and error.code == "failed_by_rule" and error.hint is not None
    assert "read its guard" in error.hint
    assert ("write a `message`" in error.hint) is advised


def test_writes_are_visible_at_once_and_reported_folded(run: Run) -> None:
    body = pipeline(
        "- a: { kind: noop, spec: { policy: { rules: [{ else: { then: { do: continue, set_ctx: { total: { add: 2 } } } } }] } } }",
        "- b: { kind: noop, set: { ctx.total: '{{ ctx.total * 10 }}', step.seen: '{{ ctx.total }}', iter.z: '{{ step.seen }}' } }",
        "- c: { kind: noop, args: { t: '{{ total }}', s: '{{ step.seen }}', z: '{{ iter.z }}' } }",
    )
    made = run(body, scope=FrozenScope(ctx={"total": 1}))
    assert made.calls[2].input == {"t": 30, "s": 30, "z": 30}
    assert made.patches() == {"ctx.total": ("set", 30), "step.seen": ("set", 30)}


@pytest.mark.parametrize(
    ("task", "code", "position"),
    [
        ("{ kind: http, url: '{{ workload[_task] }}' }", "undefined", "t.yaml:8:"),
        ("{ kind: python, args: '{{ 5 }}', code: x }", "task_input", None),
        ("{ kind: noop, spec: { timeout: '{{ -1 }}' } }", "task_timeout", None),
        (
            "{ kind: noop, spec: { policy: { rules: [{ when: '{{ outcome.result.yes + [] }}', then: { do: break } }] } } }",
            "template_error",
            "t.yaml:8:",
        ),
        ("{ kind: noop, set: { ctx.n: { add: '{{ \"x\" }}' } } }", "patch_type", None),
    ],
)
def test_what_a_playbook_gets_wrong_is_its_tasks_error(
    run: Run, task: str, code: str, position: str | None
) -> None:
    made = run(pipeline(f"- a: {task}"), {"a": [{"yes": 1}]})
    error = made.outcome.error
    assert error is not None
    assert (made.outcome.status, error.code, error.retryable) == ("error", code, False)
    assert position is None or (error.position or "").startswith(position)


def test_a_rule_may_answer_a_template_that_fails(run: Run) -> None:
    rule = "{ when: \"{{ outcome.error.code == 'undefined' }}\", then: { do: continue } }"
    made = run(
        pipeline(
            f"- a: {{ kind: http, url: '{{{{ ctx[_task] }}}}', spec: {{ policy: {{ rules: [{rule}] }} }} }}",
            "- b: { kind: noop }",
        ),
        {"b": [1]},
    )
    assert (made.outcome.status, [call.label for call in made.calls]) == ("ok", ["b"])


def test_bare_names_resolve_from_the_inside_out(run: Run) -> None:
    names = ["n", "it", "v", "c", "s", "w"]
    layers: dict[str, dict[str, Any]] = {
        "args": {"n": "args"},
        "vars": dict.fromkeys(names[:3], "vars"),
        "ctx": dict.fromkeys(names[:4], "ctx"),
        "steps": {name: {"status": "success", "data": "step"} for name in names[:5]},
        "workload": dict.fromkeys(names, "workload"),
    }
    inputs = ", ".join(f"{name}1: '{{{{ {name} }}}}'" for name in names)
    body = pipeline(
        f"- a: {{ kind: noop, args: {{ {inputs}, x: '{{{{ ctx.v }}}}' }} }}",
        iterator="it",
        workload="{ n: 1, it: 1, v: 1, c: 1, s: 1, w: 1 }",
    )
    made = run(body, scope=FrozenScope(**layers), item=Item(2, "item", "it", 5))
    assert made.calls[0].input == {
        "n1": "args",
        "it1": "item",
        "v1": "vars",
        "c1": "ctx",
        "s1": "step",
        "w1": "workload",
        "x": "ctx",
    }


def test_names_of_an_iteration(run: Run) -> None:
    body = pipeline(
        "- a: { kind: noop, args: { i: '{{ [iter.index, loop_index, _index, loop.index, loop.first, loop.last, loop.length] }}',"
        " p: '{{ iter.parent.shelf }}', e: '{{ execution_id }}', t: '{{ [_task, _attempt, attempt] }}', now: '{{ now() }}' } }",
        iterator="book",
    )
    made = run(body, scope=FrozenScope(now=12.5), item=Item(4, "x", "book", 5, {"shelf": "A", "index": 0}))
    assert made.calls[0].input == {
        "i": [4, 4, 4, 4, False, True, 5],
        "p": "A",
        "e": "7",
        "t": ["a", 1, 1],
        "now": 12.5,
    }


def test_an_endless_loop_of_jumps_hands_itself_back(run: Run) -> None:
    body = pipeline(
        "- a: { kind: noop }",
        "- b: { kind: noop, spec: { policy: { rules: [{ when: '{{ outcome.result < 2400 }}', then: { do: jump, to: previous } },"
        " { else: { then: { do: break } } }] } } }",
    )
    made = run(body, {"b": list(range(2500))})
    assert made.outcome.status == "ok"
    assert len(made.delays) > 4 and not any(made.delays)
    jumps = made.facts().count("case.evaluated")
    assert jumps == 2400
    assert len(made.outcome.trace) == 2 * len(made.calls) + jumps, (
        "and the whole story is told, in small messages"
    )


@pytest.mark.parametrize(
    ("timeout", "seconds"), [("20", 20.0), ("{ connect: 3, read: 10 }", 13.0), ("'{{ 1.5 }}'", 1.5)]
)
def test_timeouts(run: Run, timeout: str, seconds: float) -> None:
    made = run(pipeline(f"- a: {{ kind: http, url: u, spec: {{ timeout: {timeout} }} }}"))
    assert made.calls[0].timeout == seconds


def test_an_entry_of_the_keychain_is_its_only_field_inside_a_text(run):
    entries = {"token": {"token": "s3"}, "db": {"user": "u", "password": "p"}}
    head = "keychain: [{ name: token, kind: bearer }, { name: db, kind: postgres_credential }]\nworkflow:\n"
    call = "  - step: s\n    tool: { kind: http, url: 'http://a.test', headers: { a: 'Bearer {{ keychain.%s }}' } }\n"
    told = run(head + call % "token", keychain=entries.__getitem__)
    assert told.params()[0]["headers"] == {"a": "Bearer s3"}
    refused = run(head + call % "db", keychain=entries.__getitem__).outcome.error
    assert "keychain.<name>.user or .password" in refused.hint
    assert refused.position.startswith("t.yaml:7:")
    whole = "  - step: s\n    tool: { kind: http, url: 'http://a.test', auth: '{{ keychain.db }}' }\n"
    assert run(head + whole, keychain=entries.__getitem__).params()[0]["auth"] == entries["db"]
