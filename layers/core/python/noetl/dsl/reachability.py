"""Who leads to whom: edges between steps, synchronising arcs into each, and what each can still reach."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from noetl.dsl.program import Arc, GoTo, NextAction, Pipeline, Pos, Program, Route, Rule, Step, ways_of


@dataclass(frozen=True, slots=True)
class Edge:
    """``source`` may go to ``target``; ``sync`` edges count for the synchronising merge.

    ``way``: the number of the arc or route that a token comes over; edges that name one way twice share it (-1: not numbered yet).
    """

    source: str
    target: str
    sync: bool
    pos: Pos
    way: int = -1


def edges(program: Program) -> list[Edge]:
    """Every way from step to step, in playbook order: arcs, then ``next`` actions of cases."""
    return [edge for step in program.steps for edge in step_edges(step)]


def step_edges(step: Step) -> list[Edge]:
    """Every way out of one step."""
    found = [Edge(step.name, arc.target, arc.sync, arc.pos, arc.index) for arc in step.arcs]
    ways = ways_of(step)
    seen: set[int] = set()
    for rule in rules_of(step):
        for targets in _nexts(rule):
            for target, place in _counted(targets):
                if id(target) not in seen:
                    seen.add(id(target))
                    known = ways.get(target.step, ())
                    way = known[place] if place < len(known) else -1
                    found.append(Edge(step.name, target.step, True, target.pos, way))
    return found


def rules_of(step: Step) -> Iterator[Rule]:
    """Every rule of a step, the engine's and its tasks'."""
    yield from step.cases
    if step.body is not None:
        yield from _pipeline_rules(step.body)


def _pipeline_rules(body: Pipeline) -> Iterator[Rule]:
    for task in body.tasks:
        yield from task.rules


def _nexts(rule: Rule) -> Iterator[tuple[GoTo, ...]]:
    """The targets of each ``next`` of a rule."""
    for action in rule.actions:
        if isinstance(action, NextAction):
            yield action.targets


def _counted(targets: Iterable[GoTo]) -> Iterator[tuple[GoTo, int]]:
    """Each target of one ``next``, with how often the same step was named before it."""
    named: Counter[str] = Counter()
    for target in targets:
        yield target, named[target.step]
        named[target.step] += 1


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


def _numbered(program: Program) -> Program:
    """Number every way out of every step in playbook order: its arcs, then what only ``next`` actions of its cases name.

    Ways of ``on_error`` come after all others.
    """
    numbers = itertools.count()
    steps = []
    for step in program.steps:
        arcs = tuple(_with_numbers(step, numbers))
        step = msgspec.structs.replace(step, arcs=arcs)
        routes = tuple(Route(target, next(numbers)) for target in _only_named(step))
        steps.append(msgspec.structs.replace(step, routes=routes))
    for place, step in enumerate(steps):
        arcs = tuple(
            msgspec.structs.replace(arc, index=next(numbers)) if arc.fallback else arc for arc in step.arcs
        )
        steps[place] = msgspec.structs.replace(step, arcs=arcs)
    return msgspec.structs.replace(program, steps=tuple(steps))


def _with_numbers(step: Step, numbers: Iterator[int]) -> Iterator[Arc]:
    """Number the arcs of a step, those of ``on_error`` aside; synchronising arcs of an exclusive choice share a number per target."""
    shared: dict[str, int] = {}
    for arc in step.arcs:
        if arc.fallback:
            yield arc
            continue
        index = shared.get(arc.target) if arc.sync and step.mode == "exclusive" else None
        index = next(numbers) if index is None else index
        if arc.sync:
            shared.setdefault(arc.target, index)
        yield msgspec.structs.replace(arc, index=index)


def _only_named(step: Step) -> Iterator[str]:
    """Targets of ``next`` actions that no ordinary arc stands for; as often as one action names them."""
    arcs = Counter(target for target, _ in {(arc.target, arc.index) for arc in step.arcs if arc.sync})
    most: dict[str, int] = {}
    for rule in rules_of(step):
        for targets in _nexts(rule):
            for target, place in _counted(targets):
                most[target.step] = max(most.get(target.step, 0), place + 1)
    for name, times in most.items():
        yield from [name] * (times - arcs[name])


def with_reachability(program: Program) -> Program:
    """Number the ways between steps, and fill in ``incoming``, ``ways`` and ``reaches`` of every step."""
    program = _numbered(program)
    sync = [edge for edge in edges(program) if edge.sync]
    incoming = Counter(edge.target for edge in sync)
    ways = Counter(target for target, _ in {(edge.target, edge.way) for edge in sync})
    names = [step.name for step in program.steps]
    reached = _reachable(names, sync)
    steps = []
    for step, bits in zip(program.steps, reached, strict=True):
        reaches = tuple(name for place, name in enumerate(names) if bits >> place & 1)
        steps.append(
            msgspec.structs.replace(step, incoming=incoming[step.name], ways=ways[step.name], reaches=reaches)
        )
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
