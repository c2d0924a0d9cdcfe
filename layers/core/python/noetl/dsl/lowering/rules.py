"""The canonical form's task policy: rules with directives."""

from __future__ import annotations

from typing import Protocol

from noetl.dsl.boundaries import EVENT_NAMES, compared_names
from noetl.dsl.diagnostics import listing
from noetl.dsl.expressions import Analysis
from noetl.dsl.lowering.context import Frame, Lowering
from noetl.dsl.lowering.retries import canonical_retry
from noetl.dsl.lowering.values import lower_sets
from noetl.dsl.program import (
    Action,
    BreakAction,
    ContinueAction,
    FailAction,
    JumpAction,
    Pos,
    ResultAction,
    Rule,
    SinkAction,
    SkipAction,
)
from noetl.dsl.yaml_text.tree import Mapping, Scalar, Tree, items_of, mapping_of, text_of


class LowerSink(Protocol):
    """A function that makes a ``sink`` block an action.

    It is ``pipelines.lower_sink``, which is in a layer above this module.
    """

    def __call__(self, lowering: Lowering, block: Mapping, frame: Frame, *, label: str) -> SinkAction: ...


def lower_rules(
    lowering: Lowering, policy: Mapping, frame: Frame, labels: tuple[str, ...], label: str, sink: LowerSink
) -> tuple[Rule, ...]:
    """Lower ``spec.policy.rules`` of the task ``label``, whose pipeline has ``labels``."""
    rules: list[Rule] = []
    certain = False
    for entry in items_of(policy.get("rules")):
        rule = mapping_of(entry)
        if certain:
            never_fires(lowering, rule.pos, "an earlier rule always matches")
        guard = rule.get("when")
        otherwise = rule.get("else")
        then = mapping_of(mapping_of(otherwise).get("then") if otherwise is not None else rule.get("then"))
        when = None if otherwise is not None else lowering.guard(guard, frame)
        certain = certain or when is None or always(lowering, guard)
        actions = _actions(lowering, then, frame, labels, label)
        block = then.get("sink")
        if isinstance(block, Mapping):
            actions = (*actions, sink(lowering, block, frame, label=_sink_label(frame.step, label)))
        rules.append(Rule(actions, when, pos=rule.pos))
    return tuple(rules)


def _sink_label(step: str, label: str) -> str:
    """Label a sink; a step's only task needs no name of its own."""
    return f"{step}_sink" if label == f"{step}_task" else f"{label}_sink"


def always(lowering: Lowering, guard: Tree | None) -> bool:
    """Report whether a guard is literally true."""
    if guard is None:
        return True
    value = guard.plain()
    if (
        value is True
        or value == 1
        or (isinstance(value, str) and value.strip().lower() in ("true", "yes", "1"))
    ):
        return True
    analysis = lowering.analysis(guard)
    return analysis is not None and analysis.expression in ("true", "True", "1")


def check_event_names(lowering: Lowering, guard: Tree | None, analysis: Analysis | None) -> None:
    """Report a guard that compares ``event.name`` with a name no event has."""
    for name in sorted(compared_names(analysis) - EVENT_NAMES):
        if isinstance(guard, Scalar):
            at = max(guard.value.find(name), 0)
            hint = lowering.diagnostics.suggest(
                name, EVENT_NAMES, f"events: {', '.join(sorted(EVENT_NAMES))}"
            )
            lowering.diagnostics.error(
                "unknown-event", f"no event is called {name!r}", guard.locate(at), hint=hint
            )


def never_fires(lowering: Lowering, pos: Pos, why: str) -> None:
    lowering.diagnostics.warning(
        "never-fires", f"this can never be reached: {why}", pos, hint="move it up, or remove it"
    )


def _actions(
    lowering: Lowering, then: Mapping, frame: Frame, labels: tuple[str, ...], label: str
) -> tuple[Action, ...]:
    actions: list[Action] = list(lower_sets(lowering, then, frame.value()))
    if then.has("result"):
        actions.append(ResultAction(lowering.node(then.get("result"), frame.value())))
    match text_of(then.get("do")) or "continue":
        case "retry":
            actions.append(canonical_retry(lowering, then, frame))
        case "jump":
            actions.append(_jump(lowering, then, labels, label))
        case "break":
            actions.append(BreakAction())
        case "fail":
            actions.append(FailAction(lowering.optional(then.get("message"), frame.value()), then.pos))
        case "skip":
            actions.append(SkipAction(lowering.optional(then.get("message"), frame.value())))
        case _:
            actions.append(ContinueAction())
    return tuple(actions)


def _jump(lowering: Lowering, then: Mapping, labels: tuple[str, ...], label: str) -> JumpAction:
    target = text_of(then.get("to")) or ""
    tree = then.get("to")
    pos = tree.pos if tree is not None else then.pos
    if target == "previous":
        if labels and labels[0] == label:
            lowering.diagnostics.error(
                "unknown-label",
                f"`to: previous` in {label!r}, which is the first task",
                pos,
                hint="name the task to go to",
            )
    elif target not in labels:
        hint = lowering.diagnostics.suggest(target, labels, listing("tasks of this step", labels))
        lowering.diagnostics.error(
            "unknown-label", f"there is no task {target!r} in this step", pos, hint=hint
        )
    return JumpAction(target, pos)
