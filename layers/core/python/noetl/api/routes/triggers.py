"""Triggers: what starts a playbook when something happens."""

from __future__ import annotations

from noetl.api import bodies
from noetl.api.endpoints import triggers
from noetl.api.routes.shape import AFTER, Route, limit
from noetl.services import manage_triggers

ALL = "/api/triggers"
EACH = f"{ALL}/{{name}}"

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        ALL,
        "putTrigger",
        "Make a trigger, or replace one of the same type. Triggers of `metadata.triggers` belong to their playbook, and are not shown here.",
        "write",
        triggers.put,
        {201: manage_triggers.TriggerView, 200: manage_triggers.TriggerView},
        "triggers",
        logged=True,
        body=manage_triggers.TriggerWish,
        refuses=(409,),
    ),
    Route(
        "GET",
        ALL,
        "listTriggers",
        "Triggers by name.",
        "read",
        triggers.list_triggers,
        {200: triggers.TriggerPage},
        "triggers",
        query=(AFTER, limit(100, 500)),
    ),
    Route(
        "GET",
        EACH,
        "getTrigger",
        "One trigger, and what came of it.",
        "read",
        triggers.get,
        {200: manage_triggers.TriggerView},
        "triggers",
    ),
    Route(
        "PATCH",
        EACH,
        "patchTrigger",
        "Change a trigger; `rotate` gives a webhook a new address.",
        "write",
        triggers.patch,
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
        triggers.delete,
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
        triggers.enable,
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
        triggers.disable,
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
        triggers.fire,
        {202: triggers.FiredAnswer},
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
        triggers.hook,
        {202: triggers.FiredAnswer},
        "triggers",
        any_body=True,
        refuses=(400, 403, 404, 409, 422, 429),
    ),
)
