"""Callbacks: the token in the path is all that is needed. People who come with a browser are shown pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from noetl.api import pages, reading
from noetl.api.callback_bodies import CallbacksAnswer, CallbackTaken, open_view
from noetl.api.deps import ApiDeps
from noetl.api.endpoints.publishing import publish
from noetl.api.exchange import Answer, Request
from noetl.api.problems import BadRequestError, problem
from noetl.domain import ids
from noetl.domain.errors import InvalidInputError, NoetlError
from noetl.services.awaited import open_callbacks
from noetl.services.read_execution import find
from noetl.services.take_callback import CallbackDeps, answer, look

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
        asked = look(request.params["token"], _deps(deps))
    except NoetlError as error:
        return _refused(error, request)
    if asked.approve and _wants_page(request, unless_said=True):
        return pages.ask(asked)
    return Answer(200, asked, headers=_QUIET)


def post(deps: ApiDeps, request: Request) -> Answer:
    """The body is what the waiting task gives; a form, what a person decided."""
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
        return pages.told(200, "Thank you", f"Your decision is recorded: {_words(body)}.")
    event_id = ids.callback_event(taken.callback.place, taken.callback.serial)
    told = CallbackTaken(str(taken.callback.execution_id), event_id, taken.event is None)
    return Answer(200 if told.duplicate else 202, told, headers=_QUIET)


def list_all(deps: ApiDeps, request: Request) -> Answer:
    """With their tokens, for who may answer for the execution."""
    execution_id = reading.execution_id(request.params["execution_id"])
    info = find(deps.store, execution_id)
    found = open_callbacks(deps.store, info, deps.events.door.keys, deps.public_url or _address(request))
    views = [open_view(one.callback, one.token, one.url) for one in found]
    return Answer(200, CallbacksAnswer(str(execution_id), views), headers=_QUIET)


def _deps(deps: ApiDeps) -> CallbackDeps:
    return CallbackDeps(deps.store, deps.results, deps.programs, deps.events.door.keys, deps.inline_bytes)


def _address(request: Request) -> str:
    """Where the caller reached this API."""
    scheme = request.headers.get("x-forwarded-proto", "http").partition(",")[0].strip()
    return f"{'https' if scheme == 'https' else 'http'}://{request.headers.get('host', 'localhost')[:200]}"


def _json(request: Request, deps: ApiDeps) -> Any:
    data = reading.sized_body(request, deps)
    return reading.json_value(data) if data.strip() else None


def _decision(request: Request, deps: ApiDeps) -> dict[str, Any]:
    try:
        sent = parse_qs(reading.sized_body(request, deps).decode("utf-8"), max_num_fields=20)
    except ValueError as error:
        raise BadRequestError("the form cannot be read", code="form_invalid") from error
    word = sent.get("decision", [""])[0]
    if word not in ("approve", "reject"):
        raise BadRequestError("the form decides nothing", code="form_invalid", hint="approve or reject")
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
    return pages.told(status, _TITLES.get(error.code, "This could not be taken"), error.message)
