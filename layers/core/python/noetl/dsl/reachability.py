"""Who leads to whom: edges between steps, synchronising arcs into each, and what each can still reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from noetl.dsl.program import GoTo, NextAction, Pipeline, Pos, Program, Rule, Step


@dataclass(frozen=True, slots=True)
class Edge:
    """``source`` may go to ``target``; ``sync`` edges count for the synchronising merge."""

    source: str
    target: str
    sync: bool
    pos: Pos


def edges(program: Program) -> list[Edge]:
    """Every way from step to step, in playbook order: arcs, then ``next`` actions of cases."""
    return [edge for step in program.steps for edge in step_edges(step)]


def step_edges(step: Step) -> list[Edge]:
    found = [Edge(step.name, arc.target, arc.sync, arc.pos) for arc in step.arcs]
    seen: set[int] = set()
    for rule in rules_of(step):
        for target in _targets(rule):
            if id(target) not in seen:
                seen.add(id(target))
                found.append(Edge(step.name, target.step, True, target.pos))
    return found


def rules_of(step: Step) -> Iterator[Rule]:
    """Every rule of a step, the engine's and its tasks'."""
    yield from step.cases
    if step.body is not None:
        yield from _pipeline_rules(step.body)


def _pipeline_rules(body: Pipeline) -> Iterator[Rule]:
    for task in body.tasks:
        yield from task.rules


def _targets(rule: Rule) -> Iterable[GoTo]:
    for action in rule.actions:
        if isinstance(action, NextAction):
            yield from action.targets


def closure(start: Iterable[str], following: dict[str, list[str]]) -> set[str]:
    """Everything reachable from ``start``, without ``start`` itself unless a cycle leads back."""
    found: set[str] = set()
    queue = list(start)
    while queue:
        for target in following.get(queue.pop(), ()):
            if target not in found:
                found.add(target)
                queue.append(target)
    return found


def with_reachability(program: Program) -> Program:
    """``incoming`` and ``reaches`` of every step filled in."""
    sync = [edge for edge in edges(program) if edge.sync]
    incoming: dict[str, int] = {}
    for edge in sync:
        incoming[edge.target] = incoming.get(edge.target, 0) + 1
    names = [step.name for step in program.steps]
    reached = _reachable(names, sync)
    steps = []
    for step, bits in zip(program.steps, reached, strict=True):
        reaches = tuple(name for place, name in enumerate(names) if bits >> place & 1)
        steps.append(msgspec.structs.replace(step, incoming=incoming.get(step.name, 0), reaches=reaches))
    done = [
        msgspec.structs.replace(step, feeders=_feeders(step.name, steps, sync))
        if step.join_rest == "cancel"
        else step
        for step in steps
    ]
    return msgspec.structs.replace(program, steps=tuple(done))


def _feeders(join: str, steps: list[Step], sync: list[Edge]) -> tuple[str, ...]:
    """Steps from which every synchronising arc leads to ``join`` in the end."""
    found = {step.name for step in steps if join in step.reaches and step.name != join}
    while True:
        elsewhere = {edge.source for edge in sync if edge.target not in found and edge.target != join} & found
        if not elsewhere:
            break
        found -= elsewhere
    return tuple(step.name for step in steps if step.name in found)


def _reachable(names: list[str], sync: list[Edge]) -> list[int]:
    """Per step the set of steps it can reach, as bits by place. Successors are settled first, so few passes are needed."""
    places = {name: place for place, name in enumerate(names)}
    following: list[list[int]] = [[] for _ in names]
    for edge in sync:
        if edge.target in places:
            following[places[edge.source]].append(places[edge.target])
    order = _post_order(following)
    reached = [0] * len(names)
    changed = True
    while changed:
        changed = False
        for place in order:
            bits = reached[place]
            for target in following[place]:
                bits |= reached[target] | 1 << target
            if bits != reached[place]:
                reached[place], changed = bits, True
    return reached


def _post_order(following: list[list[int]]) -> list[int]:
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(following)):
        stack = [(start, iter(following[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            place, targets = stack[-1]
            fresh = next((target for target in targets if target not in seen), None)
            if fresh is None:
                order.append(place)
                stack.pop()
            else:
                seen.add(fresh)
                stack.append((fresh, iter(following[fresh])))
    return order
