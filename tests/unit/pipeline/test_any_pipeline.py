"""Whatever the rules and the outcomes: a run whose state travels through JSON before every call ends like one that never stopped."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.domain.commands import FrozenScope
from noetl.domain.outcomes.outcomes import ErrorInfo, Patch
from noetl.dsl import program as p
from noetl.pipeline import Item, Surroundings
from tests.parts import repeated

from .conftest import drive

LABELS = ("a", "b", "c")
BUSY = ErrorInfo("busy", "server_error", status=503, retryable=True)
BROKEN = ErrorInfo("broken", "client_error", status=400, details={"why": [1]})
AGAIN = p.Expr("(iter.n | default(0)) < 3")
COUNT = p.SetAction("iter", "n", p.Expr("(iter.n | default(0)) + 1"))

results = st.one_of(
    st.sampled_from([BUSY, BROKEN, None, 1, "text", [1, 2], {"n": 3}, {"status": "ok", "data": {"n": 4}}]),
    st.builds(
        lambda n: {"status_code": 200, "headers": {"h": "1"}, "url": "u", "data": {"n": n}}, st.integers(0, 3)
    ),
)
sets = st.sampled_from(
    [
        p.SetAction("ctx", "total", p.Expr("loop_index + 1"), "add"),
        p.SetAction("ctx", "list", p.Expr("_task"), "append"),
        p.SetAction("vars", "v", p.Expr("[vars.v | default(0), _attempt]")),
        p.SetAction("step", "z", p.Expr("step.z | default('') ~ _task")),
        p.SetAction("iter", "last", p.Expr("outcome.status")),
    ]
)
writes = st.one_of(sets, st.just(p.CollectAction(p.Expr("[outcome.status]"), "list", "extend")))


def inline(kind: str, label: str) -> p.Task:
    return p.Task(
        label,
        kind,
        p.Map((("seen", p.Expr("[outcome.status, iter.n | default(0), vars.block | default(0)]")),)),
    )


sinks = st.builds(
    lambda label, when: p.SinkAction(inline("sink", label), when),
    st.sampled_from(["k", "l"]),
    st.sampled_from([None, p.Expr("outcome.status == 'ok'")]),
)
retries = st.builds(
    lambda attempts, delay, exhausted: p.RetryAction(
        p.LiteralNode(attempts), p.LiteralNode(delay), jitter=p.LiteralNode(0.5), exhausted=exhausted
    ),
    st.integers(1, 3),
    st.sampled_from([0, 2]),
    st.sampled_from(["fail", "next_rule"]),
)
guards = st.sampled_from(
    [
        None,
        p.Expr("outcome.status == 'error'"),
        p.Expr("outcome.error.retryable | default(false)"),
        p.Expr("(outcome.result.n | default(0)) > 2"),
        AGAIN,
    ]
)
ends = st.one_of(
    st.sampled_from(
        [
            p.ContinueAction(),
            p.BreakAction(),
            p.FailAction(p.Text("no {{ _task }}")),
            p.SkipAction(),
            p.ResultAction(p.Expr("[_task, iter.n | default(0)]")),
            p.NextAction((p.GoTo("other", p.Map((("t", p.Expr("_task")),))),)),
        ]
    ),
    retries,
)
loops = st.one_of(
    st.builds(p.JumpAction, st.sampled_from([*LABELS, "previous"])),
    st.just(p.CallAction(p.Map((("page", p.Expr("iter.n")),)))),
)
free = st.builds(
    lambda when, done, end: p.Rule((*done, end), when),
    guards,
    st.lists(
        st.one_of(writes, sinks, st.just(p.RunAction((inline("tool", "x"), inline("tool", "y"))))), max_size=3
    ),
    ends,
)
bounded = st.builds(lambda done, end: p.Rule((COUNT, *done, end), AGAIN), st.lists(writes, max_size=2), loops)


@st.composite
def loops_inside(draw: st.DrawFn, depth: int) -> p.Nested | None:
    """A nested loop of up to two levels, whose collection may be anything."""
    if depth == 0 or draw(st.integers(0, 4)):
        return None
    count = draw(st.integers(1, 2))
    return p.Nested(
        draw(
            st.sampled_from(
                [
                    p.LiteralNode([]),
                    p.LiteralNode([1, 2]),
                    p.Expr("[_task, iter.n | default(0)]"),
                    p.LiteralNode("no list"),
                ]
            )
        ),
        f"el{depth}",
        tuple(draw(tasks(label, depth - 1)) for label in LABELS[:count]),
        failure=draw(st.sampled_from(["fail_fast", "best_effort"])),
    )


gathers = st.builds(
    p.Gather,
    st.sampled_from(["append", "replace", "merge", "concat"]),
    st.sampled_from(["", "$.n"]),
    st.sampled_from(["", "$.all"]),
)


@st.composite
def tasks(draw: st.DrawFn, label: str, depth: int = 2) -> p.Task:
    form = draw(st.sampled_from(["canonical", "event"]))
    rules = tuple(draw(st.lists(st.one_of(free, bounded), max_size=3)))
    if form == "event":
        on = ("call.done", "call.error")
        rules = tuple(
            msgspec.structs.replace(rule, events=draw(st.sampled_from([(), on[:1], on[1:], ("loop.item",)])))
            for rule in rules
        )
    retry = None
    if draw(st.booleans()):
        action = p.RetryAction(
            p.LiteralNode(2), p.LiteralNode(draw(st.sampled_from([0, 1]))), exhausted="next_rule"
        )
        retry = p.StepRetry(
            action, None, draw(st.sampled_from([None, p.Expr("(result.n | default(0)) > 2")]))
        )
    return p.Task(
        label,
        "http" if draw(st.booleans()) else "tool",
        p.Map(
            (
                (
                    "seen",
                    p.Expr(
                        "[iter, loop_index, el1 | default(0), a | default(0), other | default(0), ctx.total | default(0), _prev, args]"
                    ),
                ),
            )
        ),
        input=p.Map((("who", p.Expr("it")),)) if draw(st.booleans()) else None,
        rules=rules,
        form=form,  # type: ignore[arg-type]
        retry=retry,
        on_unmatched=draw(st.sampled_from(["fail", "continue"])),
        sets=tuple(draw(st.lists(sets, max_size=1))),
        sinks=tuple(draw(st.lists(sinks, max_size=1))),
        nested=draw(loops_inside(depth)),
        gather=draw(st.one_of(st.none(), gathers)),
        alias=draw(st.sampled_from(["", "other"])),
    )


@st.composite
def pipelines(draw: st.DrawFn) -> p.Pipeline:
    count = draw(st.integers(1, 3))
    return p.Pipeline(
        tuple(draw(tasks(label)) for label in LABELS[:count]),
        vars=tuple(draw(st.lists(st.just(("block", p.Expr("[result, vars.v | default(0)]"))), max_size=1))),
        vars_before=(("before", p.LiteralNode(1)),),
        vars_after=(("after", p.Expr("error.message | default('fine')")),),
        sinks=tuple(draw(st.lists(sinks, max_size=2))),
    )


scripts = st.dictionaries(
    st.sampled_from([*LABELS, "x", "y", "k", "l"]), st.lists(results, min_size=1, max_size=4), max_size=7
)


@settings(
    max_examples=repeated(gate=30, full=150), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(pipelines(), scripts)
def test_any_pipeline_ends_alike_however_often_it_is_interrupted(
    pipeline: p.Pipeline, script: dict[str, list[Any]]
) -> None:
    ways = [
        drive(
            pipeline,
            script,
            Surroundings(FrozenScope(ctx={"total": 1}), 7, "s", "t.yaml"),
            Item(1, "value", "it", 3),
            through_json=through_json,
            overlay=[Patch("ctx", "list", ["old"], "extend")],
        )
        for through_json in (False, True)
    ]
    straight, interrupted = ways
    assert straight.calls == interrupted.calls
    assert msgspec.to_builtins(straight.outcome) == msgspec.to_builtins(interrupted.outcome)
    outcome = straight.outcome
    assert outcome.status in ("ok", "error", "skipped")
    if outcome.status == "error":
        assert outcome.error is not None and outcome.route is None
    else:
        assert outcome.error is None or outcome.route is not None, "only a next answers and keeps the failure"
    keys = [(call.key, call.attempt) for call in straight.calls if "[" not in call.key]
    assert len(set(keys)) == len(keys), (
        "no two calls share key and attempt (but in a nested loop that is tried again)"
    )
    after = {f"{patch.scope}.{patch.name}" for patch in outcome.patches}
    assert {"vars.before", "vars.after"} <= after
