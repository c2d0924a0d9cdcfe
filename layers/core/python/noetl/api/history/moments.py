"""Time travel: an execution at any fact of its history."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.api.http.route import ONE, Parameter, Route
from noetl.api.nouns.graphs import GraphEdgeView, GraphNodeView, NodeState, graph_views, node_states
from noetl.domain.text.timestamps import Timestamp
from noetl.dsl.editors.graph import graph_of
from noetl.services.history.moments import FactSeen, Moment
from noetl.services.queries.read_execution import StepView
from noetl.services.queries.read_moment import ChangeView, ValueView, read_moment

_EVENT = re.compile(r"(\d{1,15}):(\d{1,9})", re.ASCII)
_FACT = re.compile(r"\d{1,9}", re.ASCII)


class MomentAnswer(msgspec.Struct, frozen=True):
    """An execution after ``at`` of its ``total`` facts.

    ``fact``: the latest of them, at ``time``. ``state``: as the engine folds it.

    ``states``: by node of the graph. ``taken``: how many tokens came over each edge, in the order of its edges. ``nodes``, ``edges``: of
    the version that ran at that moment, where the execution runs another one now; else empty. ``steps``: the latest 2,000 step runs; a
    loop that was under way has no counts. ``changes``: what differs between ``since`` and ``at``.
    """

    execution_id: str
    at: int
    since: int
    total: int
    time: Timestamp | None
    fact: FactSeen | None
    status: str
    state: dict[str, Any]
    steps: list[StepView]
    states: dict[str, NodeState]
    taken: list[int]
    nodes: list[GraphNodeView]
    edges: list[GraphEdgeView]
    values: list[ValueView]
    values_left_out: int
    changes: list[ChangeView]
    changes_left_out: int


def get_state(deps: ApiDeps, request: Request) -> Answer:
    """Answer the execution as it was; nothing is changed."""
    execution_id = parse.execution_id(request.params["execution_id"])
    at, since = (request.query.get(name) for name in ("at", "since"))
    view, folded, info = read_moment(
        deps.store,
        deps.histories,
        execution_id,
        Moment() if at is None else read_at(at, "at"),
        None if since is None else read_at(since, "since"),
    )
    program = folded.state.program or info.program
    graph = graph_of(deps.programs(program))
    nodes, edges = graph_views(graph) if program != info.program else ([], [])
    states = node_states(graph, folded.progress, view.time)
    taken = [folded.progress.taken.get(one.index, 0) for one in graph.edges]
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    return Answer(
        200,
        MomentAnswer(str(execution_id), **fields, states=states, taken=taken, nodes=nodes, edges=edges),
    )


def read_at(text: str, name: str) -> Moment:
    """Read a moment: a number of facts, ``SEQ:EVENT``, or a time. Raises BadRequestError."""
    if _FACT.fullmatch(text):
        return Moment(fact=int(text))
    if found := _EVENT.fullmatch(text):
        return Moment(seq=int(found[1]), event=int(found[2]))
    if "T" in text:
        return Moment(time=parse.moment_of(text, name))
    raise BadRequestError(
        f"{name}={text[:40]!r} is not a moment of a history",
        code="invalid_parameter",
        hint="a number of facts, SEQ:EVENT as in the `meta` and id of an event, or a time such as 2026-11-21T10:00:00Z",
    )


_MOMENT = "How many facts of the history; or `SEQ:EVENT` of an event (`meta.seq`, the last number of its id); or a time (RFC 3339)."

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        f"{ONE}/state",
        "getExecutionState",
        "An execution at any fact of its history: the engine's own fold, stopped there, and what changed since another fact.",
        "read",
        get_state,
        {200: MomentAnswer},
        "history",
        query=(
            Parameter("at", f"{_MOMENT} The end of the history without it."),
            Parameter("since", f"{_MOMENT} The fact before `at` without it."),
        ),
        refuses=(429,),
    ),
)
