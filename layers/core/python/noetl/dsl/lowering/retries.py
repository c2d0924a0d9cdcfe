"""Retries in all spellings: rules, ``retry`` of a step, task or ``case``, the default."""

from __future__ import annotations

from typing import Any, Literal

from noetl.dsl.lowering.context import Frame, Lowering
from noetl.dsl.lowering.values import spelled
from noetl.dsl.program import LiteralNode, Node, Pos, RetryAction, Rule, StepRetry
from noetl.dsl.yaml_text.tree import Mapping, Scalar, Tree, mapping_of, text_of

_BACKOFF: dict[str, Literal["none", "linear", "exponential"]] = {
    "none": "none",
    "fixed": "none",
    "linear": "linear",
    "exponential": "exponential",
}


def canonical_retry(lowering: Lowering, then: Mapping, frame: Frame) -> RetryAction:
    """Lower ``do: retry`` of a policy rule: by default three tries a second apart."""
    return RetryAction(
        attempts=_or(lowering, then.get("attempts"), 3, frame),
        delay=lowering.seconds(then.get("delay"), frame) or LiteralNode(1),
        backoff=_BACKOFF.get(text_of(then.get("backoff")) or "none", "none"),
        multiplier=_or(lowering, then.get("multiplier"), 2, frame),
        max_delay=lowering.seconds(then.get("max_delay"), frame),
        jitter=lowering.optional(then.get("jitter"), frame),
        exhausted="fail",
        pos=then.pos,
    )


def retry_action(lowering: Lowering, block: Tree | None, pos: Pos, frame: Frame) -> RetryAction:
    """Lower the fields of a ``retry`` block.

    ``retry: true`` takes every default; a number is the number of tries.
    """
    fields = mapping_of(block)
    attempts = spelled(lowering, fields, "attempts", "max_attempts")
    if isinstance(block, Scalar) and not isinstance(block.value, bool):
        attempts = block
    delay = spelled(lowering, fields, "delay", "initial_delay")
    return RetryAction(
        attempts=_or(lowering, attempts, 3, frame),
        delay=lowering.seconds(delay, frame) or LiteralNode(1),
        backoff=_BACKOFF.get(text_of(fields.get("backoff")) or "exponential", "exponential"),
        multiplier=_or(lowering, spelled(lowering, fields, "multiplier", "backoff_multiplier"), 2, frame),
        max_delay=lowering.seconds(fields.get("max_delay"), frame),
        jitter=lowering.optional(fields.get("jitter"), frame),
        exhausted="next_rule",
        pos=pos,
    )


def wants_none(tree: Tree | None) -> bool:
    """Report whether ``retry: false`` refuses the default."""
    return isinstance(tree, Scalar) and tree.value is False


def lower_retry(lowering: Lowering, tree: Tree | None, pos: Pos, frame: Frame) -> StepRetry | None:
    """Lower ``retry`` of a step, a task or the playbook.

    ``frame`` is that of the tool.
    """
    if tree is None or wants_none(tree) or (isinstance(tree, Scalar) and tree.value is None):
        return None
    fields, guard = mapping_of(tree), frame.guard()
    return StepRetry(
        action=retry_action(lowering, tree, pos, frame.value()),
        retry_when=lowering.guard(spelled(lowering, fields, "when", "retry_when"), guard),
        stop_when=lowering.guard(spelled(lowering, fields, "until", "stop_when"), guard),
    )


def retries(rules: tuple[Rule, ...]) -> bool:
    """Return whether a rule repeats the call: then the playbook's default does not."""
    return any(isinstance(action, RetryAction) for rule in rules for action in rule.actions)


def _or(lowering: Lowering, tree: Tree | None, default: Any, frame: Frame) -> Node:
    return LiteralNode(default) if tree is None else lowering.node(tree, frame)
