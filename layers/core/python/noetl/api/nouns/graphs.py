"""What is answered about graphs of playbooks and executions.

Graphs of playbooks and executions over the API.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.domain.text.timestamps import Timestamp
from noetl.dsl.editors.graph import Graph, graph_of
from noetl.dsl.program import Program
from noetl.services.history.progress import Progress, read_progress
from noetl.services.queries import read_execution
from noetl.services.queries.read_execution import LoopView


class GraphNodeView(msgspec.Struct, frozen=True):
    """``line`` and ``column``: where it is in the playbook, from 1; 0: in another one."""

    id: str
    name: str
    kind: Literal["step", "loop", "gate", "route", "ends_all", "undo", "playbook"]
    notes: list[str]
    line: int
    column: int


class GraphEdgeView(msgspec.Struct, frozen=True):
    """``label``: the guard, shortened."""

    source: str
    target: str
    kind: Literal["arc", "failure", "cancels", "undoes", "calls"]
    label: str
    line: int
    column: int


class GraphAnswer(msgspec.Struct, frozen=True):
    """The graph of a playbook.

    ``graph``: the playbook as text of a drawing language; empty with ``format=json``, which has nodes and edges.
    """

    path: str
    version: int
    format: Literal["mermaid", "json"]
    graph: str
    entry: str | None = None
    final: str | None = None
    nodes: list[GraphNodeView] = []
    edges: list[GraphEdgeView] = []


class DraftGraph(msgspec.Struct, frozen=True):
    """The graph of a text that is being written."""

    entry: str | None
    final: str | None
    nodes: list[GraphNodeView]
    edges: list[GraphEdgeView]


class NodeState(msgspec.Struct, frozen=True):
    """The state of one node.

    ``status``: of the last run. ``runs``, ``failed``: how many there were, and how many of them failed.
    """

    status: str
    run: int
    runs: int
    failed: int
    attempts: int
    started_at: Timestamp
    loop: LoopView | None = None
    child_execution_id: str | None = None


class ExecutionGraphAnswer(msgspec.Struct, frozen=True):
    """The graph of a playbook with the state of an execution.

    ``states``: by node, of those that have run. ``taken``: how many tokens came over each edge, in the order of ``edges``.
    """

    execution_id: str
    path: str
    status: str
    entry: str | None
    final: str | None
    nodes: list[GraphNodeView]
    edges: list[GraphEdgeView]
    states: dict[str, NodeState]
    taken: list[int]


def graph_views(graph: Graph) -> tuple[list[GraphNodeView], list[GraphEdgeView]]:
    """Return nodes and edges as the API shows them."""
    nodes = [
        GraphNodeView(one.id, one.name, one.kind, list(one.notes), one.line, one.column)
        for one in graph.nodes
    ]
    edges = [
        GraphEdgeView(one.source, one.target, one.kind, one.label, one.line, one.column)
        for one in graph.edges
    ]
    return nodes, edges


def draft_graph(program: Program) -> DraftGraph:
    """Return the graph of a program that no catalog has."""
    graph = graph_of(program)
    return DraftGraph(graph.entry, graph.final, *graph_views(graph))


def get_execution_graph(deps: ApiDeps, request: Request) -> Answer:
    """The graph of the version that the execution runs, and what became of each step."""
    execution_id = parse.execution_id(request.params["execution_id"])
    info = read_execution.find(deps.store, execution_id)
    graph = graph_of(deps.programs(info.program))
    progress = read_progress(deps.store, execution_id)
    nodes, edges = graph_views(graph)
    answer = ExecutionGraphAnswer(
        str(execution_id),
        info.path,
        read_execution.view_status(info),
        graph.entry,
        graph.final,
        nodes,
        edges,
        {} if parse.flag(request, "lean") else node_states(graph, progress, deps.clock()),
        [progress.taken.get(one.index, 0) for one in graph.edges],
    )
    return Answer(200, answer)


def node_states(graph: Graph, progress: Progress, now: float) -> dict[str, NodeState]:
    """Return the state of each node that has run, by its id."""
    ids = {one.name: one.id for one in graph.nodes if one.kind not in ("undo", "playbook")}
    found: dict[str, NodeState] = {}
    for run in progress.runs.values():
        node = ids.get(run.step)
        if node is None:
            continue
        shown = read_execution.step_view(run, now)
        before = found.get(node)
        found[node] = NodeState(
            shown.status,
            shown.run,
            (before.runs if before else 0) + 1,
            (before.failed if before else 0) + (shown.status == "failed"),
            shown.attempts,
            shown.started_at,
            shown.loop,
            shown.child_execution_id,
        )
    return found
