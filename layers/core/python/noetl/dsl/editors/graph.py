"""A program as a graph: nodes and edges as data (``graph_of``, ``to_json``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from noetl.domain.outcomes.step_ends import shown
from noetl.domain.text.excerpt import excerpt
from noetl.dsl.program import (
    EVERY_STEP,
    Expr,
    GoTo,
    LiteralNode,
    Map,
    NextAction,
    Node,
    Program,
    Sql,
    Step,
    Text,
)
from noetl.dsl.reachability import rules_of
from noetl.dsl.work import tasks_in

MAX_LABEL = 60
NodeKind = Literal["step", "loop", "gate", "route", "ends_all", "undo", "playbook"]
EdgeKind = Literal["arc", "failure", "cancels", "undoes", "calls"]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A step, the task that undoes one, or a playbook that is called.

    ``notes`` are the lines below its name.
    """

    id: str
    name: str
    kind: NodeKind
    notes: tuple[str, ...] = ()
    line: int = 0
    """Where it is in the playbook, with ``column``; 0: it is another playbook."""
    column: int = 0


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """``failure``: taken when the step failed. ``label`` is the guard, shortened."""

    source: str
    target: str
    kind: EdgeKind
    label: str = ""
    line: int = 0
    column: int = 0
    index: int = -1
    """The number of the way that tokens come over; -1: none comes over it."""


@dataclass(slots=True)
class Graph:
    name: str
    entry: str | None = None
    final: str | None = None
    nodes: list[GraphNode] = field(default_factory=list)
    edges: list[GraphEdge] = field(default_factory=list)


def to_json(program: Program) -> dict[str, Any]:
    """Return the graph as plain data."""
    return asdict(graph_of(program))


def graph_of(program: Program) -> Graph:
    """Build the graph: steps in playbook order, what undoes them, and every way between.

    Playbooks that the steps call are nodes, too.
    """
    ids = {step.name: f"s{index}" for index, step in enumerate(program.steps)}
    graph = Graph(program.name, ids.get(program.entry), ids.get(program.final_step or ""))
    graph.nodes += [
        GraphNode(ids[step.name], step.name, _kind(step), tuple(_notes(step)), step.pos.line, step.pos.column)
        for step in program.steps
    ]
    called: dict[str, str] = {}
    for step in program.steps:
        graph.edges += _ways(step, ids)
        graph.edges += [
            GraphEdge(ids[step.name], ids[name], "cancels", "cancels") for name in step.cancels if name in ids
        ]
        _undo(graph, step, ids[step.name])
        _calls(graph, step, ids[step.name], called)
    return graph


def _kind(step: Step) -> NodeKind:
    if EVERY_STEP in step.cancels:
        return "ends_all"
    if step.loop is not None:
        return "loop"
    if step.admit is not None:
        return "gate"
    return "step" if step.body is not None else "route"


def _notes(step: Step) -> Iterator[str]:
    if step.body is not None:
        yield ", ".join(dict.fromkeys(task.kind for task in step.body.tasks))
    if step.loop is not None:
        mode = "" if step.loop.mode == "sequential" else f", {step.loop.mode}"
        yield f"for each {step.loop.iterator}{mode}"
    if step.join != "sync":
        yield f"join {step.join}"
    if step.mutex is not None:
        yield f"lock {shortened(_text(step.mutex))}"
    if step.limits:
        yield "limits " + ", ".join(shortened(_text(limit.key)) for limit in step.limits)
    if step.tolerant:
        yield "continues when it fails"


def _ways(step: Step, ids: dict[str, str]) -> list[GraphEdge]:
    """Arcs, then the ``next`` actions of cases, each target of an action once."""
    here = ids[step.name]
    found = [
        GraphEdge(
            here,
            ids[arc.target],
            "arc" if "done" in arc.on else "failure",
            _guard(arc.when) or ("on_error" if arc.fallback else ""),
            arc.pos.line,
            arc.pos.column,
            arc.index,
        )
        for arc in step.arcs
        if arc.target in ids
    ]
    ways = {route.target: route.index for route in step.routes}
    ways |= {arc.target: arc.index for arc in reversed(step.arcs)}
    seen: set[GoTo] = set()
    for rule in rules_of(step):
        for action in rule.actions:
            for target in action.targets if isinstance(action, NextAction) else ():
                if target not in seen and target.step in ids:
                    seen.add(target)
                    at, way = rule.pos, ways.get(target.step, -1)
                    found.append(
                        GraphEdge(here, ids[target.step], "arc", _guard(rule.when), at.line, at.column, way)
                    )
    return found


def _undo(graph: Graph, step: Step, here: str) -> None:
    if step.compensate is None:
        return
    kinds = ", ".join(dict.fromkeys(task.kind for task in step.compensate.tasks))
    graph.nodes.append(
        GraphNode(f"{here}u", f"undo {step.name}", "undo", (kinds,), step.pos.line, step.pos.column)
    )
    graph.edges.append(GraphEdge(f"{here}u", here, "undoes", "undoes"))


def _calls(graph: Graph, step: Step, here: str, called: dict[str, str]) -> None:
    """Sub-playbooks, by the path they are called with."""
    paths = [
        shortened(_path(task.params)) for task in tasks_in((step.body, step.cases)) if task.kind == "playbook"
    ]
    for path in dict.fromkeys(paths):
        if path not in called:
            called[path] = f"p{len(called)}"
            graph.nodes.append(GraphNode(called[path], path, "playbook"))
        graph.edges.append(GraphEdge(here, called[path], "calls", "calls"))


def _path(params: Node) -> str:
    if isinstance(params, Map):
        return _text(dict(params.entries).get("path", LiteralNode("?")))
    value = params.value if isinstance(params, LiteralNode) else None
    return str(value.get("path", "?")) if isinstance(value, dict) else "?"


def _text(node: Node) -> str:
    if isinstance(node, Expr):
        return f"{{{{ {node.source} }}}}"
    return node.source if isinstance(node, (Text, Sql)) else str(getattr(node, "value", "?"))


def _guard(node: Node | None) -> str:
    return shortened(shown(node.source)) if isinstance(node, (Expr, Text)) else ""


def shortened(text: str) -> str:
    """On one line of at most ``MAX_LABEL`` characters."""
    return excerpt(" ".join(text.split()), MAX_LABEL)
