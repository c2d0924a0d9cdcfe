"""Changes of executions from outside: each is an event, durable before it is answered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from noetl.api import reading
from noetl.api.bodies import AcceptedAnswer, CancelBody, ContextBody, TokenBody
from noetl.api.control_bodies import PauseBody, RedriveBody
from noetl.api.deps import ApiDeps
from noetl.api.endpoints.publishing import publish
from noetl.api.exchange import Answer, Request
from noetl.api.routes.shape import Endpoint
from noetl.domain.events import Event
from noetl.services import change_execution, read_execution, redrive_execution, steer_many
from noetl.services.change_execution import Asked
from noetl.services.find_playbook import find_playbook
from noetl.services.steer_many import ManyDeps, ManyWish

B = TypeVar("B", CancelBody, PauseBody, RedriveBody, ContextBody, TokenBody)


def changing(shape: type[B], change: Callable[[ApiDeps, int, B, Asked], Event]) -> Endpoint:
    """An endpoint of one execution: reads the body, lets ``change`` make and keep the event, publishes it, and answers 202."""

    def endpoint(deps: ApiDeps, request: Request) -> Answer:
        asked = reading.body(request, deps, shape)
        by = asked_by(deps, request, asked.reason)
        event = change(deps, reading.execution_id(request.params["execution_id"]), asked, by)
        publish(deps, by.owner, event)
        return Answer(202, AcceptedAnswer(str(event.execution_id), event.event_id))

    return endpoint


def _cancel(deps: ApiDeps, execution_id: int, asked: CancelBody, by: Asked) -> Event:
    return change_execution.cancel(deps.store, execution_id, by, cascade=asked.cascade)


def _pause(deps: ApiDeps, execution_id: int, asked: PauseBody, by: Asked) -> Event:
    return change_execution.pause(deps.store, execution_id, by, cascade=asked.cascade)


def _resume(deps: ApiDeps, execution_id: int, asked: PauseBody, by: Asked) -> Event:
    return change_execution.resume(deps.store, execution_id, by, cascade=asked.cascade)


def _redrive(deps: ApiDeps, execution_id: int, asked: RedriveBody, by: Asked) -> Event:
    program = ""
    if asked.version is not None:
        path = read_execution.find(deps.store, execution_id).path
        program = find_playbook(deps.catalog, path, asked.version).program
    step = "" if asked.from_ == "failure" else asked.from_
    return redrive_execution.redrive(
        deps.store, deps.programs, execution_id, by, step=step, args=asked.args, program=program
    )


def _patch_context(deps: ApiDeps, execution_id: int, asked: ContextBody, by: Asked) -> Event:
    patch = asked.patch if isinstance(asked.patch, dict) else [one.to_dict() for one in asked.patch]
    return change_execution.patch_context(
        deps.store, execution_id, by, patch, correlation_id=asked.correlation_id
    )


def _inject_token(deps: ApiDeps, execution_id: int, asked: TokenBody, by: Asked) -> Event:
    return change_execution.inject_token(
        deps.store,
        deps.programs,
        execution_id,
        by,
        step=asked.step,
        args=asked.args,
        correlation_id=asked.correlation_id,
    )


cancel = changing(CancelBody, _cancel)
pause = changing(PauseBody, _pause)
resume = changing(PauseBody, _resume)
redrive = changing(RedriveBody, _redrive)
patch_context = changing(ContextBody, _patch_context)
inject_token = changing(TokenBody, _inject_token)


def steering(verb: steer_many.Verb) -> Endpoint:
    """An endpoint that does ``verb`` to every execution that a filter names, and tells what became of each."""

    def endpoint(deps: ApiDeps, request: Request) -> Answer:
        wish = reading.body(request, deps, ManyWish)
        by = asked_by(deps, request, wish.reason)
        many = ManyDeps(
            deps.store,
            deps.catalog,
            deps.programs,
            lambda events: publish(deps, by.owner, *events),
            deps.clock,
        )
        return Answer(200, steer_many.steer_many(verb, wish, by, many))

    return endpoint


def asked_by(deps: ApiDeps, request: Request, reason: str) -> Asked:
    """With an idempotency key, the same request is the same event however often it comes; without one, each request is its own."""
    key = reading.idempotency_key(request)
    if key:
        body = hashlib.sha256(request.body).hexdigest()
        unique = f"{key}\n{request.method} {request.path}\n{body}"
    else:
        unique = f"{request.request_id}\n{request.now_ms}\n{request.bits}"
    return Asked(request.principal.name, unique, deps.publisher.owner(), reason)
