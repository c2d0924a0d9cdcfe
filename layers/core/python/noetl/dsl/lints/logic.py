"""Proofs about guards from their syntax: constants, and guards that follow from others.

Nothing is evaluated: operators on values of hostile size never run here.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import msgspec
from jinja2 import nodes

from noetl.domain.outcomes.step_ends import parts
from noetl.dsl.expressions import analyse
from noetl.dsl.model.types import FALSE_WORDS, TRUE_WORDS
from noetl.dsl.nodes import Expr, LiteralNode, Node
from noetl.dsl.template_rules import TemplateProblem

UNKNOWN = object()
_MAX_DEPTH = 40
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": eq,
    "ne": ne,
    "lt": lt,
    "lteq": le,
    "gt": gt,
    "gteq": ge,
}


def own_when(guard: Node | None) -> Node | None:
    """Return what the author wrote as ``when`` of an arc, without the arc's ``on``."""
    if not isinstance(guard, Expr):
        return guard
    _, own = parts(guard.source)
    return None if own is None else msgspec.structs.replace(guard, source=own)


def syntax(guard: Node | None) -> nodes.Expr | None:
    """Return the syntax tree of a guard that is one expression; None for any other."""
    if not isinstance(guard, Expr):
        return None
    try:
        return analyse(f"{{{{ {guard.source} }}}}").root
    except TemplateProblem:
        return None


def constant(guard: Node | None) -> Any:
    """Return the value a guard always has, or ``UNKNOWN`` when it depends on the scope."""
    if isinstance(guard, LiteralNode):
        return guard.value
    root = syntax(guard)
    return UNKNOWN if root is None else _fold(root, 0)


def verdict(value: Any) -> bool | None:
    """Return how a value decides as a guard; None for one that is an error when it runs."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, (int, float)) and value in (0, 1):
        return value == 1
    word = value.strip().lower() if isinstance(value, str) else "?"
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None


def _fold(node: nodes.Node, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return UNKNOWN
    if isinstance(node, nodes.Const):
        return node.value
    if isinstance(node, nodes.Not):
        inner = _fold(node.node, depth + 1)
        return UNKNOWN if inner is UNKNOWN else not inner
    if isinstance(node, (nodes.And, nodes.Or)):
        return _fold_both(node, depth)
    if isinstance(node, nodes.Compare) and len(node.ops) == 1:
        return _fold_compare(node, depth)
    if isinstance(node, (nodes.List, nodes.Tuple)):
        items = [_fold(item, depth + 1) for item in node.items]
        return UNKNOWN if any(item is UNKNOWN for item in items) else items
    return UNKNOWN


def _fold_both(node: nodes.And | nodes.Or, depth: int) -> Any:
    """Fold ``and`` or ``or``: one known side can decide without the other."""
    sides = (_fold(node.left, depth + 1), _fold(node.right, depth + 1))
    deciding = isinstance(node, nodes.Or)
    known = [bool(side) for side in sides if side is not UNKNOWN]
    if deciding in known:
        return deciding
    return UNKNOWN if len(known) < len(sides) else not deciding


def _fold_compare(node: nodes.Compare, depth: int) -> Any:
    operand = node.ops[0]
    left, right = _fold(node.expr, depth + 1), _fold(operand.expr, depth + 1)
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    try:
        if operand.op in ("in", "notin"):
            return (left in right) is (operand.op == "in")
        return _COMPARE[operand.op](left, right)
    except TypeError:
        return UNKNOWN


# --- one guard that follows from another --------------------------------------------------------


def follows(later: nodes.Expr | None, earlier: nodes.Expr | None) -> bool:
    """Report whether ``earlier`` is provably true when ``later`` is true."""
    if later is None or earlier is None:
        return False
    return _follows(later, earlier, 0)


def _follows(later: nodes.Node, earlier: nodes.Node, depth: int) -> bool:
    if depth > _MAX_DEPTH:
        return False
    if isinstance(earlier, nodes.And):
        return _follows(later, earlier.left, depth + 1) and _follows(later, earlier.right, depth + 1)
    if isinstance(later, nodes.Or):
        return _follows(later.left, earlier, depth + 1) and _follows(later.right, earlier, depth + 1)
    if isinstance(earlier, nodes.Or) and (
        _follows(later, earlier.left, depth + 1) or _follows(later, earlier.right, depth + 1)
    ):
        return True
    if isinstance(later, nodes.And):
        return _follows(later.left, earlier, depth + 1) or _follows(later.right, earlier, depth + 1)
    return same(later, earlier) or _membership(later, earlier)


def same(one: nodes.Node, other: nodes.Node) -> bool:
    """Report whether two expressions are written alike, space and quotes aside."""
    return type(one) is type(other) and repr(one) == repr(other)


def _membership(later: nodes.Node, earlier: nodes.Node) -> bool:
    """Report whether the values that one comparison allows are among the other's.

    ``x == 1`` lies in ``x in [1, 2]`` and in ``x != 3``.
    """
    inside, around = _choices(later), _choices(earlier)
    if inside is None or around is None or not same(inside[0], around[0]) or not inside[2]:
        return False
    return inside[1] <= around[1] if around[2] else inside[1].isdisjoint(around[1])


def _choices(node: nodes.Node) -> tuple[nodes.Node, frozenset[str], bool] | None:
    """Split a comparison with constants into its parts, or return None.

    The parts: what is compared, the constants, whether it must be among them.
    """
    if not isinstance(node, nodes.Compare) or len(node.ops) != 1:
        return None
    subject, operand = node.expr, node.ops[0]
    if operand.op in ("eq", "ne"):
        given: list[nodes.Expr] = [operand.expr]
    elif operand.op in ("in", "notin") and isinstance(operand.expr, (nodes.List, nodes.Tuple)):
        given = operand.expr.items
    else:
        return None
    if not all(isinstance(item, nodes.Const) for item in given):
        return None
    values = frozenset(repr(item) for item in given)
    return subject, values, operand.op in ("eq", "in")


def compared(root: nodes.Expr, base: str, attribute: str) -> list[tuple[str, bool]]:
    """Return the texts that a guard compares with ``base.attribute`` for equality.

    Each comes with whether it is one of a list of several.
    """
    found: list[tuple[str, bool]] = []
    for compare in {id(node): node for node in (root, *root.find_all(nodes.Compare))}.values():
        if not isinstance(compare, nodes.Compare) or len(compare.ops) != 1:
            continue
        sides = (compare.expr, compare.ops[0].expr)
        for this, other in (sides, sides[::-1]):
            if _is_attribute(this, base, attribute):
                found += _texts(other)
    return found


def _is_attribute(node: nodes.Node, base: str, attribute: str) -> bool:
    if isinstance(node, nodes.Getattr):
        name: object = node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        name = node.arg.value
    else:
        return False
    return name == attribute and isinstance(node.node, nodes.Name) and node.node.name == base


def _texts(node: nodes.Node) -> list[tuple[str, bool]]:
    if isinstance(node, nodes.Const):
        return [(node.value, False)] if isinstance(node.value, str) else []
    if isinstance(node, (nodes.List, nodes.Tuple)):
        return [
            (item.value, len(node.items) > 1)
            for item in node.items
            if isinstance(item, nodes.Const) and isinstance(item.value, str)
        ]
    return []
