"""Lints of known names without a value where they are read: too early, unset, hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from noetl.dsl.expressions import name_offset
from noetl.dsl.lowering.context import (
    BOUNDARY,
    BOUNDARY_TOOL,
    BOUNDARY_VALUE,
    KEYCHAIN,
    NEXT_ARGS,
    ON_ERROR_ARGS,
    RULE,
    START,
    VALUE,
    Lowering,
    TemplateUse,
)
from noetl.dsl.nodes import Expr, Node, Pos, Sql, Text
from noetl.dsl.program import JumpAction, Program, Step, Task
from noetl.dsl.reachability import ReachableSteps, edges
from noetl.dsl.reads import nodes_in

_AFTER_THE_BODY = (BOUNDARY, BOUNDARY_VALUE, BOUNDARY_TOOL, NEXT_ARGS, ON_ERROR_ARGS)
_METHOD = re.compile(r"\b(?:args|input)\s*\.\s*(?:get|items|keys|values)\s*\(")
_METHODS = frozenset({"get", "items", "keys", "values"})
"""Methods of a mapping, which are no entries of it where they are called."""
_ITER = frozenset({"index", "parent", "first", "last", "length", "count", "total"})


def check_known_names(lowering: Lowering, program: Program) -> None:
    """Warn about names that mean something in another place.

    Behind an admission every step may have run already.
    """
    upstream = _Upstream(program)
    for use in lowering.uses:
        if use.frame.place in (START, KEYCHAIN) or not use.frame.step:
            continue
        if not use.frame.undoing and not upstream.behind_admission(use.frame.step):
            _check_steps(use, lowering, upstream)
        _check_given(use, lowering)
    for step in program.steps:
        for pipeline in (step.body, step.compensate):
            if pipeline is not None:
                _check_labels(step, pipeline.tasks, lowering)


class _Upstream:
    """The steps that may have run when one is entered.

    The final step and handlers come after everything.
    """

    def __init__(self, program: Program) -> None:
        names = [step.name for step in program.steps]
        self._before = ReachableSteps(names, edges(program)).reversed()
        final = self._before.places.get(program.final_step or "")
        if final is not None:
            self._before.bits[final] |= ((1 << len(names)) - 1) & ~(1 << final)
        for last in program.last_steps:
            place = self._before.places[last]
            self._before.bits[place] |= ((1 << len(names)) - 1) & ~(1 << place)
        gated = [step.name for step in program.steps if step.admit is not None]
        self._gated = sum(1 << self._before.places[name] for name in gated)

    def has(self, name: str, step: str) -> bool:
        """Report whether ``name`` may have run when ``step`` is entered.

        True when ``step`` is none.
        """
        place = self._before.places.get(step)
        if place is None:
            return True
        other = self._before.places.get(name)
        return other is not None and bool(self._before.bits[place] >> other & 1)

    def behind_admission(self, step: str) -> bool:
        """Report whether the step, or one before it, has an admission."""
        place = self._before.places.get(step)
        return place is not None and bool((self._before.bits[place] | 1 << place) & self._gated)


def _check_steps(use: TemplateUse, lowering: Lowering, upstream: _Upstream) -> None:
    """Warn about ``<step>.…`` of a step that does not come before this one."""
    read = use.analysis.names & lowering.names.steps.keys()
    if not read:
        return
    names, frame = lowering.names, use.frame
    own = names.arguments(frame.step) | names.labels.get(frame.step, set()) | frame.names
    iterator = names.iterators.get(frame.step, "")
    for name in sorted(read):
        given = name in own or name == iterator
        if given or name in names.ctx or name in names.vars or name in names.workload:
            continue
        if name in use.analysis.guarded or upstream.has(name, frame.step):
            continue
        if name == frame.step and frame.place in _AFTER_THE_BODY:
            continue
        if name == frame.step and lowering.semantics > 2 and frame.place in (RULE, VALUE):
            continue
        own_result = name == frame.step
        lowering.diagnostics.warning(
            "step-not-before",
            f"{name!r} has no result yet: it is this step"
            if own_result
            else f"step {name!r} does not lead to {frame.step!r}: it may not have run when this is read",
            _at(use, name),
            hint="read it where it is done: in an arc, a `set`, or a later step"
            if own_result
            else "lead from it to here, or write `| default(…)` for when it has not run",
        )


def _check_given(use: TemplateUse, lowering: Lowering) -> None:
    """Warn about an ``args.x`` that no arc passes and an ``iter.x`` that no rule sets."""
    names, frame = lowering.names, use.frame
    given = names.arguments(frame.step) | frame.names
    in_workbook = use.scalar.pos in lowering.workbook_inputs
    open_ = (frame.open and not (in_workbook and frame.chosen)) or frame.step in names.args_open
    iterator = names.iterators.get(frame.step)
    known = names.iter.get(frame.step, set()) | _ITER | ({iterator} if iterator else set())
    for scope, entry in sorted(use.analysis.entries):
        if scope in use.analysis.guarded or (entry in _METHODS and _METHOD.search(use.scalar.value)):
            continue
        if scope in ("args", "input") and entry not in given and not open_:
            remedy = f"add `{entry}` to the `args` of an arc that leads to {frame.step!r}"
            if in_workbook:
                remedy = f"the call's own input is laid over this one: read `input.{entry}` in another key of the task"
            lowering.diagnostics.warning(
                "unset-argument",
                f"nothing passes step {frame.step!r} an argument {entry!r}"
                + (", which the input of a workbook task reads" if in_workbook else ""),
                _at(use, scope),
                hint=lowering.diagnostics.suggest(entry, given, remedy),
            )
        elif scope == "iter" and entry not in known and frame.place.iteration:
            hint = lowering.diagnostics.suggest(
                entry, known, f"set it: set: {{ iter.{entry}: … }}, or write `| default(…)`"
            )
            lowering.diagnostics.warning(
                "unset-iteration-value",
                f"nothing sets iter.{entry} in step {frame.step!r}",
                _at(use, scope),
                hint=hint,
            )


def _at(use: TemplateUse, name: str) -> Pos:
    return use.scalar.locate(name_offset(use.scalar.value, name))


# --- tasks of one step --------------------------------------------------------------------------


def _check_labels(step: Step, tasks: tuple[Task, ...], lowering: Lowering) -> None:
    """Warn about a task that reads a later one, and a label that hides a name the step reads."""
    places = {task.label: place for place, task in enumerate(tasks)}
    back = _earliest_return(tasks, places)
    for place, task in enumerate(tasks):
        for node, name in _bare_reads((task.input, task.params, task.timeout)):
            later = places.get(name, -1)
            if later > place and not any(origin >= later and target <= place for origin, target in back):
                lowering.diagnostics.warning(
                    "task-not-before",
                    f"task {name!r} comes after {task.label!r}: it has no result yet",
                    place_in(node, name),
                    hint="move it up, or write `| default(…)` for the first round",
                )
    read = {name for _, name in _bare_reads(tasks)}
    known = lowering.names
    for task in tasks:
        hides = task.label in known.steps or task.label in known.workload or task.label in known.ctx
        if hides and task.label != step.name and task.label in read:
            what = "step" if task.label in lowering.names.steps else "value"
            lowering.diagnostics.warning(
                "shadowed-name",
                f"inside step {step.name!r} the name {task.label!r} is this task, and the {what} of that name is hidden",
                task.pos,
                hint="rename the task",
            )


def _earliest_return(tasks: tuple[Task, ...], places: dict[str, int]) -> list[tuple[int, int]]:
    """(from, to) of every jump between tasks."""
    jumps: list[tuple[int, int]] = []
    for place, task in enumerate(tasks):
        for rule in task.rules:
            for action in rule.actions:
                if isinstance(action, JumpAction):
                    jumps.append((place, places.get(action.to, place - 1)))
    return jumps


def _bare_reads(parts: Iterable[object]) -> Iterator[tuple[Expr | Text | Sql, str]]:
    for node in nodes_in(*parts):
        for name in node.reads:
            if "." not in name:
                yield node, name


def place_in(node: Node, name: str) -> Pos:
    """Return the position of ``name`` in a template.

    It is exact on the first line; further down it is the template's own position.
    """
    pos = getattr(node, "pos", Pos())
    source = getattr(node, "source", "")
    at = name_offset(source, name) if source else 0
    return pos if "\n" in source[:at] or not pos.line else Pos(pos.line, pos.column + at)
