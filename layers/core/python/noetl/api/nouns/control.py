"""What is sent to pause, resume and redrive executions.

Changes of executions from outside: each is an event, durable before it is answered.

Changing running executions from outside.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, parse
from noetl.api.http.bodies import AcceptedAnswer, CancelBody, CancelledAnswer, ContextBody, TokenBody
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.publishing import publish
from noetl.api.http.route import ONE, Endpoint, Route
from noetl.domain.events import Event
from noetl.ports.executions.answers import ExecutionFilter
from noetl.services.executions import bulk_control, change_execution, redrive_execution
from noetl.services.executions.bulk_control import BulkDeps, BulkRequest, SteeredMany, Verb
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_preview import RedrivePreview, preview
from noetl.services.history.execution_state import demand_state
from noetl.services.queries import read_execution


class PauseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``cascade``: its children as well."""

    reason: str = ""
    cascade: bool = True


class RedriveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to redrive an execution.

    ``from``: ``failure`` (what was under way when it ended), a step, or items of its loop: ``load[3]``, ``load[failed]``. ``args``: of that
    step; without them those of its last run. ``version``: of its playbook; without it the one it had. ``output``: what that step leaves
    with, instead of being run. ``dry_run``: say what would run, and change nothing.
    """

    from_: str = msgspec.field(default="failure", name="from")
    args: dict[str, Any] | None = None
    version: int | None = None
    reason: str = ""
    output: Any = msgspec.UNSET
    dry_run: bool = False


B = TypeVar("B", CancelBody, PauseBody, RedriveBody, ContextBody, TokenBody)


def changing(shape: type[B], change: Callable[[ApiDeps, int, B, ChangeRequest], Event]) -> Endpoint:
    """Make an endpoint that changes one execution.

    It reads the body, stores the event of ``change``, publishes it, and answers 202.
    """

    def endpoint(deps: ApiDeps, request: Request) -> Answer:
        body = parse.body(request, deps, shape)
        by = change_request(deps, request, body.reason)
        event = change(deps, parse.execution_id(request.params["execution_id"]), body, by)
        publish(deps, by.owner, event)
        return Answer(202, AcceptedAnswer(str(event.execution_id), event.event_id))

    return endpoint


def _cancel(deps: ApiDeps, execution_id: int, body: CancelBody, by: ChangeRequest) -> Event:
    return change_execution.cancel(deps.store, execution_id, by, cascade=body.cascade)


def _pause(deps: ApiDeps, execution_id: int, body: PauseBody, by: ChangeRequest) -> Event:
    return change_execution.pause(deps.store, execution_id, by, cascade=body.cascade)


def _resume(deps: ApiDeps, execution_id: int, body: PauseBody, by: ChangeRequest) -> Event:
    return change_execution.resume(deps.store, execution_id, by, cascade=body.cascade)


def _redrive(deps: ApiDeps, execution_id: int, body: RedriveBody, by: ChangeRequest) -> Event:
    return redrive_execution.redrive(
        deps.store,
        deps.programs,
        execution_id,
        by,
        step="" if body.from_ == "failure" else body.from_,
        args=body.args,
        program=redrive_execution.program_of_version(deps.store, deps.catalog, execution_id, body.version),
        output=body.output,
    )


def _patch_context(deps: ApiDeps, execution_id: int, body: ContextBody, by: ChangeRequest) -> Event:
    patch = body.patch if isinstance(body.patch, dict) else [one.to_dict() for one in body.patch]
    return change_execution.patch_context(
        deps.store, execution_id, by, patch, correlation_id=body.correlation_id
    )


def _inject_token(deps: ApiDeps, execution_id: int, body: TokenBody, by: ChangeRequest) -> Event:
    return change_execution.inject_token(
        deps.store,
        deps.programs,
        execution_id,
        by,
        step=body.step,
        args=body.args,
        correlation_id=body.correlation_id,
    )


NAMED = 100
"""Most executions that the answer to a cancel names."""


def cancel(deps: ApiDeps, request: Request) -> Answer:
    """As every change of one execution; the answer names what is cancelled with it."""
    body = parse.body(request, deps, CancelBody)
    execution_id = parse.execution_id(request.params["execution_id"])
    by = change_request(deps, request, body.reason)
    family = [execution_id, *(_live_below(deps, execution_id) if body.cascade else ())][:NAMED]
    event = change_execution.cancel(deps.store, execution_id, by, cascade=body.cascade)
    publish(deps, by.owner, event)
    names = [str(one) for one in family]
    return Answer(
        202,
        CancelledAnswer(
            str(execution_id),
            event.event_id,
            names,
            len(names),
            f"{len(names)} execution{'' if len(names) == 1 else 's'} will be cancelled",
        ),
    )


def _live_below(deps: ApiDeps, execution_id: int) -> Iterator[int]:
    """Return executions that are cancelled with this one, level by level, up to a limit."""
    level, found = [execution_id], 0
    while level and found < NAMED:
        below: list[int] = []
        for parent in level:
            live = ExecutionFilter(parent=parent, statuses=("running", "paused"))
            below += [info.execution_id for info in deps.store.executions(limit=NAMED, wanted=live)]
            if found + len(below) >= NAMED:
                break
        yield from below
        found += len(below)
        level = below


pause = changing(PauseBody, _pause)
resume = changing(PauseBody, _resume)
_begin_redrive = changing(RedriveBody, _redrive)
patch_context = changing(ContextBody, _patch_context)
inject_token = changing(TokenBody, _inject_token)


def redrive(deps: ApiDeps, request: Request) -> Answer:
    """Redrive one execution; a dry run is refused alike, and answers what would run."""
    body = parse.body(request, deps, RedriveBody)
    if not body.dry_run:
        return _begin_redrive(deps, request)
    execution_id = parse.execution_id(request.params["execution_id"])
    info = read_execution.find(deps.store, execution_id)
    event = redrive_execution.plan(
        deps.store,
        deps.programs,
        execution_id,
        change_request(deps, request, body.reason),
        step="" if body.from_ == "failure" else body.from_,
        args=body.args,
        program=redrive_execution.program_of_version(deps.store, deps.catalog, execution_id, body.version),
        output=body.output,
        info=info,
    )
    return Answer(200, preview(deps.programs(event.program), demand_state(info), event))


def steering(verb: bulk_control.Verb) -> Endpoint:
    """Make an endpoint that applies ``verb`` to every execution of a filter.

    The answer has the outcome of each.
    """

    def endpoint(deps: ApiDeps, request: Request) -> Answer:
        body = parse.body(request, deps, BulkRequest)
        by = change_request(deps, request, body.reason)
        many = BulkDeps(
            deps.store,
            deps.catalog,
            deps.programs,
            lambda events: publish(deps, by.owner, *events),
            deps.clock,
        )
        return Answer(200, bulk_control.steer_many(verb, body, by, many))

    return endpoint


def change_request(deps: ApiDeps, request: Request, reason: str) -> ChangeRequest:
    """Return who asks for a change, with the unique name that its event gets.

    With an idempotency key, a repeated request is the same event; without one, each request is its own.
    """
    key = parse.idempotency_key(request)
    if key:
        body = hashlib.sha256(request.body).hexdigest()
        unique = f"{key}\n{request.method} {request.path}\n{body}"
    else:
        unique = f"{request.request_id}\n{request.now_ms}\n{request.bits}"
    return ChangeRequest(request.principal.name, unique, deps.publisher.owner(), reason)


def _change(method: str, what: str, name: str, about: str, endpoint: Endpoint, body: Any) -> Route:
    """Something that is asked of one execution."""
    answers: dict[int, Any] = {202: bodies.CancelledAnswer if what == "cancel" else bodies.AcceptedAnswer}
    if body is RedriveBody:
        answers[200] = RedrivePreview
    return Route(
        method, f"{ONE}/{what}", name, about, "execute", endpoint, answers, "control", body=body, keyed=True
    )


def _many(verb: Verb, about: str) -> Route:
    """Something that is asked of all executions that fit a filter."""
    return Route(
        "POST",
        f"/api/executions/{verb}",
        f"{verb}Executions",
        about,
        "execute",
        steering(verb),
        {200: SteeredMany},
        "control",
        body=BulkRequest,
        keyed=True,
    )


ROUTES: tuple[Route, ...] = (
    _many("cancel", "Cancel all executions that fit a filter."),
    _many("pause", "Pause all executions that fit a filter."),
    _many("resume", "Continue all paused executions that fit a filter."),
    _many("redrive", "Run all executions again that have ended and fit a filter."),
    _change("POST", "cancel", "cancelExecution", "Cancel an execution.", cancel, bodies.CancelBody),
    _change(
        "POST",
        "pause",
        "pauseExecution",
        "Begin nothing new in an execution until it is resumed.",
        pause,
        PauseBody,
    ),
    _change(
        "POST",
        "resume",
        "resumeExecution",
        "Continue a paused execution.",
        resume,
        PauseBody,
    ),
    _change(
        "POST",
        "redrive",
        "redriveExecution",
        "Run an execution that has ended again, from its failure, from a step, or from items of its loop.",
        redrive,
        RedriveBody,
    ),
    _change(
        "PATCH",
        "ctx",
        "patchContext",
        "Change the context of a running execution; steps that wait for it are looked at again.",
        patch_context,
        bodies.ContextBody,
    ),
    _change(
        "POST",
        "tokens",
        "injectToken",
        "Let a step of a running execution run, with these arguments.",
        inject_token,
        bodies.TokenBody,
    ),
)
