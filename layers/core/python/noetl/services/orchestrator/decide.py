"""Decision of one event: by the engine, or a refusal or failure when it cannot decide."""

from __future__ import annotations

from collections.abc import Callable

from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.events import Cancel, MainEvent, Redrive, Start
from noetl.domain.ids import cascade_parent
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.state import ExecutionState
from noetl.dsl.program import Program
from noetl.engine.decision import Decision
from noetl.engine.giving_up import give_up
from noetl.engine.handle_event import handle_event
from noetl.engine.keychain import refuse_keychain
from noetl.engine.scopes.slot_view import View
from noetl.engine.unborn import cancel_unborn, refuse_start
from noetl.services.credentials.check_keychain import start_problem
from noetl.services.orchestrator.engine_deps import EngineDeps

MISSING_PROGRAM = Program(v=1, semantics=1, hash="", name="", path="", source_name="")


def decide_one(
    event: MainEvent,
    state: ExecutionState | None,
    now: float,
    view: View,
    program: Callable[[str], Program],
    deps: EngineDeps,
    refused: NoetlError | None = None,
) -> Decision:
    """Decide one event; an error of the engine itself fails the execution.

    ``state`` is None while the execution has not started. ``program``: finds programs, remembering them for the batch. ``refused``: why
    it cannot begin.
    """
    if state is None and isinstance(event, Cancel):
        return cancel_unborn(MISSING_PROGRAM, event, now, view, _start_of(event, deps))
    if state is not None and isinstance(event, Start):
        # A Cancel ended it before its Start came, so it does not matter whether it could have begun.
        return handle_event(MISSING_PROGRAM, state, event, now, view)
    state = state or ExecutionState()
    try:
        found = _program(event, state, program, deps)
        problem = refused or start_problem(found, event, now, view, deps.credentials)
    except InfrastructureError:
        raise
    except NoetlError as error:
        if isinstance(event, Start):
            return refuse_start(MISSING_PROGRAM, event, error, now, view)
        raise
    try:
        if problem is not None and isinstance(event, Start):
            return refuse_keychain(found, event, problem, now, view)
        return handle_event(found, state, event, now, view)
    except Exception as error:
        deps.log(f"execution {event.execution_id}: the engine failed on {event.event_id}: {error!r}")
        info = ErrorInfo(
            message=f"the engine failed on event {event.event_id}: {type(error).__name__}: {error}",
            code="engine_error",
            hint="this is a defect of the engine; the log has the details",
        )
        return give_up(found, state, event, event, info, now, view)


def _start_of(event: Cancel, deps: EngineDeps) -> Start | None:
    """Return the Start that the cancel ``event`` has overtaken.

    None when a parent sent the cancel: that parent no longer waits for its child.
    """
    if cascade_parent(event.event_id) is not None:
        return None
    return deps.store.start_of(event.execution_id)


def _program(
    event: MainEvent, state: ExecutionState, program: Callable[[str], Program], deps: EngineDeps
) -> Program:
    """Find the program that the execution runs now.

    A redrive may have replaced it since ``event`` was made.
    """
    if isinstance(event, Redrive):
        return program(event.program)
    name = state.program or event.program
    if name:
        return program(name)
    if isinstance(event, Start):
        return program(deps.resolve(event.path, event.version))
    return MISSING_PROGRAM
