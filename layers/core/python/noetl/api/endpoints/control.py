"""Changes of executions from outside: each is an event, durable before it is answered."""

from __future__ import annotations

import hashlib

import msgspec

from noetl.api import reading
from noetl.api.bodies import AcceptedAnswer, CancelBody, ContextBody, TokenBody
from noetl.api.control_bodies import PauseBody, RedriveBody
from noetl.api.deps import ApiDeps
from noetl.api.endpoints.publishing import publish
from noetl.api.exchange import Answer, Request
from noetl.domain.events import Event
from noetl.services import change_execution, read_execution, redrive_execution
from noetl.services.change_execution import Asked
from noetl.services.find_playbook import find_playbook


def cancel(deps: ApiDeps, request: Request) -> Answer:
    asked = reading.body(request, deps, CancelBody)
    by = asked_by(deps, request, asked.reason)
    event = change_execution.cancel(deps.store, _id(request), by, cascade=asked.cascade)
    return _accepted(deps, by, event)


def pause(deps: ApiDeps, request: Request) -> Answer:
    asked = reading.body(request, deps, PauseBody)
    by = asked_by(deps, request, asked.reason)
    event = change_execution.pause(deps.store, _id(request), by, cascade=asked.cascade)
    return _accepted(deps, by, event)


def resume(deps: ApiDeps, request: Request) -> Answer:
    asked = reading.body(request, deps, PauseBody)
    by = asked_by(deps, request, asked.reason)
    event = change_execution.resume(deps.store, _id(request), by, cascade=asked.cascade)
    return _accepted(deps, by, event)


def redrive(deps: ApiDeps, request: Request) -> Answer:
    asked = reading.body(request, deps, RedriveBody)
    reading.storable(asked.args or {}, "args")
    execution_id = _id(request)
    program = ""
    if asked.version is not None:
        path = read_execution.find(deps.store, execution_id).path
        program = find_playbook(deps.catalog, path, asked.version).program
    by = asked_by(deps, request, asked.reason)
    event = redrive_execution.redrive(
        deps.store,
        deps.programs,
        execution_id,
        by,
        step="" if asked.from_ == "failure" else asked.from_,
        args=asked.args,
        program=program,
    )
    return _accepted(deps, by, event)


def patch_context(deps: ApiDeps, request: Request) -> Answer:
    asked = reading.body(request, deps, ContextBody)
    reading.storable(msgspec.to_builtins(asked.patch), "patch")
    patch = asked.patch if isinstance(asked.patch, dict) else [one.to_dict() for one in asked.patch]
    by = asked_by(deps, request, asked.reason)
    event = change_execution.patch_context(
        deps.store, _id(request), by, patch, correlation_id=asked.correlation_id
    )
    return _accepted(deps, by, event)


def inject_token(deps: ApiDeps, request: Request) -> Answer:
    asked = reading.body(request, deps, TokenBody)
    reading.storable(asked.args, "args")
    by = asked_by(deps, request, asked.reason)
    event = change_execution.inject_token(
        deps.store,
        deps.programs,
        _id(request),
        by,
        step=asked.step,
        args=asked.args,
        correlation_id=asked.correlation_id,
    )
    return _accepted(deps, by, event)


def asked_by(deps: ApiDeps, request: Request, reason: str) -> Asked:
    """With an idempotency key, the same request is the same event however often it comes; without one, each request is its own."""
    key = reading.idempotency_key(request)
    if key:
        body = hashlib.sha256(request.body).hexdigest()
        unique = f"{key}\n{request.method} {request.path}\n{body}"
    else:
        unique = f"{request.request_id}\n{request.now_ms}\n{request.bits}"
    return Asked(request.principal.name, unique, deps.publisher.owner(), reason)


def _accepted(deps: ApiDeps, by: Asked, event: Event) -> Answer:
    publish(deps, by.owner, event)
    return Answer(202, AcceptedAnswer(str(event.execution_id), event.event_id))


def _id(request: Request) -> int:
    return reading.execution_id(request.params["execution_id"])
