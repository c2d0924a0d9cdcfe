"""Sub-executions of a task: their checks, and those that the run does not wait for."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from noetl.domain import codec, ids
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError
from noetl.domain.outcomes.outcomes import ChildRequest
from noetl.domain.sizes.gate import check_document, check_text
from noetl.domain.sizes.table import PATH
from noetl.pipeline.errors import error_of
from noetl.pipeline.requests import TaskOutcome
from noetl.pipeline.state import State
from noetl.pipeline.surroundings import Item

if TYPE_CHECKING:
    from noetl.pipeline.run import Run


def held(run: Run, outcome: TaskOutcome) -> TaskOutcome:
    """Return the outcome of a sub-execution's start.

    The task's error when the sub-execution exceeds a limit of starts. A sub-execution takes no cached result when this execution takes
    none.
    """
    if outcome.child is None:
        return outcome
    try:
        check_text(PATH, outcome.child.path, "the path of the sub-playbook")
        check_document(outcome.child.payload, "payload")
    except NoetlError as error:
        return TaskOutcome(error=error_of(error), duration_ms=outcome.duration_ms)
    if run.around.frozen.job.get("no_cache"):
        return replace(outcome, child=msgspec.structs.replace(outcome.child, no_cache=True))
    return outcome


def detached(run: Run, child: ChildRequest) -> TaskOutcome:
    """Report a sub-execution that the run does not wait for: its id is known already."""
    children = run.state.children
    child_id, passed = run.around.child_id(len(children) + 1, run.item, run.state)
    children.append(msgspec.to_builtins(msgspec.structs.replace(child, passed=passed)))
    return TaskOutcome({"execution_id": str(child_id)})


class ChildIds:
    """Ids of sub-executions that a command starts without waiting; a repeat derives the same.

    An id is skipped when the command, its run or an earlier child mentions it: it belongs to another execution. The run is read once a
    turn, when the first child is asked for: ids that later tasks of the turn mention do not count.
    """

    def __init__(self, command: Command, taken: Container[int] = ()) -> None:
        """Make the ids of one command. ``taken``: ids that the store refused."""
        self._command = command
        self._taken = taken
        self._known: set[int] = set()

    def __call__(self, number: int, item: Item | None, state: State) -> tuple[int, int]:
        """Derive the id of the ``number``-th sub-execution (from 1) of this turn.

        Return (id, number of skipped derivations).
        """
        command = self._command
        if number == 1:
            self._known = self._known or ids.ids_in(codec.encode(command))
            self._known |= ids.ids_in(codec.encode(state))
        place = -1 if item is None else item.index if item.place < 0 else item.place
        origin = ids.child_origin(command.command_id, command.turn, place, number)
        known = _Either(self._known, self._taken)
        child_id, passed = ids.derivation_to_tell(command.execution_id, origin, known)
        self._known.add(child_id)
        return child_id, passed


class _Either:
    """What is in the one or in the other."""

    def __init__(self, one: Container[int], other: Container[int]) -> None:
        self._one = one
        self._other = other

    def __contains__(self, value: object) -> bool:
        return value in self._one or value in self._other
