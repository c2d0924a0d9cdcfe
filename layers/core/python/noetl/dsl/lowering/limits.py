"""Limits shared with other executions: ``spec.limits``, ``executor.spec.concurrency``."""

from __future__ import annotations

from typing import Literal, cast

from noetl.dsl.lowering.context import LIMITS, START, Frame, Lowering
from noetl.dsl.program import Budget, Concurrency, LimitSpec, LiteralNode, Loop, Node
from noetl.dsl.yaml_text.tree import Mapping, Tree, items_of, mapping_of, text_of


def lower_limits(
    lowering: Lowering, spec: Mapping, frame: Frame, loop: Loop | None, *, works: bool
) -> tuple[LimitSpec, ...]:
    """Lower ``spec.limits``. ``works``: the step calls something."""
    tree = spec.get("limits")
    if tree is None:
        return ()
    if not works:
        lowering.diagnostics.warning(
            "no-effect",
            "`limits` bound what a step calls, and this one only routes",
            spec.key_pos("limits"),
            hint="remove it",
        )
        return ()
    at = frame.at(LIMITS)
    found = [_limit(lowering, mapping_of(item), at) for item in items_of(tree)]
    rated = next((limit for limit in found if limit.rate is not None), None)
    if rated is not None and loop is not None and loop.mode == "sequential":
        lowering.diagnostics.error(
            "limit-in-loop",
            "a rate cannot space the iterations of a sequential loop: one worker makes them in one go",
            rated.pos,
            hint="write loop: { spec: { mode: parallel, max_in_flight: 1 } }",
        )
    return tuple(found)


def _limit(lowering: Lowering, block: Mapping, frame: Frame) -> LimitSpec:
    return LimitSpec(
        key=_key(lowering, block.get("key"), frame),
        concurrent=lowering.optional(block.get("concurrent"), frame),
        rate=lowering.optional(block.get("rate"), frame),
        per=lowering.seconds(block.get("per"), frame),
        burst=lowering.optional(block.get("burst"), frame),
        pos=block.key_pos("key"),
    )


def _key(lowering: Lowering, tree: Tree | None, frame: Frame) -> Node:
    node = lowering.node(tree, frame)
    return LiteralNode(str(node.value)) if isinstance(node, LiteralNode) and node.value is not None else node


def lower_budget(lowering: Lowering, tree: Tree | None) -> Budget | None:
    """Lower ``executor.spec.budget``."""
    if tree is None:
        return None
    block, start = mapping_of(tree), Frame("", START)
    if not any(block.has(name) for name in ("calls", "cost", "time")):
        lowering.diagnostics.error(
            "limit-bounds-nothing", "`budget` bounds nothing", tree.pos, hint="give calls, cost or time"
        )
    if block.has("cost"):
        lowering.names.ctx.add("cost")
    return Budget(
        calls=lowering.optional(block.get("calls"), start),
        cost=lowering.optional(block.get("cost"), start),
        time=lowering.seconds(block.get("time"), start),
        pos=tree.pos,
    )


def lower_concurrency(lowering: Lowering, tree: Tree | None) -> Concurrency | None:
    if tree is None:
        return None
    block, start = mapping_of(tree), Frame("", START)
    excess = text_of(block.get("on_excess")) or "queue"
    return Concurrency(
        limit=lowering.node(block.get("limit"), start),
        key=_key(lowering, block.get("key"), start) if block.has("key") else None,
        on_excess=cast(Literal["queue", "refuse", "cancel_oldest"], excess),
        pos=block.key_pos("limit"),
    )
