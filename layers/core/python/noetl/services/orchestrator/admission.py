"""Admission of new executions by concurrency key (``executor.spec.concurrency``).

It costs a round trip, and only for playbooks that limit concurrency. An execution that waits is a row of version 0. Its Start is held in
the outbox until the commit that ends a holder of the key releases it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.events import Event, Start
from noetl.domain.limits import refusal
from noetl.dsl.program import Program
from noetl.engine.admission import admission_of
from noetl.ports.executions.execution_store import ExecutionIdTakenError, VersionConflictError
from noetl.services.executions.start_execution import created_by
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps
from noetl.services.orchestrator.id_collisions import refuse_start
from noetl.services.results.stored_bytes import outages


def admitted(
    events: Sequence[Event], deps: EngineDeps, handled: BatchEffects
) -> tuple[list[Event], dict[int, NoetlError]]:
    """Return the batch without waiting Starts, and why some of its executions cannot begin."""
    found: list[Event] = []
    refused: dict[int, NoetlError] = {}
    programs: dict[tuple[str, int | None], str] = {}
    for event in events:
        if not isinstance(event, Start):
            found.append(event)
            continue
        event, program = _resolved(event, deps, programs)
        try:
            waits = (
                program is not None
                and program.concurrency is not None
                and _waits(event, program, deps, handled)
            )
        except InfrastructureError:
            raise
        except (VersionConflictError, ExecutionIdTakenError):
            refuse_start(event, deps, handled)
            continue
        except NoetlError as error:
            refused[event.execution_id], waits = error, False
        if not waits:
            found.append(event)
    return found, refused


def _resolved(
    event: Start, deps: EngineDeps, programs: dict[tuple[str, int | None], str]
) -> tuple[Start, Program | None]:
    """Resolve a Start's program; None when that fails: the Start's decision reports why.

    ``programs``: what this batch has resolved already: a loop over sub-playbooks brings hundreds of Starts of one path.
    """
    try:
        if not event.program:
            wanted = event.path, event.version
            if wanted not in programs:
                programs[wanted] = deps.resolve(*wanted)
            event = msgspec.structs.replace(event, program=programs[wanted])
        return event, deps.programs(event.program)
    except InfrastructureError:
        raise
    except NoetlError:
        return event, None


def _waits(event: Start, program: Program, deps: EngineDeps, handled: BatchEffects) -> bool:
    """Ask the store for a slot; True when the execution has to wait.

    Raises ConflictError(code="concurrency_limit"), TemplateError.
    """
    with outages():
        admission = admission_of(program, event, time.time(), deps.hydrate)
    if admission is None:
        return False
    answer, events = deps.store.admit(event, created_by(event, program), admission, deps.owner)
    handled.events += events
    if answer.status == "refused":
        raise refusal(admission.key, answer.most, answer.holders)
    return answer.status == "queued"
