"""Changing running executions from outside."""

from __future__ import annotations

from noetl.api import bodies
from noetl.api.endpoints import control
from noetl.api.routes.shape import ONE, Route

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{ONE}/cancel",
        "cancelExecution",
        "Cancel an execution.",
        "execute",
        control.cancel,
        {202: bodies.AcceptedAnswer},
        "control",
        body=bodies.CancelBody,
        keyed=True,
    ),
    Route(
        "PATCH",
        f"{ONE}/ctx",
        "patchContext",
        "Change the context of a running execution; steps that wait for it are looked at again.",
        "execute",
        control.patch_context,
        {202: bodies.AcceptedAnswer},
        "control",
        body=bodies.ContextBody,
        keyed=True,
    ),
    Route(
        "POST",
        f"{ONE}/tokens",
        "injectToken",
        "Let a step of a running execution run, with these arguments.",
        "execute",
        control.inject_token,
        {202: bodies.AcceptedAnswer},
        "control",
        body=bodies.TokenBody,
        keyed=True,
    ),
)
