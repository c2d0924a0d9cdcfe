"""Changing running executions from outside."""

from __future__ import annotations

from noetl.api import bodies, control_bodies
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
        "POST",
        f"{ONE}/pause",
        "pauseExecution",
        "Begin nothing new in an execution until it is resumed.",
        "execute",
        control.pause,
        {202: bodies.AcceptedAnswer},
        "control",
        body=control_bodies.PauseBody,
        keyed=True,
    ),
    Route(
        "POST",
        f"{ONE}/resume",
        "resumeExecution",
        "Let a paused execution go on.",
        "execute",
        control.resume,
        {202: bodies.AcceptedAnswer},
        "control",
        body=control_bodies.PauseBody,
        keyed=True,
    ),
    Route(
        "POST",
        f"{ONE}/redrive",
        "redriveExecution",
        "Run an execution that has ended again, from its failure or from a step.",
        "execute",
        control.redrive,
        {202: bodies.AcceptedAnswer},
        "control",
        body=control_bodies.RedriveBody,
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
