"""Redrive of an ended execution: from its failure, a step, or items of its loop.

The execution keeps its playbook or gets another version of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import UNSET

from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.events import Redrive
from noetl.domain.loop_resume import FAILED, LoopResume
from noetl.domain.redrive import Address, parse_address, refusal
from noetl.domain.sizes.gate import check_value
from noetl.domain.state import TERMINAL, ExecutionState
from noetl.dsl.program import Program, step_index, ways_of
from noetl.ports.catalog import Catalog
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.catalog.find_playbook import find_playbook
from noetl.services.executions.change_execution import ChangeRequest, event_id
from noetl.services.executions.redrive_reach import check_reach
from noetl.services.history.execution_state import demand_state
from noetl.services.history.last_step_runs import LastRuns, last_runs
from noetl.services.queries.read_execution import find

MOST_CANDIDATES = 50


def redrive(
    store: ExecutionStore,
    programs: Callable[[str], Program],
    execution_id: int,
    change: ChangeRequest,
    *,
    step: str = "",
    args: dict[str, Any] | None = None,
    program: str = "",
    output: Any = UNSET,
) -> Redrive:
    """Continue an execution that has ended, from the work that was unfinished or from a step.

    ``step`` empty: the work that was under way when the execution ended runs again. Otherwise it names a step, or an item of its loop
    (``domain.redrive.parse_address``). ``args``: of the step; None: those of its last run. ``program``: the program to continue with;
    empty: the one that the execution had. ``output``: the result that the step leaves with, instead of being run.

    Raises NotFoundError, ConflictError(code="execution_not_ended", "execution_leaving" or "not_redrivable", details ``candidates``),
    InvalidInputError(code="unknown_step", "invalid_redrive" or "unread_argument").
    """
    event = plan(store, programs, execution_id, change, step=step, args=args, program=program, output=output)
    posted = store.post(event, change.owner)
    if posted.status is None:
        raise being_removed(execution_id)
    if posted.status not in TERMINAL:
        raise _not_ended(execution_id, str(posted.status))
    return event


def plan(
    store: ExecutionStore,
    programs: Callable[[str], Program],
    execution_id: int,
    change: ChangeRequest,
    *,
    step: str = "",
    args: dict[str, Any] | None = None,
    program: str = "",
    output: Any = UNSET,
    info: ExecutionInfo | None = None,
) -> Redrive:
    """Make the event of a redrive without posting it.

    ``info``: the execution's row, if it was read already. Raises as ``redrive`` does.
    """
    check_value(args or {}, "args")
    address = parse_address(step)
    if args and not address.step:
        raise InvalidInputError(
            "arguments are for a step", code="unread_argument", hint="name it with `from`"
        )
    if output is not UNSET:
        _check_output(address, output)
    info = info or find(store, execution_id)
    if info.status not in TERMINAL:
        raise _not_ended(execution_id, info.status)
    state = demand_state(info)
    refused = refusal(state, address.step)
    if refused:
        known = state.program and not state.lost
        runs = last_runs(store, execution_id) if known else LastRuns()
        raise _refused(execution_id, refused, runs.candidates())
    old, new = programs(state.program), programs(program or state.program)
    if address.step in new.last_steps:
        runs = last_runs(store, execution_id)
        refused = f"{address.step} runs at the end of every round by itself"
        raise _refused(execution_id, refused, runs.candidates())
    again: LoopResume | None = None
    if address.step:
        _check_steps(new, {address.step})
        check_reach(new, address.step, args or ())
        runs = last_runs(store, execution_id)
        again = _again(execution_id, new, address, runs)
        args = runs.args.get(address.step, {}) if args is None else args
    else:
        _check_steps(new, {token.step for token in state.left} | set(state.fired))
        _check_loops(execution_id, new, state)
    return Redrive(
        execution_id,
        event_id(change),
        new.hash,
        address.step,
        args or {},
        {} if address.step or old.hash == new.hash else _arcs(old, new, state),
        change.reason,
        change.principal,
        again,
        info.ended_at or 0.0,
        None if output is UNSET else output,
        output is not UNSET,
    )


def program_of_version(
    store: ExecutionStore, catalog: Catalog, execution_id: int, version: int | None
) -> str:
    """Find the program of the version to continue with; empty: the one that it had.

    Raises NotFoundError.
    """
    if version is None:
        return ""
    return find_playbook(catalog, find(store, execution_id).path, version).program


def _check_output(address: Address, output: Any) -> None:
    """Check a result that is given to a step. Raises InvalidInputError."""
    if not address.step or address.items:
        raise InvalidInputError(
            "an output takes the place of the result of one whole step",
            code="invalid_redrive",
            hint="name the step to continue from, without an item of its loop: the output of a loop is a list",
        )
    check_value(output, "output")


def being_removed(execution_id: int) -> ConflictError:
    """Return the refusal of a redrive of a family that retention or a prune is removing."""
    return ConflictError(
        f"execution {execution_id} has ended, and retention or a prune is removing it with its family",
        code="execution_leaving",
        hint="start its playbook again",
    )


def _not_ended(execution_id: int, status: str) -> ConflictError:
    return ConflictError(
        f"execution {execution_id} is {status}: only one that has ended can be redriven",
        code="execution_not_ended",
        hint="cancel it first, or wait for its end",
    )


def _refused(execution_id: int, why: str, candidates: Iterable[str]) -> ConflictError:
    known = list(candidates)[:MOST_CANDIDATES]
    return ConflictError(
        f"execution {execution_id} cannot be redriven: {why}",
        code="not_redrivable",
        hint=f"it can be from {', '.join(known[:8])}" if known else None,
        details={"candidates": known},
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


def _again(execution_id: int, program: Program, address: Address, runs: LastRuns) -> LoopResume | None:
    """Find the loop run that has the addressed items; None for a whole step.

    Raises ConflictError when there is no such item.
    """
    if not address.items:
        return None
    step, item = address.step, address.items[0]
    last = runs.loops.get(step)
    if program.step(step).loop is None:
        why = f"step {step} has no loop, and items of one are asked for"
        raise _refused(execution_id, why, [step])
    if last is None:
        raise _refused(execution_id, f"the loop of step {step} has not run", runs.candidates())
    if not last.whole:
        raise _refused(execution_id, f"the loop of step {step} had no items", [step])
    if not FAILED <= item < last.whole:
        why = f"the loop of step {step} had {last.whole} items, counted from 0: there is no {item}"
        raise _refused(execution_id, why, [one for one in runs.candidates() if one.startswith(f"{step}[")])
    if len(address.items) > 1:
        why = f"a loop among the tasks of step {step} runs as one with its item, which is what is kept"
        raise _refused(execution_id, why, [f"{step}[{'failed' if item == FAILED else item}]", step])
    return LoopResume(last.run, last.round, item, last.applied)


def _check_loops(execution_id: int, program: Program, state: ExecutionState) -> None:
    """Check that the loops of unfinished items still exist. Raises ConflictError."""
    steps = step_index(program)
    for token in state.left:
        if (token.round or token.again is not None) and steps[token.step].loop is None:
            why = f"step {token.step} has no loop in this version, and it ended with items of one undone"
            raise _refused(execution_id, why, [token.step])


def _arcs(old: Program, new: Program, state: ExecutionState) -> dict[int, int]:
    """Map the arcs by which tokens came to joins to those of the other version.

    Raises ConflictError when one is gone.
    """
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
                hint="name the step to continue from",
                details={"candidates": [place[0]]},
            )
        if places[place] != index:
            found[index] = places[place]
    return found


def _places(program: Program) -> Iterator[tuple[int, tuple[str, str, int]]]:
    """Yield the number of each arc to a join, and its name in every version.

    The name is (from, to, place among the arcs between these two).
    """
    for step in program.steps:
        for target, ways in ways_of(step).items():
            for place, index in enumerate(ways):
                yield index, (step.name, target, place)
