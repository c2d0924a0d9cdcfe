"""Edges between steps, synchronising arcs into each, and the steps each can reach."""

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
    """List every way from step to step, in playbook order.

    Arcs come first, then ``next`` actions of cases.
    """
    return [edge for step in program.steps for edge in step_edges(step)]


def step_edges(step: Step) -> list[Edge]:
    """List every way out of one step."""
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
    """Yield every rule of a step, the engine's and its tasks'."""
    yield from step.cases
    if step.body is not None:
        yield from _pipeline_rules(step.body)


def _pipeline_rules(body: Pipeline) -> Iterator[Rule]:
    for task in body.tasks:
        yield from task.rules


def _nexts(rule: Rule) -> Iterator[tuple[GoTo, ...]]:
    """Yield the targets of each ``next`` of a rule."""
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
    """Number every way out of every step in playbook order: arcs, then routes.

    Routes are the ways that only ``next`` actions of its cases take.

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
    """Number the arcs of a step, except those of ``on_error``.

    Synchronising arcs of an exclusive choice share a number per target.
    """
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
    """Targets of ``next`` actions without an ordinary arc; as often as one action names them."""
    arcs = Counter(target for target, _ in {(arc.target, arc.index) for arc in step.arcs if arc.sync})
    most: dict[str, int] = {}
    for rule in rules_of(step):
        for targets in _nexts(rule):
            for target, place in _counted(targets):
                most[target.step] = max(most.get(target.step, 0), place + 1)
    for name, times in most.items():
        yield from [name] * (times - arcs[name])


def with_reachability(program: Program) -> Program:
    """Number the ways between steps; fill in each ``incoming``, ``ways`` and ``reaches``."""
    program = _numbered(program)
    sync = [edge for edge in edges(program) if edge.sync]
    incoming = Counter(edge.target for edge in sync)
    ways = Counter(target for target, _ in {(edge.target, edge.way) for edge in sync})
    reach = ReachableSteps([step.name for step in program.steps], sync)
    shared: dict[int, tuple[str, ...]] = {}
    steps = []
    for step in program.steps:
        bits = reach.bits[reach.places[step.name]]
        if bits not in shared:
            shared[bits] = tuple(reach.names_in(bits))
        steps.append(
            msgspec.structs.replace(
                step, incoming=incoming[step.name], ways=ways[step.name], reaches=shared[bits]
            )
        )
    if any(step.join_rest == "cancel" for step in steps):
        back = reach.reversed()
        steps = [
            msgspec.structs.replace(step, feeders=_feeders(step.name, reach, back))
            if step.join_rest == "cancel"
            else step
            for step in steps
        ]
    return msgspec.structs.replace(program, steps=tuple(steps))


def _feeders(join: str, reach: ReachableSteps, back: ReachableSteps) -> tuple[str, ...]:
    """Steps from which every synchronising arc leads to ``join`` in the end.

    Of those that reach it, all but the ones with a way to a step that does not.
    """
    place = reach.places[join]
    found = back.bits[place] & ~(1 << place)
    inside = found | 1 << place
    queue = [one for one in reach.places_in(found) if reach.next_bits[one] & ~inside]
    for one in queue:
        found &= ~(1 << one)
    while queue:
        for before in back.following[queue.pop()]:
            if found >> before & 1:
                found &= ~(1 << before)
                queue.append(before)
    return tuple(reach.names_in(found))


class ReachableSteps:
    """Which steps each step leads to, as sets of bits: bit n is step number n.

    Steps of one cycle share a set, and every component is settled after those it leads to. So the whole costs one "or" per edge.
    """

    def __init__(self, names: list[str], ways: Iterable[Edge]) -> None:
        self.names = names
        self.places = {name: place for place, name in enumerate(names)}
        pairs = {
            (self.places[way.source], self.places[way.target]): None
            for way in ways
            if way.source in self.places and way.target in self.places
        }
        self._settle(pairs)

    def _settle(self, pairs: Iterable[tuple[int, int]]) -> None:
        self.following: list[list[int]] = [[] for _ in self.names]
        self.next_bits = [0] * len(self.names)
        for source, target in pairs:
            self.following[source].append(target)
            self.next_bits[source] |= 1 << target
        self.bits = [0] * len(self.names)
        """Per step: what it leads to over one or more edges; itself only when a cycle leads back."""
        self.components = list(_components(self.following))
        """Steps that all lead to each other, the last ones first."""
        for component in self.components:
            bits = 0
            for place in component:
                bits |= self.next_bits[place]
            for place in component:
                for target in self.following[place]:
                    bits |= self.bits[target]
            for place in component:
                self.bits[place] = bits

    def reversed(self) -> ReachableSteps:
        """Return the same steps with every edge turned round: what leads to each step."""
        turned = ReachableSteps(self.names, ())
        turned._settle(
            (target, source) for source, targets in enumerate(self.following) for target in targets
        )
        return turned

    def names_in(self, bits: int) -> Iterator[str]:
        """Return the names of a set of steps, in playbook order."""
        return (self.names[place] for place in self.places_in(bits))

    def places_in(self, bits: int) -> Iterator[int]:
        """Return the numbers of a set of steps, in playbook order."""
        return (place for place, bit in enumerate(f"{bits:b}"[::-1]) if bit == "1")


def _components(following: list[list[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components, each after those it leads to.

    It is Tarjan's algorithm, with a stack instead of recursion.
    """
    order = [0] * len(following)
    lowest = [0] * len(following)
    settled = [False] * len(following)
    waiting: list[int] = []
    count = 0
    for start in range(len(following)):
        work = [] if order[start] else [(start, iter(following[start]))]
        while work:
            place, targets = work[-1]
            if not order[place]:
                count += 1
                order[place] = lowest[place] = count
                waiting.append(place)
            fresh = None
            for target in targets:
                if not order[target]:
                    fresh = target
                    break
                if not settled[target]:
                    lowest[place] = min(lowest[place], order[target])
            if fresh is not None:
                work.append((fresh, iter(following[fresh])))
                continue
            work.pop()
            if work:
                above = work[-1][0]
                lowest[above] = min(lowest[above], lowest[place])
            if lowest[place] == order[place]:
                component: list[int] = []
                while not component or component[-1] != place:
                    component.append(waiting.pop())
                    settled[component[-1]] = True
                yield component
