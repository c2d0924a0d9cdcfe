"""Routing: from the end of a step run to the tokens it releases.

Sets, arcs, explicit targets, and what a failure without an answer does.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from noetl.domain.branch_coverage import taken
from noetl.domain.errors import NoetlError, TaskError
from noetl.domain.facts.facts import Arrival, ContextChanged, NextEvaluated, StepExited, StepFailed
from noetl.domain.outcomes.outcomes import ErrorInfo, Patch, Target
from noetl.domain.patches.cost import check_cost
from noetl.domain.sizes.gate import check_names
from noetl.domain.state import Token
from noetl.domain.variables import VariableType, VariableWrite
from noetl.dsl.program import Arc, SetAction, Step, ways_of
from noetl.engine.complete_execution import fail_execution
from noetl.engine.decision import Decider
from noetl.engine.folds.run_results import result_of
from noetl.engine.scopes.boundary_scope import boundary_scope
from noetl.engine.scopes.large_values import arguments, resolved, value_to_write
from noetl.engine.scopes.scope import EngineScope
from noetl.pipeline.errors import located
from noetl.templating import is_true

ITERATOR_STATE = frozenset({"index", "item", "count", "total"})


def exit_step(d: Decider, token: Token, step: Step, *, skipped: bool = False) -> None:
    """Leave a step: evaluate its sets, then its arcs (or the targets that a case chose).

    A skipped run emits no StepExited: its skip is recorded already.
    """
    try:
        scope = d.scope(token.run, boundary_scope(d, token, _done_name(step)) if _is_evaluated(step) else {})
        change_context(d, token, step, step.sets, scope)
        route = token.route
        targets = (
            explicit_targets(d, step, route) if route is not None else _arcs(d, token, step, scope, "done")
        )
    except NoetlError as error:
        fail_step(d, token, step, d.error_of(error))
        return
    d.clear_timers(token.run)
    if not skipped:
        d.emit(StepExited(token.run, step.name, compensable=_can_be_undone(d, token, step)))
    _leave(d, token, step, targets)


def _can_be_undone(d: Decider, token: Token, step: Step) -> bool:
    """Return whether this run did something that its step can undo.

    It was called, and its failure was not answered by a ``next``.
    """
    if step.compensate is None:
        return False
    slot = result_of(d.slots, token)
    return slot is not None and slot["status"] == "success"


def _leave(d: Decider, token: Token, step: Step, targets: list[Arrival]) -> None:
    """End the token and release ``targets``."""
    ways = any(not arc.fallback for arc in step.arcs)
    if not targets and d.program.no_next_is_error and ways and step.name != d.program.final_step:
        fail_execution(d, no_next(step), step.name)
        return
    d.emit(NextEvaluated(token.run, step.name, tuple(targets), ended=not targets))


def no_next(step: Step) -> ErrorInfo:
    return ErrorInfo(
        message=f"no arc of step {step.name} matched, and executor.spec.no_next_is_error is set",
        kind="schema",
        code="no_next",
        hint="add an arc without `when` as the last one",
    )


def fail_step(d: Decider, token: Token, step: Step, error: ErrorInfo, calls: int = 0) -> None:
    """Fail a step: take arcs that answer failures, else fail the execution.

    A step that tolerates failures takes its ordinary arcs before the execution fails. ``calls``: see ``StepFailed``.
    """
    d.clear_timers(token.run)
    error = d.at_step(error, step.name)
    d.emit(StepFailed(token.run, step.name, error, calls))
    try:
        scope = d.scope(token.run, boundary_scope(d, token, "step.failed"))
        targets = _arcs(d, token, step, scope, "failed")
        ordinary: list[Arrival] | None = None
        if not targets and step.tolerant:
            scope = d.scope(token.run, boundary_scope(d, token, _done_name(step)))
            ordinary = _arcs(d, token, step, scope, "done")
    except NoetlError as problem:
        fail_execution(d, d.error_of(problem), step.name)
        return
    if targets:
        d.emit(NextEvaluated(token.run, step.name, tuple(targets)))
    elif ordinary is not None:
        _leave(d, token, step, ordinary)
    else:
        fail_execution(d, error, step.name)


def _is_evaluated(step: Step) -> bool:
    """Whether leaving the step evaluates anything: most steps only lead to the next one."""
    return bool(step.sets) or any(
        arc.when is not None or arc.sets or arc.args is not None for arc in step.arcs
    )


def _done_name(step: Step) -> str:
    return "loop.done" if step.loop is not None else "step.done"


def _arcs(d: Decider, token: Token, step: Step, scope: EngineScope, boundary: str) -> list[Arrival]:
    chosen: list[Arrival] = []
    for arc in step.arcs:
        if boundary not in arc.on or (arc.fallback and chosen):
            continue
        if arc.when is not None and not is_true(arc.when, scope):
            continue
        taken(arc)
        change_context(d, token, step, arc.sets, scope)
        chosen.append(_arrival(d, arc, scope, len(chosen), sync=arc.sync))
        if step.mode == "exclusive":
            break
    return chosen


def _arrival(d: Decider, arc: Arc, scope: EngineScope, offset: int, sync: bool) -> Arrival:
    args = d.keep(arguments(d, arc.args, scope, f"the input of the arc to step {arc.target}"), arc.target)
    return Arrival(d.state.next_run + offset, arc.target, arc.index, sync, args)


def explicit_targets(d: Decider, step: Step, route: list[Target]) -> list[Arrival]:
    """Make the arrivals for the targets of a ``next`` action.

    Each goes over the way that the compiler numbered for it.

    A target that the step's ``next`` actions do not name can only come from a worker that does not keep to the program: its token is
    part of no merge. Raises TaskError(code="unknown_step") when the playbook has no such step, or when only the end of the execution leads
    there.
    """
    ways = ways_of(step)
    named: Counter[str] = Counter()
    found: list[Arrival] = []
    for target in route:
        if target.step not in d.steps:
            raise _unknown(step, target, "the playbook has no such step")
        if target.step in d.program.last_steps or step.name in d.program.last_steps:
            raise _unknown(step, target, "no step leads to or from the last tasks")
        known, place = ways.get(target.step, ()), named[target.step]
        arc = known[place] if place < len(known) else -1
        named[target.step] += 1
        found.append(Arrival(d.state.next_run + len(found), target.step, arc, arc >= 0, target.args))
    return found


def _unknown(step: Step, target: Target, why: str) -> TaskError:
    message = f"the outcome of step {step.name} names {target.step[:80]!r} as its next step, and {why}"
    return TaskError(message, kind="schema", code="unknown_step")


def change_context(
    d: Decider, token: Token, step: Step, sets: tuple[SetAction, ...], scope: EngineScope
) -> None:
    """Evaluate writes and record them; each sees the earlier ones."""
    for action in sets:
        value = value_to_write(d, action.name, action.op, d.value(action.value, scope), step.name)
        patch = Patch(_scope_name(action.scope), action.name, value, action.op)  # type: ignore[arg-type]
        try:
            patch_context(d, [patch], token.run, step.name)
        except NoetlError as error:
            raise located(error, action.pos) from error.__cause__
        scope.args = d.args_of(token.run)


def _scope_name(scope: str) -> Any:
    """Return the scope of a write outside of iterations: ``iter`` is the step run's own scope."""
    return "step" if scope == "iter" else scope


def patch_context(
    d: Decider,
    patches: list[Patch],
    run: int = 0,
    step: str = "",
    var_type: VariableType | None = None,
    source_step: str = "",
    **who: str,
) -> None:
    """Record patches; writes of ``vars`` also become rows of the variables table.

    ``var_type``: of writes that come from outside. What a caller asked for (``who``) is recorded even if it changes nothing: the request was
    accepted, and has its place in history.

    Raises InvalidInputError(code="patch_type", "size_limit" or "negative_cost"), or TaskError for a large value that is not available: then
    no patch counts.
    """
    if not patches and not who:
        return
    if not who and d.program.bounds(step, "compensate" if d.state.undoing else "body"):
        for patch in patches:
            check_cost(patch)
    check_names((patch.name for patch in patches), "context")
    patches = resolved(d, patches, run, step)
    d.emit(ContextChanged(patches, run, step, **who))
    written = {patch.name: patch for patch in patches if patch.scope == "vars"}
    for name, patch in sorted(written.items()):
        kind = var_type or variable_type(d.steps.get(step), name)
        gone = patch.op == "unset"
        value = None if gone else d.slots.get(("vars", name))
        d.decision.variables.append(VariableWrite(name, value, kind, step or source_step, gone))


def variable_type(step: Step | None, name: str) -> VariableType:
    """Return the type of a variable that a step writes: a step result or iterator state.

    Iterator state is ``<step>_index``, ``_item``, ``_count`` and ``_total`` of a step whose loop keeps it. Without a step it is user-defined.
    """
    if step is None:
        return "user_defined"
    keeps = step.loop is not None and step.loop.iterator_vars
    suffix = name.removeprefix(f"{step.name}_")
    return "iterator_state" if keeps and suffix in ITERATOR_STATE and suffix != name else "step_result"
