"""Changing running executions from outside."""

from __future__ import annotations

from typing import Any

from noetl.api import bodies, control_bodies
from noetl.api.endpoints import control
from noetl.api.routes.shape import ONE, Endpoint, Route
from noetl.services.steer_many import ManyWish, SteeredMany, Verb


def _change(method: str, what: str, name: str, about: str, endpoint: Endpoint, body: Any) -> Route:
    """Something that is asked of one execution."""
    answers = {202: bodies.AcceptedAnswer}
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
        control.steering(verb),
        {200: SteeredMany},
        "control",
        body=ManyWish,
        keyed=True,
    )


ROUTES: tuple[Route, ...] = (
    _many("cancel", "Cancel all executions that fit a filter."),
    _many("pause", "Pause all executions that fit a filter."),
    _many("resume", "Let all paused executions that fit a filter go on."),
    _many("redrive", "Run all executions again that have ended and fit a filter."),
    _change("POST", "cancel", "cancelExecution", "Cancel an execution.", control.cancel, bodies.CancelBody),
    _change(
        "POST",
        "pause",
        "pauseExecution",
        "Begin nothing new in an execution until it is resumed.",
        control.pause,
        control_bodies.PauseBody,
    ),
    _change(
        "POST",
        "resume",
        "resumeExecution",
        "Let a paused execution go on.",
        control.resume,
        control_bodies.PauseBody,
    ),
    _change(
        "POST",
        "redrive",
        "redriveExecution",
        "Run an execution that has ended again, from its failure, from a step, or from items of its loop.",
        control.redrive,
        control_bodies.RedriveBody,
    ),
    _change(
        "PATCH",
        "ctx",
        "patchContext",
        "Change the context of a running execution; steps that wait for it are looked at again.",
        control.patch_context,
        bodies.ContextBody,
    ),
    _change(
        "POST",
        "tokens",
        "injectToken",
        "Let a step of a running execution run, with these arguments.",
        control.inject_token,
        bodies.TokenBody,
    ),
)
