"""What a guard says about the boundary it is looked at, proven without evaluating it.

A guard is read with three values: for one boundary, comparisons of ``event.name`` are known and everything else is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import nodes

from noetl.dsl.expressions import Analysis

DONE = frozenset({"step.done", "step.exit", "call.done", "loop.done"})
FAILED = frozenset({"step.failed", "call.error"})
ARC_BOUNDARIES: dict[str, frozenset[str]] = {"done": DONE, "failed": FAILED}
"""Boundaries an arc is looked at, each with every name ``event.name`` equals there."""

WORKER_EVENTS = ("call.done", "call.error", "loop.item")
ENGINE_EVENTS = ("step.enter", "loop.done", "step.exit")
CASE_EVENTS: dict[str, frozenset[str]] = {
    "call.done": frozenset({"call.done", "worker.done"}),
    "call.error": frozenset({"call.error", "step.failed"}),
    "loop.item": frozenset({"loop.item"}),
    "step.enter": frozenset({"step.enter"}),
    "loop.done": frozenset({"loop.done"}),
    "step.exit": frozenset({"step.exit", "step.done"}),
}
"""Boundaries a ``case`` entry is looked at, each with the names it answers to."""

EVENT_NAMES = frozenset().union(DONE, FAILED, *CASE_EVENTS.values())


def truth(analysis: Analysis | None, names: frozenset[str]) -> bool | None:
    """Evaluate the guard at the boundary called ``names``; None when it needs more."""
    if analysis is None or analysis.root is None:
        return None
    return _truth(analysis.root, names)


def _truth(node: nodes.Node, names: frozenset[str]) -> bool | None:
    if isinstance(node, nodes.Const):
        return bool(node.value)
    if isinstance(node, nodes.Not):
        inner = _truth(node.node, names)
        return None if inner is None else not inner
    if isinstance(node, nodes.And):
        return _both(_truth(node.left, names), _truth(node.right, names))
    if isinstance(node, nodes.Or):
        return _either(_truth(node.left, names), _truth(node.right, names))
    if isinstance(node, nodes.Compare) and len(node.ops) == 1:
        return _compare(node, names)
    return None


def _both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return True if left and right else None


def _either(left: bool | None, right: bool | None) -> bool | None:
    if left or right:
        return True
    return False if left is False and right is False else None


def _compare(node: nodes.Compare, names: frozenset[str]) -> bool | None:
    operand = node.ops[0]
    left, right = node.expr, operand.expr
    if operand.op in ("eq", "ne") and _is_event_name(right):
        left, right = right, left
    if not _is_event_name(left):
        return None
    wanted = _constants(right, single=operand.op in ("eq", "ne"))
    if wanted is None:
        return None
    hit = not names.isdisjoint(wanted)
    return hit if operand.op in ("eq", "in") else not hit if operand.op in ("ne", "notin") else None


def _is_event_name(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Getattr):
        attribute: object = node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        attribute = node.arg.value
    else:
        return False
    return attribute == "name" and isinstance(node.node, nodes.Name) and node.node.name == "event"


def _constants(node: nodes.Node, *, single: bool) -> set[object] | None:
    if single:
        return {node.value} if isinstance(node, nodes.Const) else None
    if isinstance(node, (nodes.List, nodes.Tuple)) and all(
        isinstance(item, nodes.Const) for item in node.items
    ):
        return {item.value for item in node.items if isinstance(item, nodes.Const)}
    return None


def compared_names(analysis: Analysis | None) -> set[str]:
    """Return every text that ``event.name`` is compared with.

    They serve to find names that no event has.
    """
    if analysis is None or analysis.root is None:
        return set()
    root = analysis.root
    compares: Iterable[nodes.Node] = [root, *root.find_all(nodes.Compare)]
    found: set[str] = set()
    for node in compares:
        if isinstance(node, nodes.Compare) and len(node.ops) == 1:
            sides = (node.expr, node.ops[0].expr)
            for this, other in (sides, sides[::-1]):
                if _is_event_name(this):
                    for single in (True, False):
                        found |= {v for v in _constants(other, single=single) or () if isinstance(v, str)}
    return found


def possible(analysis: Analysis | None, boundaries: dict[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the boundaries at which the guard is not proven false.

    These are all boundaries for no guard.
    """
    return tuple(name for name, names in boundaries.items() if truth(analysis, names) is not False)


def certain(analysis: Analysis | None, boundaries: dict[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the boundaries at which the guard is proven true."""
    return tuple(name for name, names in boundaries.items() if truth(analysis, names) is True)


def tests_event(analysis: Analysis | None) -> bool:
    """Report whether a guard reads the event's name, or the event as a whole."""
    if analysis is None or "event" not in analysis.names:
        return False
    parts = {entry for name, entry in analysis.entries if name == "event"}
    return not parts or "name" in parts


def unnamed_events(analysis: Analysis | None, *, answers_calls: bool) -> tuple[str, ...]:
    """Return the events at which an entry is offered when its guard tests none.

    It is offered once, after the call. ``answers_calls``: it runs the call again, so it is offered while that can be done. An entry that
    reads the failure is offered when a call fails as well; the step has no end at which it could be offered then.
    """
    if answers_calls:
        return ("call.done", "call.error")
    return ("call.error", "step.exit") if _reads_failure(analysis) else ("step.exit",)


def _reads_failure(analysis: Analysis | None) -> bool:
    if analysis is None:
        return False
    return "error" in analysis.names or answers_failure(analysis) or not _OF_THIS.isdisjoint(analysis.entries)


_OF_THIS = frozenset({("this", "status"), ("this", "error")})


def answers_failure(analysis: Analysis | None) -> bool:
    """Report whether an arc with this guard may be taken on failure.

    Its guard then reads ``event``, or status or error of the outcome.
    """
    if analysis is None:
        return False
    status = {(name, entry) for name in ("outcome", "output") for entry in ("status", "error")}
    return "event" in analysis.names or not status.isdisjoint(analysis.entries)
