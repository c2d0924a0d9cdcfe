"""Structural ``next``: the event form's lists and the canonical form's arcs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from noetl.dsl.boundaries import ARC_BOUNDARIES, answers_failure, certain, possible
from noetl.dsl.lowering.cases import lower_targets
from noetl.dsl.lowering.context import BOUNDARY, BOUNDARY_VALUE, NEXT_ARGS, Frame, Lowering
from noetl.dsl.lowering.ends import Ending, both, narrowed, open_at
from noetl.dsl.lowering.rules import always, check_event_names, never_fires
from noetl.dsl.lowering.values import lower_sets, spelled
from noetl.dsl.nodes import LiteralNode
from noetl.dsl.program import Arc
from noetl.dsl.yaml_text.tree import Mapping, Tree, items_of, made_text, mapping_of, text_of

Mode = Literal["exclusive", "inclusive"]
Boundary = Literal["done", "failed"]


@dataclass(frozen=True, slots=True)
class Routes:
    mode: Mode
    arcs: tuple[Arc, ...]


def lower_next(lowering: Lowering, tree: Tree | None, frame: Frame, ending: Ending) -> Routes:
    """Lower all ways out of a step, numbered in playbook order."""
    if isinstance(tree, Mapping) and not tree.has("step"):
        return _arcs(lowering, tree, frame, ending)
    targets = lower_targets(lowering, tree, frame)
    arcs = [Arc(target.step, _number(lowering), args=target.args, pos=target.pos) for target in targets]
    return Routes("inclusive", tuple(arcs))


def _number(lowering: Lowering) -> int:
    lowering.arcs += 1
    return lowering.arcs - 1


def _arcs(lowering: Lowering, block: Mapping, frame: Frame, ending: Ending) -> Routes:
    mode_name = text_of(mapping_of(block.get("spec")).get("mode"))
    mode: Mode = "inclusive" if mode_name in ("inclusive", "all") else "exclusive"
    covered: set[str] = set()
    arcs: list[Arc] = []
    for item in items_of(block.get("arcs")):
        entry = mapping_of(item)
        arc, surely = _arc(lowering, entry, frame, ending)
        if mode == "exclusive":
            if arc.on and set(arc.on) <= covered:
                never_fires(lowering, entry.pos, "an earlier arc is always taken")
            covered |= set(surely)
        arcs.append(arc)
    return Routes(mode, tuple(arcs))


def _arc(
    lowering: Lowering, entry: Mapping, frame: Frame, ending: Ending
) -> tuple[Arc, tuple[Boundary, ...]]:
    """Lower an arc; return it with the boundaries at which it is certainly taken."""
    guard = entry.get("when")
    analysis = lowering.analysis(guard)
    check_event_names(lowering, guard, analysis)
    when, asks = lowering.guard(guard, frame.at(BOUNDARY)), not always(lowering, guard)
    at = open_at(lowering, entry, frame.step, ending)
    if at:
        when = narrowed(lowering, when if asks else None, entry.key_pos("on"), at)
        analysis = lowering.analysis(made_text(both(at, analysis), entry.pos))
    may = possible(analysis, ARC_BOUNDARIES)
    candidates: dict[Boundary, bool] = {
        "done": "done" in may,
        "failed": "failed" in may and answers_failure(analysis),
    }
    on = tuple(boundary for boundary, candidate in candidates.items() if candidate)
    if not on:
        never_fires(lowering, entry.pos, "its guard is never true at the end of a step")
    name = entry.get("step")
    step = text_of(name) or ""
    args = spelled(lowering, entry, "args", "input")
    lowering.names.give_args(step, args)
    arc = Arc(
        target=step,
        index=_number(lowering),
        when=when,
        args=lowering.optional(args, frame.at(NEXT_ARGS)),
        sets=lower_sets(lowering, entry, frame.at(BOUNDARY_VALUE)),
        on=on,
        sync="done" in on,
        pos=name.pos if name is not None else entry.pos,
    )
    if isinstance(when, LiteralNode):
        return arc, () if asks else on
    sure = tuple(b for b in on if b in certain(analysis, ARC_BOUNDARIES)) if at or asks else on
    return arc, sure
