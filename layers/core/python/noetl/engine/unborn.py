"""Executions that end before they begin: each exists, and has one terminal fact.

A parent that waits is informed.
"""

from __future__ import annotations

from noetl.domain.errors import NoetlError
from noetl.domain.events import Cancel, Start
from noetl.domain.facts.facts import Initialized
from noetl.domain.state import ExecutionState
from noetl.dsl.program import Program
from noetl.engine.complete_execution import cancel_execution, refuse_execution
from noetl.engine.decision import Decider, Decision
from noetl.engine.scopes.slot_view import View


def refuse_start(program: Program, event: Start, error: NoetlError, now: float, view: View) -> Decision:
    """Fail an execution that cannot begin, and inform its parent.

    Its playbook does not exist, say.
    """
    d = Decider(program, ExecutionState(), event, now, view)
    d.emit(Initialized("", event.path, "", 1, {}, event.parent, event.depth, event.principal, now))
    refuse_execution(d, d.error_of(error))
    return d.decision


def cancel_unborn(
    program: Program, event: Cancel, now: float, view: View, start: Start | None = None
) -> Decision:
    """Cancel an execution whose Start was overtaken by the cancel, and comes too late.

    ``start``: known unless its parent gave it up; the parent is informed of the end.
    """
    d = Decider(program, ExecutionState(), event, now, view)
    path, parent, depth = (start.path, start.parent, start.depth) if start is not None else ("", None, 0)
    d.emit(Initialized("", path, "", 1, {}, parent, depth, event.principal, now))
    cancel_execution(d, event.reason, event.principal, cascade=False)
    return d.decision
