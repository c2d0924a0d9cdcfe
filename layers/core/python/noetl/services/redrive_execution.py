"""Run an execution again that has ended: from its failure, or from a step, with the playbook it had or with another version of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.events import Redrive
from noetl.domain.facts import StepEntered, decode_facts
from noetl.domain.redrive import LOCAL, refusal
from noetl.domain.state import TERMINAL, ExecutionState, decode_state
from noetl.dsl.program import Program
from noetl.ports.execution_store import ExecutionStore
from noetl.services.change_execution import Asked, event_id
from noetl.services.read_execution import find

PAGE = 500


def redrive(
    store: ExecutionStore,
    programs: Callable[[str], Program],
    execution_id: int,
    asked: Asked,
    *,
    step: str = "",
    args: dict[str, Any] | None = None,
    program: str = "",
) -> Redrive:
    """``step`` empty: what was under way when it ended runs again. ``args``: of the step; None: those of its last run.
    ``program``: what it goes on with; empty: what it had.

    Raises NotFoundError, ConflictError(code="execution_not_ended" or "not_redrivable"), InvalidInputError(code="unknown_step").
    """
    event = plan(store, programs, execution_id, asked, step=step, args=args, program=program)
    posted = store.post(event, asked.owner)
    if posted.status not in TERMINAL:
        raise _not_ended(execution_id, str(posted.status))
    return event


def plan(
    store: ExecutionStore,
    programs: Callable[[str], Program],
    execution_id: int,
    asked: Asked,
    *,
    step: str = "",
    args: dict[str, Any] | None = None,
    program: str = "",
) -> Redrive:
    """The event, without posting it. Raises as ``redrive`` does."""
    info = find(store, execution_id)
    if info.status not in TERMINAL:
        raise _not_ended(execution_id, info.status)
    state = decode_state(info.state)
    refused = refusal(state, step)
    if refused:
        raise ConflictError(f"execution {execution_id} cannot be redriven: {refused}", code="not_redrivable")
    old, new = programs(state.program), programs(program or state.program)
    _check_steps(new, {step} if step else {token.step for token in state.left})
    if step and args is None:
        args = last_args(store, execution_id, step)
    return Redrive(
        execution_id,
        event_id(asked),
        new.hash,
        step,
        args or {},
        {} if step or old.hash == new.hash else _arcs(old, new, state),
        asked.reason,
        asked.principal,
    )


def _not_ended(execution_id: int, status: str) -> ConflictError:
    return ConflictError(
        f"execution {execution_id} is {status}: only one that has ended can be redriven",
        code="execution_not_ended",
        hint="cancel it first, or wait for its end",
    )


def _check_steps(program: Program, wanted: set[str]) -> None:
    known = [one.name for one in program.steps]
    for step in sorted(wanted - set(known)):
        from noetl.dsl.diagnostics import did_you_mean

        raise InvalidInputError(
            f"the playbook has no step {step[:80]!r}",
            code="unknown_step",
            hint=did_you_mean(step, known, f"its steps are {', '.join(known[:20])}"),
        )


def _arcs(old: Program, new: Program, state: ExecutionState) -> dict[int, int]:
    """Where arcs that tokens at joins came over are in the other version. Raises ConflictError when one is gone."""
    places = {place: index for index, place in _places(new)}
    waited = {token.arc for token in state.left if token.phase == "arrived"}
    waited.update(arc for arcs in state.waves.values() for arc in arcs)
    found: dict[int, int] = {}
    for index, place in _places(old):
        if index not in waited:
            continue
        if place not in places:
            raise ConflictError(
                f"the arc from {place[0]} to {place[1]} is gone from this version, and a token at a join came over it",
                code="not_redrivable",
                hint="name the step to go on from",
            )
        if places[place] != index:
            found[index] = places[place]
    return found


def _places(program: Program) -> Iterator[tuple[int, tuple[str, str, int]]]:
    """Each arc's number, and what it is called in every version: from, to, and its place among those."""
    for step in program.steps:
        seen: dict[str, int] = {}
        for arc in step.arcs:
            yield arc.index, (step.name, arc.target, seen.get(arc.target, 0))
            seen[arc.target] = seen.get(arc.target, 0) + 1


def last_args(store: ExecutionStore, execution_id: int, step: str) -> dict[str, Any]:
    """What the last run of ``step`` was given; nothing when it never ran."""
    found: dict[str, Any] = {}
    after = 0
    while True:
        page = store.events(execution_id, after=after, limit=PAGE)
        for row in page:
            after = row.seq
            for fact in decode_facts(row.facts):
                if isinstance(fact, StepEntered) and fact.step == step:
                    found = fact.args
        if len(page) < PAGE:
            return {name: value for name, value in found.items() if name != LOCAL}
