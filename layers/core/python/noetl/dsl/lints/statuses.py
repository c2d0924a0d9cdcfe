"""Guards of arcs that ask for a status with which an HTTP call fails.

A call that failed leaves its step by the arcs on failure, so such a guard is never true, unless the task accepts the status.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from noetl.domain.outcomes.step_ends import parts
from noetl.dsl.expressions import Analysis, analyse
from noetl.dsl.lints.rows import entries_of
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr
from noetl.dsl.program import Program, Step, Task
from noetl.dsl.template_rules import TemplateProblem

ANY = "any"
_FAILS = 400
_REDIRECTS = 299
"""A guard that asks for more than this asks for no good answer."""
_MAX_DEPTH = 40
_CODES = {
    *(f"{base}.status_code" for base in ("response", "result", "output.data", "outcome.result")),
    *(f"{base}.status" for base in ("response", "output.http", "outcome.http")),
}
_TURNED = {"gt": "lt", "gteq": "lteq", "lt": "gt", "lteq": "gteq"}
_DENIED = {"eq": "ne", "ne": "eq", "in": "notin", "notin": "in", "lt": "gteq", "lteq": "gt"}
_OF_FAILURE = frozenset(
    {("output", "status"), ("output", "error"), ("outcome", "status"), ("outcome", "error")}
)


def failed_statuses(guard: str, step: str) -> frozenset[int] | str:
    """Return the failed statuses that a guard of a step asks for; ``any`` for a range of them.

    It is an empty set for a guard that asks for none, or that asks for the failure itself.
    """
    try:
        found = analyse(guard)
    except TemplateProblem:
        return frozenset()
    if found.root is None or _asks_for_failure(found):
        return frozenset()
    statuses = list(_failed_in(found.root, _CODES | {f"{step}.status_code"}, 0, denied=False))
    return ANY if ANY in statuses else frozenset(one for one in statuses if isinstance(one, int))


def asks_for_failure(guard: str) -> bool:
    """Return whether a guard is one of a call that failed, too."""
    try:
        return _asks_for_failure(analyse(guard))
    except TemplateProblem:
        return False


def _asks_for_failure(found: Analysis) -> bool:
    return bool({"event", "error"} & found.names or _OF_FAILURE & found.entries)


def check_statuses(lowering: Lowering, program: Program) -> None:
    """Warn about arcs that are never taken, as the call has failed with such a status."""
    for step in program.steps:
        task = _call_of(step)
        if task is None or "accept_status" in entries_of(task.params):
            continue
        for arc in step.arcs:
            if not isinstance(arc.when, Expr):
                continue
            _, own = parts(arc.when.source)
            guard = arc.when.source if own is None or "failed" in arc.on else own
            statuses = failed_statuses(f"{{{{ {guard} }}}}", step.name)
            if not statuses:
                continue
            word = ANY if statuses == ANY else f"[{', '.join(map(str, sorted(map(int, statuses))))}]"
            lowering.diagnostics.warning(
                "failed-status",
                "an answer with such a status fails the call, and then this guard is not asked",
                arc.when.pos,
                hint=f"write accept_status: {word} in the task; or ask for event.name == 'step.failed' and output.error.status",
            )


def _call_of(step: Step) -> Task | None:
    """Return the HTTP call that a step makes once."""
    tasks = step.body.tasks if step.body is not None else ()
    return tasks[-1] if tasks and step.loop is None and tasks[-1].kind == "http" else None


def _failed_in(node: nodes.Node, codes: set[str], depth: int, *, denied: bool) -> Iterator[int | str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(node, nodes.Not):
        yield from _failed_in(node.node, codes, depth + 1, denied=not denied)
    elif isinstance(node, (nodes.And, nodes.Or)):
        sides = (node.left, node.right)
        found = [one for side in sides for one in _failed_in(side, codes, depth + 1, denied=denied)]
        below = isinstance(node, nodes.And) and not denied and any(map(_is_below, sides))
        yield from (one for one in found if not below or one != ANY)
    elif isinstance(node, nodes.Compare) and len(node.ops) == 1:
        yield from _compared(node, codes, denied=denied)


def _compared(node: nodes.Compare, codes: set[str], *, denied: bool) -> Iterator[int | str]:
    left, sign, right = node.expr, node.ops[0].op, node.ops[0].expr
    if isinstance(left, nodes.Const):
        left, sign, right = right, _TURNED.get(sign, sign), left
    if _path(left) not in codes:
        return
    sign = _DENIED.get(sign, "") if denied else sign
    among = right.items if isinstance(right, (nodes.List, nodes.Tuple)) else [right]
    numbers = [one.value for one in among if isinstance(one, nodes.Const) and type(one.value) is int]
    if not numbers or len(numbers) < len(among):
        return
    failed = [number for number in numbers if number >= _FAILS]
    if sign in ("eq", "in"):
        yield from failed
    elif (sign in ("ne", "notin") and not failed) or (sign in ("gt", "gteq") and numbers[0] >= _REDIRECTS):
        yield ANY


def _is_below(node: nodes.Node) -> bool:
    """Return whether a comparison leaves no failed status, such as ``x < 400``."""
    if not isinstance(node, nodes.Compare) or len(node.ops) != 1 or node.ops[0].op not in ("lt", "lteq"):
        return False
    limit = node.ops[0].expr
    return isinstance(limit, nodes.Const) and type(limit.value) is int and limit.value <= _FAILS


def _path(node: nodes.Node) -> str:
    """Return what an expression reads, such as ``response.status_code``, without filters."""
    while isinstance(node, nodes.Filter) and node.name in ("int", "default") and node.node is not None:
        node = node.node
    if isinstance(node, nodes.Name):
        return str(node.name)
    if isinstance(node, nodes.Getattr):
        name: object = node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        name = node.arg.value
    else:
        return ""
    return f"{_path(node.node)}.{name}"
