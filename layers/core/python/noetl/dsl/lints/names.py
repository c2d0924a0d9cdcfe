"""Names that are known, but cannot hold anything where they are read: too early, never given, hidden by another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.expressions import name_offset
from noetl.dsl.lowering.context import (
    BOUNDARY,
    BOUNDARY_TOOL,
    BOUNDARY_VALUE,
    KEYCHAIN,
    NEXT_ARGS,
    ON_ERROR_ARGS,
    START,
    Lowering,
    TemplateUse,
)
from noetl.dsl.nodes import Expr, Node, Pos, Sql, Text
from noetl.dsl.program import JumpAction, Program, Step, Task
from noetl.dsl.reachability import closure, edges
from noetl.dsl.reads import nodes_in

_AFTER_THE_BODY = (BOUNDARY, BOUNDARY_VALUE, BOUNDARY_TOOL, NEXT_ARGS, ON_ERROR_ARGS)
_ITER = frozenset({"index", "parent", "first", "last", "length", "count", "total"})


def check_known_names(lowering: Lowering, program: Program) -> None:
    """Warnings about names that mean something elsewhere. Behind an admission everything may have happened by then."""
    upstream = _upstream(program)
    gated = {step.name for step in program.steps if step.admit is not None}
    for use in lowering.uses:
        if use.frame.place in (START, KEYCHAIN) or not use.frame.step:
            continue
        if not use.frame.undoing and gated.isdisjoint({use.frame.step, *upstream.get(use.frame.step, ())}):
            _check_steps(use, lowering, upstream)
        _check_given(use, lowering)
    for step in program.steps:
        for pipeline in (step.body, step.compensate):
            if pipeline is not None:
                _check_labels(step, pipeline.tasks, lowering)


def _upstream(program: Program) -> dict[str, set[str]]:
    """step → steps that may have run when it is entered. The final step and handlers come after everything."""
    following: dict[str, list[str]] = {}
    for edge in edges(program):
        following.setdefault(edge.source, []).append(edge.target)
    names = [step.name for step in program.steps]
    before: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        for target in closure([name], following):
            if target in before:
                before[target].add(name)
    if program.final_step in before:
        before[program.final_step] |= set(names) - {program.final_step}
    return before


def _check_steps(use: TemplateUse, lowering: Lowering, upstream: dict[str, set[str]]) -> None:
    """``<step>.…`` of a step that does not come before this one."""
    names, frame = lowering.names, use.frame
    own = names.args.get(frame.step, set()) | names.labels.get(frame.step, set()) | frame.names
    others = own | names.ctx | names.vars | names.workload | {names.iterators.get(frame.step, "")}
    for name in sorted(use.analysis.names & names.steps.keys()):
        if name in others or name in use.analysis.guarded or name in upstream.get(frame.step, {name}):
            continue
        if name == frame.step and frame.place in _AFTER_THE_BODY:
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
    """``args.x`` that nobody gives, ``iter.x`` that nobody sets."""
    names, frame = lowering.names, use.frame
    given = names.args.get(frame.step, set()) | frame.names
    open_ = frame.open or frame.step in names.args_open
    iterator = names.iterators.get(frame.step)
    known = names.iter.get(frame.step, set()) | _ITER | ({iterator} if iterator else set())
    for scope, entry in sorted(use.analysis.entries):
        if scope in use.analysis.guarded:
            continue
        if scope in ("args", "input") and entry not in given and not open_:
            hint = did_you_mean(
                entry, given, f"add `{entry}` to the `args` of an arc that leads to {frame.step!r}"
            )
            lowering.diagnostics.warning(
                "unset-argument",
                f"nothing gives step {frame.step!r} an argument {entry!r}",
                _at(use, scope),
                hint=hint,
            )
        elif scope == "iter" and entry not in known and frame.place.iteration:
            hint = did_you_mean(entry, known, f"set it: set: {{ iter.{entry}: … }}, or write `| default(…)`")
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
    """A task reads one that comes after it; or a label hides a name that the step reads."""
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
    hidden = (lowering.names.steps.keys() | lowering.names.workload | lowering.names.ctx) - {step.name}
    for task in tasks:
        if task.label in hidden and any(name == task.label for _, name in _bare_reads(tasks)):
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
    """Where ``name`` stands in a template: exact on its first line, else where the template begins."""
    pos = getattr(node, "pos", Pos())
    source = getattr(node, "source", "")
    at = name_offset(source, name) if source else 0
    return pos if "\n" in source[:at] or not pos.line else Pos(pos.line, pos.column + at)
