"""Sub-executions that a task asks for: what may be asked, and those that the run does not wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from noetl.domain.errors import NoetlError
from noetl.domain.outcomes import ChildRequest
from noetl.domain.size_gate import check_document, check_text
from noetl.domain.sizes import PATH
from noetl.pipeline.faults import error_of
from noetl.pipeline.ops import TaskOutcome

if TYPE_CHECKING:
    from noetl.pipeline.machine import PipelineRun


def held(outcome: TaskOutcome) -> TaskOutcome:
    """The outcome itself, or the task's error when the sub-execution it asks for exceeds a limit of starts."""
    if outcome.child is None:
        return outcome
    try:
        check_text(PATH, outcome.child.path, "the path of the sub-playbook")
        check_document(outcome.child.payload, "payload")
    except NoetlError as error:
        return TaskOutcome(error=error_of(error), duration_ms=outcome.duration_ms)
    return outcome


def detached(run: PipelineRun, child: ChildRequest) -> TaskOutcome:
    """Report a sub-execution that the run does not wait for: its id is known already."""
    run.state.children.append(msgspec.to_builtins(child))
    number = len(run.state.children)
    return TaskOutcome({"execution_id": str(run.around.child_id(number, run.item))})
