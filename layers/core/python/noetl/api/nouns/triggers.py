"""Routes of triggers: make, list, read, change, delete, and fire by hand or by webhook."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Literal

import msgspec

from noetl.api.deleting import delete_named
from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError, ForbiddenError
from noetl.api.http.publishing import publish
from noetl.api.http.route import AFTER, Route, limit
from noetl.domain import ids
from noetl.domain.automations.triggers import WebhookSource, read_hook, unknown_hook
from noetl.domain.errors import NotFoundError
from noetl.ports.automations.trigger_store import TriggerRow
from noetl.services.automations import triggers as manage_triggers
from noetl.services.automations.fire_trigger import TriggerEvent, fire_trigger
from noetl.services.automations.triggers import TriggerPatch, TriggerRequest, TriggerView, find_trigger, view
from noetl.services.automations.webhook_signature import check_signer, verify
from noetl.services.executions.start_playbook import StartDeps

_PAGE, _MOST = 100, 500
_HEADERS, _LONGEST = 50, 2048
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization", "x-amz-security-token", "x-api-key"})
_DELIVERIES = ("idempotency-key", "webhook-id", "x-github-delivery", "x-gitlab-event-uuid")
"""Headers in which senders identify a delivery."""


class TriggerPage(msgspec.Struct, frozen=True):
    """``next``: pass it on as ``after`` for the next page; null at the end."""

    triggers: list[TriggerView]
    next: str | None


class FiredAnswer(msgspec.Struct, frozen=True):
    """``existing``: an earlier telling of the same happening had started it."""

    trigger: str
    execution_id: str
    status: Literal["started", "existing"]


def put(deps: ApiDeps, request: Request) -> Answer:
    """201 for a new one, 200 when it replaced one."""
    body = parse.body(request, deps, TriggerRequest)
    parse.storable(body.payload, "payload")
    check_signer(body.source, deps.credentials)
    made = manage_triggers.put_trigger(deps.triggers, body)
    shown = view(made.row, deps.triggers, secret=True)
    location = f"/api/triggers/{made.row.name}"
    return Answer(201 if made.fresh else 200, shown, headers={"Location": location})


def list_triggers(deps: ApiDeps, request: Request) -> Answer:
    limit = parse.limit(request, _PAGE, _MOST)
    found = deps.triggers.store.entries(limit=limit, after=parse.text_cursor(request))
    more = parse.cursor_text(found[-1].name) if len(found) == limit else None
    shown = [view(row, deps.triggers, secret=_may_change(request)) for row in found]
    return Answer(200, TriggerPage(shown, more))


def get(deps: ApiDeps, request: Request) -> Answer:
    return _shown(deps, request, find_trigger(deps.triggers.store, _name(request)))


def patch(deps: ApiDeps, request: Request) -> Answer:
    body = parse.body(request, deps, TriggerPatch)
    if body.payload is not msgspec.UNSET:
        parse.storable(body.payload, "payload")
    return _shown(deps, request, manage_triggers.patch_trigger(deps.triggers, _name(request), body))


def enable(deps: ApiDeps, request: Request) -> Answer:
    body = TriggerPatch(enabled=True)
    return _shown(deps, request, manage_triggers.patch_trigger(deps.triggers, _name(request), body))


def disable(deps: ApiDeps, request: Request) -> Answer:
    body = TriggerPatch(enabled=False)
    return _shown(deps, request, manage_triggers.patch_trigger(deps.triggers, _name(request), body))


def delete(deps: ApiDeps, request: Request) -> Answer:
    name = _name(request)
    return delete_named(request, name, lambda: manage_triggers.delete_trigger(deps.triggers, name))


def fire(deps: ApiDeps, request: Request) -> Answer:
    """Fire a trigger for a caller that may start executions; the body becomes `event.body`."""
    return _fire(deps, request, find_trigger(deps.triggers.store, _name(request)))


def hook(deps: ApiDeps, request: Request) -> Answer:
    """Fire a webhook by its secret address."""
    if deps.triggers.keys is None:
        raise unknown_hook()
    token = request.params["token"]
    try:
        name, generation = read_hook(token, deps.triggers.keys(False))
    except NotFoundError:
        name, generation = read_hook(token, deps.triggers.keys(True))
    row = deps.triggers.store.get(name)
    if row is None or row.kind != "webhook" or row.generation != generation:
        raise unknown_hook()
    _check_signature(deps, request, row)
    return _fire(deps, request, row)


def _check_signature(deps: ApiDeps, request: Request, row: TriggerRow) -> None:
    """Refuse and count a request without a valid signature.

    Raises ForbiddenError(code="signature_invalid").
    """
    source = row.source
    if not isinstance(source, WebhookSource) or not source.credential:
        return
    sent = request.headers.get(source.header.lower(), "")
    if sent and verify(source, parse.sized_body(request, deps), sent, deps.credentials):
        return
    why = f"{source.header} is not the signature of the body" if sent else f"there is no {source.header}"
    deps.triggers.store.fired(row.name, None, error=f"signature_invalid: {why}")
    raise ForbiddenError(
        why,
        code="signature_invalid",
        hint="HMAC-SHA256 of the body as it is sent, with the secret that was agreed on, as sha256=<hex>",
    )


def _fire(deps: ApiDeps, request: Request, row: TriggerRow) -> Answer:
    event = {"body": _body(deps, request), "headers": _headers(request), "query": dict(request.query)}
    parse.storable(event, "event")
    owner = deps.publisher.owner()
    start = StartDeps(
        store=deps.store,
        catalog=deps.catalog,
        programs=deps.programs,
        owner=owner,
        clock=deps.clock,
        random_bits=lambda: secrets.randbits(ids.RANDOM_BITS),
    )
    started = fire_trigger(row, TriggerEvent(event, _delivery(request)), deps.triggers.store, start)
    if started.event is not None:
        publish(deps, owner, started.event)
    status: Literal["started", "existing"] = "existing" if started.event is None else "started"
    return Answer(202, FiredAnswer(row.name, str(started.execution_id), status))


def _body(deps: ApiDeps, request: Request) -> Any:
    """Return a body as its JSON value, or else as text.

    JSON with a duplicate key is refused, as on every route: a signature covers its text, and not which of the two values the playbook
    would see.
    """
    data = parse.sized_body(request, deps)
    if not data:
        return None
    is_json = "json" in request.headers.get("content-type", "")
    if is_json or data.lstrip()[:1] in (b"{", b"["):
        try:
            return parse.json_value(data)
        except BadRequestError as error:
            if is_json or error.code != "body_not_json":
                raise
    return data.decode("utf-8", "replace")


def _headers(request: Request) -> dict[str, str]:
    """Return the headers of a request without those that authenticate a caller."""
    kept = sorted(name for name in request.headers if name not in _SECRET)[:_HEADERS]
    return {name: request.headers[name][:_LONGEST] for name in kept}


def _delivery(request: Request) -> str:
    """What the sender calls this happening; empty when it does not."""
    parse.sent_key(request)
    found = next((request.headers[name] for name in _DELIVERIES if request.headers.get(name)), "")
    return f"http:{hashlib.sha256(found.encode('utf-8', 'surrogatepass')).hexdigest()}" if found else ""


def _shown(deps: ApiDeps, request: Request, row: TriggerRow) -> Answer:
    return Answer(200, view(row, deps.triggers, secret=_may_change(request)))


def _may_change(request: Request) -> bool:
    return "write" in request.principal.scopes


def _name(request: Request) -> str:
    return request.params["name"]


ALL = "/api/triggers"
EACH = f"{ALL}/{{name}}"

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        ALL,
        "putTrigger",
        "Make a trigger, or replace one of the same type. Triggers of `metadata.triggers` belong to their playbook, and are not shown here.",
        "write",
        put,
        {201: manage_triggers.TriggerView, 200: manage_triggers.TriggerView},
        "triggers",
        logged=True,
        body=manage_triggers.TriggerRequest,
        refuses=(409,),
    ),
    Route(
        "GET",
        ALL,
        "listTriggers",
        "Triggers by name.",
        "read",
        list_triggers,
        {200: TriggerPage},
        "triggers",
        query=(AFTER, limit(100, 500)),
    ),
    Route(
        "GET",
        EACH,
        "getTrigger",
        "One trigger, and the outcome of its latest start.",
        "read",
        get,
        {200: manage_triggers.TriggerView},
        "triggers",
    ),
    Route(
        "PATCH",
        EACH,
        "patchTrigger",
        "Change a trigger; `rotate` makes a new address for a webhook.",
        "write",
        patch,
        {200: manage_triggers.TriggerView},
        "triggers",
        logged=True,
        body=manage_triggers.TriggerPatch,
    ),
    Route(
        "DELETE",
        EACH,
        "deleteTrigger",
        "Forget a trigger; nothing watches for it any more.",
        "write",
        delete,
        {200: bodies.DeletedAnswer},
        "triggers",
        logged=True,
    ),
    Route(
        "POST",
        f"{EACH}/enable",
        "enableTrigger",
        "Let a trigger fire.",
        "write",
        enable,
        {200: manage_triggers.TriggerView},
        "triggers",
        logged=True,
    ),
    Route(
        "POST",
        f"{EACH}/disable",
        "disableTrigger",
        "Let a trigger start nothing until it is enabled.",
        "write",
        disable,
        {200: manage_triggers.TriggerView},
        "triggers",
        logged=True,
    ),
    Route(
        "POST",
        f"{EACH}/fire",
        "fireTrigger",
        "Fire a trigger: the body is `event.body`. The same Idempotency-Key starts one execution.",
        "execute",
        fire,
        {202: FiredAnswer},
        "triggers",
        logged=True,
        any_query=True,
        any_body=True,
        refuses=(409, 429),
    ),
    Route(
        "POST",
        "/api/hooks/{token}",
        "callHook",
        "A webhook's own address, for senders that have no other credentials but, where the trigger names one, a secret that signs.",
        None,
        hook,
        {202: FiredAnswer},
        "triggers",
        any_body=True,
        refuses=(400, 403, 404, 409, 422, 429),
    ),
)
