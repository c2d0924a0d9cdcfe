"""Callbacks: answered by whoever has the token, listed for those who may act for the execution."""

from __future__ import annotations

from noetl.api import callback_bodies
from noetl.api.endpoints import callbacks
from noetl.api.routes.shape import ONE, Route
from noetl.services.take_callback import AskedFor

TOKEN = "/api/callbacks/{token}"

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        TOKEN,
        "getCallback",
        "What a callback is asked for; a page to approve or reject where people are to answer.",
        None,
        callbacks.get,
        {200: AskedFor},
        "callbacks",
        refuses=(409, 410),
    ),
    Route(
        "POST",
        TOKEN,
        "answerCallback",
        "Answer a callback, once; the body is the result of the task that waits.",
        None,
        callbacks.post,
        {202: callback_bodies.CallbackTaken, 200: callback_bodies.CallbackTaken},
        "callbacks",
        any_body=True,
        refuses=(400, 409, 410, 422, 429),
    ),
    Route(
        "GET",
        f"{ONE}/callbacks",
        "listCallbacks",
        "The callbacks that an execution waits for, with what answers them.",
        "execute",
        callbacks.list_all,
        {200: callback_bodies.CallbacksAnswer},
        "callbacks",
    ),
)
