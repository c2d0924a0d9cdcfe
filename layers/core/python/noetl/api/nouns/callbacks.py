"""Routes of callbacks. Times are epoch seconds.

Every holder of the token in the path can answer; a browser gets pages. A list of callbacks needs the right to act for the
execution.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import msgspec

from noetl.api import pages
from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError, problem
from noetl.api.http.publishing import publish
from noetl.api.http.route import AFTER, ONE, Route, limit
from noetl.domain import ids
from noetl.domain.errors import InvalidInputError, NoetlError
from noetl.domain.text.timestamps import Timestamp
from noetl.services.callbacks.complete_callback import CallbackDeps, CallbackQuestion, answer, look
from noetl.services.callbacks.open_callbacks import (
    AwaitedCallback,
    OpenCallback,
    open_callbacks,
    open_callbacks_of_all,
)
from noetl.services.queries.read_execution import find


class CallbackTaken(msgspec.Struct, frozen=True):
    """A callback that was answered. ``duplicate``: the same answer was recorded before."""

    execution_id: str
    event_id: str
    duplicate: bool = False


class OpenCallbackView(msgspec.Struct, frozen=True):
    """A callback that waits for an answer. ``token`` and ``url`` let every holder answer."""

    step: str
    run: int
    task: str
    index: int | None
    since: Timestamp
    until: Timestamp | None
    message: str
    approve: bool
    token: str
    url: str

    def plain(self) -> OpenCallback:
        """Return the callback as services represent it."""
        about = AwaitedCallback(
            self.step,
            self.run,
            self.task,
            self.index,
            self.since,
            self.until,
            self.message,
            self.approve,
        )
        return OpenCallback(about, self.token, self.url)


class CallbacksAnswer(msgspec.Struct, frozen=True):
    """The callbacks that an execution waits for."""

    execution_id: str
    callbacks: list[OpenCallbackView]


class ListedCallback(OpenCallbackView, frozen=True):
    """A callback that waits for an answer, with its execution.

    ``principal``: who started that; the name of a schedule, where one did.
    """

    execution_id: str
    path: str
    principal: str = ""


class CallbackPage(msgspec.Struct, frozen=True):
    """Callbacks that executions wait for, the oldest executions first.

    ``left_out``: callbacks of loop items that are not shown. ``next``: the cursor of the next page, null on the last.
    """

    callbacks: list[ListedCallback]
    left_out: int
    next: str | None


def open_view(found: AwaitedCallback, token: str, url: str) -> OpenCallbackView:
    return OpenCallbackView(
        found.step,
        found.run,
        found.task,
        found.index,
        found.since,
        found.until,
        found.message,
        found.approve,
        token,
        url,
    )


FORM = "application/x-www-form-urlencoded"
_QUIET = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_TITLES = {
    "callback_used": "This was answered before",
    "callback_expired": "This is too late",
    "callback_closed": "This is not waited for any more",
    "callback_not_found": "There is nothing here",
}


def get(deps: ApiDeps, request: Request) -> Answer:
    """What is asked for; a page when that is for people (or JSON, for who wants that)."""
    try:
        question = look(request.params["token"], _deps(deps))
    except NoetlError as error:
        return _refused(error, request)
    if question.approve and _wants_page(request, unless_said=True):
        return pages.ask(question)
    return Answer(200, question, headers=_QUIET)


def post(deps: ApiDeps, request: Request) -> Answer:
    """Answer a callback with the body, or with a person's decision from a form."""
    form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM
    try:
        body = _decision(request, deps) if form else _json(request, deps)
        owner = deps.publisher.owner()
        taken = answer(request.params["token"], body, _deps(deps), owner)
    except NoetlError as error:
        return _refused(error, request)
    if taken.event is not None:
        publish(deps, owner, taken.event)
    if form:
        return pages.message_page(200, "Thank you", f"Your decision is recorded: {_words(body)}.")
    event_id = ids.callback_event(taken.callback.place, taken.callback.serial)
    reply = CallbackTaken(str(taken.callback.execution_id), event_id, taken.event is None)
    return Answer(200 if reply.duplicate else 202, reply, headers=_QUIET)


def list_all(deps: ApiDeps, request: Request) -> Answer:
    """With their tokens, for who may answer for the execution."""
    execution_id = parse.execution_id(request.params["execution_id"])
    info = find(deps.store, execution_id)
    found = open_callbacks(deps.store, info, deps.events.door.keys, deps.public_url or _address(request))
    views = [open_view(one.callback, one.token, one.url) for one in found]
    return Answer(200, CallbacksAnswer(str(execution_id), views), headers=_QUIET)


def list_open(deps: ApiDeps, request: Request) -> Answer:
    """Answer the open callbacks of all executions, with their tokens."""
    executions = parse.limit(request, _PAGE, _MOST)
    after = parse.after(request)
    place = 0 if after is None else parse.whole_number(after)
    if place is None:
        raise parse.bad_cursor(str(after))
    base = deps.public_url or _address(request)
    page = open_callbacks_of_all(deps.store, deps.events.door.keys, base, after=place, limit=executions)
    views = [
        ListedCallback(
            **msgspec.structs.asdict(open_view(one.callback, one.token, one.url)),
            execution_id=str(info.execution_id),
            path=info.path,
            principal=info.principal,
        )
        for info, one in page.found
    ]
    more = None if page.last is None else str(page.last)
    return Answer(200, CallbackPage(views, page.left_out, more), headers=_QUIET)


def _deps(deps: ApiDeps) -> CallbackDeps:
    return CallbackDeps(deps.store, deps.results, deps.programs, deps.events.door.keys, deps.inline_bytes)


def _address(request: Request) -> str:
    """Where the caller reached this API."""
    scheme = request.headers.get("x-forwarded-proto", "http").partition(",")[0].strip()
    host = request.headers.get("host", "localhost")[:200]
    return f"{'https' if scheme == 'https' else 'http'}://{host}{request.base}"


def _json(request: Request, deps: ApiDeps) -> Any:
    data = parse.sized_body(request, deps)
    return parse.json_value(data) if data.strip() else None


def _decision(request: Request, deps: ApiDeps) -> dict[str, Any]:
    try:
        sent = parse_qs(parse.sized_body(request, deps).decode("utf-8"), max_num_fields=20)
    except ValueError as error:
        raise BadRequestError("the form cannot be read", code="form_invalid") from error
    word = sent.get("decision", [""])[0]
    if word not in ("approve", "reject"):
        raise BadRequestError(
            "the form decides nothing",
            code="form_invalid",
            hint="set decision to approve or reject; a program sends JSON with `Content-Type: application/json`",
        )
    comment = sent.get("comment", [""])[0].strip()[: pages.COMMENT]
    return {"approved": word == "approve", **({"comment": comment} if comment else {})}


def _words(body: Any) -> str:
    return "approved" if body["approved"] else "rejected"


def _wants_page(request: Request, *, unless_said: bool) -> bool:
    accept = request.headers.get("accept", "")
    if "text/html" in accept:
        return True
    return unless_said and ("*/*" in accept or not accept)


def _refused(error: NoetlError, request: Request) -> Answer:
    """What does not fit the schema cannot be read by who waits for it: a 400."""
    if isinstance(error, InvalidInputError) and error.code == "callback_schema":
        error = BadRequestError(error.message, code=error.code, hint=error.hint, details=error.details)
    if not _wants_page(request, unless_said=False):
        raise error
    status = problem(error).status
    if status >= 500:
        raise error
    return pages.message_page(status, _TITLES.get(error.code, "This could not be taken"), error.message)


TOKEN = "/api/callbacks/{token}"
_PAGE, _MOST = 50, 100

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/callbacks",
        "listOpenCallbacks",
        "The callbacks that executions wait for, with what answers them; a page is of at most `limit` executions, the oldest first.",
        "execute",
        list_open,
        {200: CallbackPage},
        "callbacks",
        query=(AFTER, limit(_PAGE, _MOST)),
    ),
    Route(
        "GET",
        TOKEN,
        "getCallback",
        "What a callback is asked for; a page to approve or reject where people are to answer.",
        None,
        get,
        {200: CallbackQuestion},
        "callbacks",
        refuses=(409, 410),
    ),
    Route(
        "POST",
        TOKEN,
        "answerCallback",
        "Answer a callback, once; the body is the result of the task that waits.",
        None,
        post,
        {202: CallbackTaken, 200: CallbackTaken},
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
        list_all,
        {200: CallbacksAnswer},
        "callbacks",
    ),
)
