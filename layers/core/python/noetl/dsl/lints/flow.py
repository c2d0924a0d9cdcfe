"""Lints of routes and waits: endless cycles, closed joins and admissions, racing writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from noetl.dsl.boundaries import ARC_BOUNDARIES, certain
from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.expressions import analyse
from noetl.dsl.lints import logic
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr, LiteralNode, Node, Pos
from noetl.dsl.program import (
    AdmitRule,
    BreakAction,
    ContinueAction,
    FailAction,
    JumpAction,
    NextAction,
    Pipeline,
    Program,
    RetryAction,
    Rule,
    SetAction,
    Step,
    Task,
)
from noetl.dsl.reachability import Edge, ReachableSteps, edges, rules_of
from noetl.dsl.work import tasks_in
from noetl.dsl.yaml_text.tree import Mapping, Scalar, Sequence, Tree

_LEAVES = (BreakAction, ContinueAction, FailAction, NextAction)
_MANY_STEPS = 200
"""Programs of more steps are not searched for races: pairs of branches grow with the square."""
_MANY_PAIRS = 1_000_000
"""Pairs of branches, times names that several steps write, that are searched at most."""


def check_flow(lowering: Lowering, program: Program, root: Mapping) -> None:
    """Run every lint about routes, waits and limits."""
    diagnostics = lowering.diagnostics
    ways = edges(program)
    choices = _Choices(program, ways)
    for step in program.steps:
        _check_join(step, choices, diagnostics)
        _check_admission(step, diagnostics)
        for tasks in _sequences(step):
            _check_jumps(tasks, diagnostics)
        _check_retries(step, diagnostics)
    _check_final(program, ways, diagnostics)
    _check_cycles(program, ways, diagnostics)
    _check_races(program, diagnostics)
    for tree in (root.get("executor"), root.get("workflow"), root.get("workbook")):
        _check_zero(tree, diagnostics, under_spec=False)


# --- limits -------------------------------------------------------------------------------------


def _check_zero(tree: Tree | None, diagnostics: Diagnostics, *, under_spec: bool) -> None:
    """Literal limits of zero seconds, wherever a ``spec`` has them."""
    if isinstance(tree, Sequence):
        for item in tree.items:
            _check_zero(item, diagnostics, under_spec=under_spec)
    if not isinstance(tree, Mapping):
        return
    for key, value in tree.items():
        limit = under_spec and key.text in ("timeout", "timeout_s", "deadline_s")
        if limit and isinstance(value, Scalar) and not isinstance(value.value, bool) and value.value == 0:
            diagnostics.warning(
                "zero-timeout",
                f"`{key.text}: 0` leaves no time at all",
                value.pos,
                hint="write the seconds it may take, or remove it for no limit",
            )
        _check_zero(value, diagnostics, under_spec=under_spec or key.text == "spec")


def _check_retries(step: Step, diagnostics: Diagnostics) -> None:
    for task in tasks_in((step.body, step.cases, step.compensate)):
        found = [action for rule in task.rules for action in rule.actions if isinstance(action, RetryAction)]
        if task.retry is not None:
            found.append(task.retry.action)
        for action in found:
            if isinstance(action.attempts, LiteralNode) and action.attempts.value == 1:
                diagnostics.warning(
                    "no-effect",
                    "one attempt is the call itself: nothing is ever tried again",
                    action.pos,
                    hint="count the first try too: write 2 or more",
                )


# --- jumps and cycles ---------------------------------------------------------------------------


def _sequences(step: Step) -> list[tuple[Task, ...]]:
    pipelines = [pipeline for pipeline in (step.body, step.compensate) if isinstance(pipeline, Pipeline)]
    return [pipeline.tasks for pipeline in pipelines]


def _check_jumps(tasks: tuple[Task, ...], diagnostics: Diagnostics) -> None:
    """Warn about a jump back that is always taken, over tasks that never leave the circle."""
    places = {task.label: place for place, task in enumerate(tasks)}
    for place, task in enumerate(tasks):
        jump = _sure_jump(task)
        if jump is None:
            continue
        target = (
            place - 1
            if jump.to == "previous" and "previous" not in places
            else places.get(jump.to, place + 1)
        )
        circle = tasks[max(target, 0) : place]
        if 0 <= target <= place and not any(other.rules for other in circle):
            diagnostics.warning(
                "endless-jump",
                f"task {task.label!r} jumps back to {jump.to!r} in every case: only a failure or a cancel ends it",
                jump.pos,
                hint="guard the jump, or put a rule before it that breaks or continues",
            )


def _sure_jump(task: Task) -> JumpAction | None:
    """Return the jump that a task takes after every success.

    Rules before it may only retry, or answer failures.
    """
    for rule in task.rules:
        jumps = [action for action in rule.actions if isinstance(action, JumpAction)]
        if rule.when is None or logic.verdict(logic.constant(rule.when)) is True:
            return jumps[0] if jumps else None
        if not _only_failures(rule) and any(isinstance(action, _LEAVES) for action in rule.actions):
            return None
        if jumps:
            return None
    return None


def _only_failures(rule: Rule) -> bool:
    tree = logic.syntax(rule.when)
    failed = [logic.syntax(Expr(f"{name}.status == 'error'")) for name in ("outcome", "output")]
    return any(logic.follows(tree, one) for one in failed)


def _check_cycles(program: Program, ways: list[Edge], diagnostics: Diagnostics) -> None:
    """Warn of steps that lead only to each other, each over an arc that is always taken.

    A budget of calls, cost or time ends such a cycle.
    """
    if program.budget is not None:
        return
    reach = ReachableSteps([step.name for step in program.steps], ways)
    for component in sorted(map(sorted, reach.components)):
        leads_to, circle = reach.bits[component[0]], sum(1 << place for place in component)
        if not leads_to or leads_to & ~circle:
            continue
        inside = [program.steps[place] for place in component]
        if all(_always_goes_on(step) for step in inside):
            diagnostics.warning(
                "endless-cycle",
                f"nothing leads out of the cycle of {', '.join(step.name for step in inside)}",
                inside[0].pos,
                hint="guard one of its arcs, add an arc that leaves it, or give the playbook a `budget`",
            )


def _always_goes_on(step: Step) -> bool:
    if any(isinstance(action, NextAction) for rule in rules_of(step) for action in rule.actions):
        return False
    return any(_sure(arc.when) for arc in step.arcs if "done" in arc.on)


def _sure(guard: Node | None) -> bool:
    if guard is None or (isinstance(guard, LiteralNode) and logic.verdict(guard.value) is True):
        return True
    if not isinstance(guard, Expr) or logic.syntax(guard) is None:
        return False
    return "done" in certain(analyse(f"{{{{ {guard.source} }}}}"), ARC_BOUNDARIES)


# --- joins, admission, the final step -----------------------------------------------------------


def _check_join(step: Step, choices: _Choices, diagnostics: Diagnostics) -> None:
    arriving = choices.arriving(step.name)
    _check_comes_round(step, diagnostics)
    wanted = step.ways if step.join == "all" else int(step.join) if step.join.isdigit() else 0
    if wanted < 2 or step.join_of == "arrivals":
        return
    if wanted > len(arriving):
        return  # told by the count of arcs
    chosen = choices.between(arriving) if wanted == len(arriving) else None
    if chosen is not None:
        diagnostics.warning(
            "join-never",
            f"step {step.name!r} waits for all of {wanted} arcs, and {chosen!r} takes only one of the ways to them",
            step.pos,
            hint="remove `join`: the default waits for what can still arrive; or make the choice inclusive",
        )


def _check_comes_round(step: Step, diagnostics: Diagnostics) -> None:
    """Warn about a join on a cycle that fires before all runs have arrived.

    Its own run is on its way to it, so its wave never ends in between.
    """
    needed = 1 if step.join == "any" else int(step.join) if step.join.isdigit() else step.ways
    early = needed < step.ways or step.join_of == "arrivals"
    if early and step.join_rest != "hold" and step.name in step.reaches:
        diagnostics.warning(
            "join-round",
            f"step {step.name!r} leads back to itself: what comes round after its join has fired ends there (`rest: {step.join_rest}`)",
            step.pos,
            hint=f"write join: {{ wait: {step.join}, rest: hold }}, or `each`: then what comes round fires it again",
        )


class _Choices:
    """Exclusive choices on the ways to a step."""

    def __init__(self, program: Program, ways: list[Edge]) -> None:
        self._steps = {step.name: step for step in program.steps}
        self._entry = program.entry
        self._incoming: dict[str, list[Edge]] = {}
        for way in ways:
            self._incoming.setdefault(way.target, []).append(way)

    def arriving(self, name: str) -> list[Edge]:
        """Return one edge for each different way over which tokens reach a step."""
        return list({way.way: way for way in self._incoming.get(name, ()) if way.sync}.values())

    def between(self, arriving: list[Edge]) -> str | None:
        """Find a step whose exclusive choice decides between two of the arrivals.

        The search follows ways without other entries.
        """
        taken: dict[str, int] = {}
        behind: dict[str, list[Edge]] = {}
        for way in arriving:
            if way.source not in behind:
                behind[way.source] = list(self._before(way.source))
            on_the_way: dict[str, int] = {}
            for edge in (way, *behind[way.source]):
                source = self._steps[edge.source]
                if source.mode == "exclusive" and len(source.arcs) > 1:
                    on_the_way.setdefault(source.name, id(edge))
            for name, edge_id in on_the_way.items():
                if taken.setdefault(name, edge_id) != edge_id and name not in self._steps[name].reaches:
                    return name
        return None

    def _before(self, name: str) -> Iterator[Edge]:
        """Yield the edges that lead to a step, backwards, as long as there is only one."""
        for _ in self._steps:
            before = self._incoming.get(name, [])
            if len(before) != 1 or name == self._entry:
                return
            yield before[0]
            name = before[0].source


def _check_admission(step: Step, diagnostics: Diagnostics) -> None:
    if step.admit is None:
        return
    live = [rule for rule in step.admit.rules if _decided(rule) is not False]
    sure = next((place for place, rule in enumerate(live) if _decided(rule) is True), None)
    consulted = live if sure is None else live[: sure + 1]
    bounds_its_lock = step.admit.timeout is not None and step.mutex is not None
    if not bounds_its_lock and all(rule.allow == "yes" for rule in consulted):
        diagnostics.warning(
            "always-admitted",
            f"step {step.name!r} is admitted for every context: what no rule matches is let in",
            next((rule.pos for rule in reversed(consulted or step.admit.rules)), step.pos),
            hint="park the others: a last rule `else: { then: { allow: false } }` (or `skip`)",
        )
    elif sure is not None and step.admit.timeout is None and all(rule.allow == "park" for rule in consulted):
        diagnostics.warning(
            "never-admitted",
            f"step {step.name!r} is parked for every context: no rule that can match lets it go",
            consulted[-1].pos,
            hint="guard a rule with `allow: true` before it, or give the admission a `timeout`",
        )


def _decided(rule: AdmitRule) -> bool | None:
    """Return the constant verdict of the rule's guard, or None when it depends on data."""
    return True if rule.when is None else logic.verdict(logic.constant(rule.when))


def _check_final(program: Program, ways: list[Edge], diagnostics: Diagnostics) -> None:
    final = program.final_step
    for way in ways:
        if way.source == final:
            diagnostics.warning(
                "final-step-arcs",
                f"{final!r} runs when all is done: what its arcs lead to comes after the end of the workflow",
                way.pos,
                hint="let the step before lead there, and keep the final step without `next`",
            )
        elif way.target == final:
            diagnostics.warning(
                "final-step-target",
                f"{final!r} is the final step: over this arc it runs once more, before the end",
                way.pos,
                hint="remove the arc; the final step is run when everything else is done",
            )


# --- races --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Write:
    step: str
    name: str
    pos: Pos


def _check_races(program: Program, diagnostics: Diagnostics) -> None:
    """Plain writes of one name in two branches of a fork: whichever is later wins."""
    if len(program.steps) > _MANY_STEPS:
        return
    places = {step.name: place for place, step in enumerate(program.steps)}
    written: dict[str, list[_Write]] = {}
    for step in program.steps:
        for write in _writes(step):
            written.setdefault(write.name, []).append(write)
    several = [writes for writes in written.values() if len({write.step for write in writes}) > 1]
    if not several:
        return
    by_step = [(sum({1 << places[write.step] for write in writes}), writes) for writes in several]
    reaches = {
        step.name: sum(1 << places[name] for name in {step.name, *step.reaches}) for step in program.steps
    }
    pairs = dict.fromkeys(pair for step in program.steps for pair in _forks(step))
    for left, right in itertools.islice(pairs, _MANY_PAIRS // len(by_step)):
        one = reaches.get(left, 0) & ~reaches.get(right, 0)
        other = reaches.get(right, 0) & ~reaches.get(left, 0)
        for steps, writes in by_step:
            if steps & one and steps & other:
                _report_races(writes, one, other, places, diagnostics)


def _report_races(
    writes: list[_Write], one: int, other: int, places: dict[str, int], diagnostics: Diagnostics
) -> None:
    """Report a race between two branches that write one name.

    ``writes``: of one name. ``one``, ``other``: the steps of two branches, as bits.
    """
    rival = next(write for write in writes if one >> places[write.step] & 1)
    for write in writes:
        if other >> places[write.step] & 1:
            early, late = sorted((rival, write), key=lambda found: (found.pos.line, found.pos.column))
            diagnostics.warning(
                "concurrent-write",
                f"steps {early.step!r} and {late.step!r} may run at the same time, and both write {write.name}",
                late.pos,
                hint="use two names, or a reducer (append, add, union, max …)",
            )


def _forks(step: Step) -> Iterator[tuple[str, str]]:
    """Yield the pairs of targets that one end of a step may go to together, each pair once."""
    groups = (
        [[(arc.target, logic.own_when(arc.when) is None) for arc in step.arcs if "done" in arc.on]]
        if step.mode == "inclusive"
        else []
    )
    for rule in rules_of(step):
        groups += [
            [(target.step, True) for target in action.targets]
            for action in rule.actions
            if isinstance(action, NextAction)
        ]
    for group in groups:
        named: dict[str, bool] = {}
        for target, sure in group:
            named[target] = sure or named.get(target, False)
        for (left, sure), (right, also) in itertools.combinations(named.items(), 2):
            if sure or also:
                yield left, right


def set_actions(step: Step) -> list[SetAction]:
    """Return every write of a step: its own, and those of its tasks, rules and arcs."""
    actions: list[SetAction] = [*step.sets, *(action for arc in step.arcs for action in arc.sets)]
    rules = [*step.cases]
    for task in tasks_in((step.body, step.cases)):
        actions += task.sets
        rules += task.rules
    return actions + [action for rule in rules for action in rule.actions if isinstance(action, SetAction)]


def _writes(step: Step) -> list[_Write]:
    found = [
        _Write(step.name, f"{action.scope}.{action.name}", action.pos)
        for action in set_actions(step)
        if action.scope in ("ctx", "vars") and action.op == "set"
    ]
    pairs: Iterable[tuple[str, Node]] = ()
    if step.body is not None:
        pairs = (*step.body.vars_before, *step.body.vars, *step.body.vars_after)
    return found + [_Write(step.name, f"vars.{name}", getattr(node, "pos", step.pos)) for name, node in pairs]
