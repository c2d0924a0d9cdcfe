"""Rerun, clean up, finalize executions; and whether one is cancelled."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.bodies import StartedAnswer
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.publishing import publish
from noetl.api.http.route import ONE, Route
from noetl.api.nouns import executions
from noetl.api.nouns.control import change_request
from noetl.domain.automations.schedules import instant
from noetl.domain.errors import ConflictError
from noetl.domain.patches.scope_patches import deep_merge
from noetl.domain.state import TERMINAL
from noetl.services.catalog.find_playbook import by_program, find_version, version_of
from noetl.services.executions import bulk_control, change_execution
from noetl.services.executions.bulk_control import BulkDeps, BulkRequest, ManyFilter
from noetl.services.queries import read_execution

_YEAR = 366 * 24 * 60


class RerunBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to run an execution again.

    ``workload`` (or ``payload``): laid over the workload of the execution that is run again.
    """

    workload: dict[str, Any] | None = None
    payload: dict[str, Any] | None = None
    resource_kind: str | None = None


class RerunAnswer(msgspec.Struct, frozen=True):
    """The new execution, and the one whose playbook and workload it has."""

    execution_id: str
    source_execution_id: str
    path: str
    version: int | None
    status: str = "started"


class CleanupBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Executions that run longer than ``older_than_minutes``; ``dry_run``: only name them."""

    older_than_minutes: Annotated[float, msgspec.Meta(ge=0, le=_YEAR)]
    dry_run: bool = False


class CleanupAnswer(msgspec.Struct, frozen=True):
    """The executions that a clean-up cancels.

    ``execution_ids``: those that are cancelled, or in a dry run would be. ``more``: there are further ones; ask again.
    """

    cancelled_count: int
    execution_ids: list[str]
    message: str
    dry_run: bool
    more: bool


class CancellationAnswer(msgspec.Struct, frozen=True):
    """``cancelled`` and ``is_cancelled`` are the same."""

    execution_id: str
    is_cancelled: bool
    cancelled: bool
    status: str


class FinalizeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to end an execution.

    ``reason`` (or ``error``) is kept in history. ``status`` is what the caller wants it to be; no caller can make it complete.
    """

    status: str = ""
    reason: str = ""
    error: str | None = None


class FinalizedAnswer(msgspec.Struct, frozen=True):
    execution_id: str
    status: str
    message: str


def rerun(deps: ApiDeps, request: Request) -> Answer:
    """Start the same playbook version with the same workload, overlaid with the body's."""
    body = parse.body(request, deps, RerunBody)
    execution_id = parse.execution_id(request.params["execution_id"])
    info = read_execution.find(deps.store, execution_id)
    if not info.version:
        raise ConflictError(
            f"execution {execution_id} has not begun, so it has no workload to run again",
            code="not_begun",
            hint="start its playbook",
        )
    known = info.playbook_version.isdigit()
    found = (
        find_version(deps.catalog, info.path, int(info.playbook_version))
        if known
        else version_of(by_program(deps.catalog, info.program))
    )
    slots = {
        name: value for (scope, name), value in deps.store.slots(execution_id).items() if scope == "workload"
    }
    had = read_execution.resolve(slots, deps.results)
    payload = deep_merge(had, body.workload or body.payload or {})
    answer, _ = executions.begin(deps, request, found, payload, labels=dict(info.labels))
    assert isinstance(answer.value, StartedAnswer)
    begun = answer.value
    return Answer(
        201, RerunAnswer(begun.execution_id, str(execution_id), begun.path, begun.version, begun.status)
    )


def cleanup(deps: ApiDeps, request: Request) -> Answer:
    """Cancel executions that run for too long.

    Those that wait for a person, a time or a slot are left alone.
    """
    body = parse.body(request, deps, CleanupBody)
    by = change_request(deps, request, f"cleanup: ran for more than {body.older_than_minutes:g} minutes")
    before = instant(int(deps.clock() - 60 * body.older_than_minutes))
    bulk = BulkRequest(
        ManyFilter(status="running", started_before=before, roots=True),
        limit=bulk_control.MOST,
        dry_run=body.dry_run,
        reason=by.reason,
    )
    many = BulkDeps(
        deps.store,
        deps.catalog,
        deps.programs,
        lambda events: publish(deps, by.owner, *events),
        deps.clock,
    )
    done = bulk_control.steer_many("cancel", bulk, by, many)
    ids = [one.execution_id for one in done.executions if one.outcome != "refused"]
    verb = "would be cancelled" if body.dry_run else "will be cancelled"
    message = f"{len(ids)} execution{'' if len(ids) == 1 else 's'} {verb}"
    return Answer(200, CleanupAnswer(len(ids), ids, message, body.dry_run, done.more))


def check_cancellation(deps: ApiDeps, request: Request) -> Answer:
    info = read_execution.find(deps.store, parse.execution_id(request.params["execution_id"]))
    cancelled = info.status == "cancelled"
    return Answer(200, CancellationAnswer(str(info.execution_id), cancelled, cancelled, info.status))


def finalize(deps: ApiDeps, request: Request) -> Answer:
    """Cancel an execution that runs, regardless of the requested status.

    One that has ended stays as it is.
    """
    body = parse.body(request, deps, FinalizeBody)
    execution_id = parse.execution_id(request.params["execution_id"])
    info = read_execution.find(deps.store, execution_id)
    by = change_request(deps, request, body.reason or body.error or "finalized")
    if info.status in TERMINAL:
        return Answer(
            200, FinalizedAnswer(str(execution_id), info.status, f"it had ended before: {info.status}")
        )
    publish(deps, by.owner, change_execution.cancel(deps.store, execution_id, by, cascade=True))
    return Answer(
        200, FinalizedAnswer(str(execution_id), "cancelled", "it is cancelled, with what it started")
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{ONE}/rerun",
        "rerunExecution",
        "Start the playbook of an execution again: the same version, the same workload, and what the body lays over it.",
        "execute",
        rerun,
        {201: RerunAnswer},
        "executions",
        body=RerunBody,
        keyed=True,
        refuses=(409, 429),
    ),
    Route(
        "POST",
        "/api/executions/cleanup",
        "cleanupExecutions",
        "Cancel executions that have been running for more than so many minutes. What waits for a person, a time or a slot stays.",
        "execute",
        cleanup,
        {200: CleanupAnswer},
        "control",
        body=CleanupBody,
        keyed=True,
        logged=True,
    ),
    Route(
        "GET",
        f"{ONE}/cancellation-check",
        "checkCancellation",
        "Whether an execution is cancelled.",
        "read",
        check_cancellation,
        {200: CancellationAnswer},
        "executions",
    ),
    Route(
        "POST",
        f"{ONE}/finalize",
        "finalizeExecution",
        "End an execution that runs, by cancelling it; one that has ended stays as it is.",
        "execute",
        finalize,
        {200: FinalizedAnswer},
        "control",
        body=FinalizeBody,
        keyed=True,
    ),
)
