"""The keychain of a playbook, resolved: which credential each entry means.

It is resolved when an execution starts and later. Only names are computed in this module: the engine never handles the secrets behind them.
"""

from __future__ import annotations

from noetl.domain.errors import NoetlError
from noetl.domain.events import Start
from noetl.domain.facts.facts import Initialized
from noetl.domain.state import ExecutionState
from noetl.dsl.keychain import credential_of
from noetl.dsl.program import KeychainEntry, Program
from noetl.engine.complete_execution import refuse_execution
from noetl.engine.decision import Decider, Decision
from noetl.engine.handle_event import workload_of
from noetl.engine.scopes.scope import EngineScope, workload_scope
from noetl.engine.scopes.slot_view import Overlay, View
from noetl.templating import render, unwrap


def names_at_start(program: Program, event: Start, now: float, view: View) -> dict[str, str]:
    """Map entries to credentials for an execution that starts.

    Raises TemplateError with the place of what cannot be computed.
    """
    d = Decider(program, ExecutionState(), event, now, view)
    workload = workload_of(d, event)
    scope = workload_scope(program, event.execution_id, d.slots, now, workload)
    return {entry.name: _name(entry, scope) for entry in program.keychain}


def names_later(program: Program, execution_id: int, view: View) -> dict[str, str]:
    """Map entries to credentials for an execution that has started.

    ``view`` holds its workload.
    """
    scope = EngineScope(program, execution_id, Overlay(view), 0.0)
    return {entry.name: _name(entry, scope) for entry in program.keychain}


def refuse_keychain(program: Program, event: Start, error: NoetlError, now: float, view: View) -> Decision:
    """Fail an execution whose keychain cannot be resolved.

    It exists, has failed before its first step, and its parent is informed.
    """
    d = Decider(program, ExecutionState(), event, now, view)
    try:
        workload = workload_of(d, event)
    except NoetlError:
        workload = dict(event.payload)
    kept = d.keep(workload, "workload")
    d.emit(
        Initialized(
            program.hash,
            program.path,
            program.entry,
            1,
            kept,
            event.parent,
            event.depth,
            event.principal,
            now,
        )
    )
    refuse_execution(d, d.error_of(error))
    return d.decision


def _name(entry: KeychainEntry, scope: EngineScope) -> str:
    try:
        return credential_of(entry, unwrap(render(entry.params, scope)))
    except NoetlError as error:
        if not error.details.get("line"):
            error.details |= {"line": entry.pos.line, "column": entry.pos.column}
        raise
