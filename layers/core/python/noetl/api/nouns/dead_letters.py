"""Routes of dead letters: the list with reasons, and the return or removal of chosen ones."""

from __future__ import annotations

import time

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.api.http.route import AFTER, Parameter, Route, limit
from noetl.services.messaging.operate_dead_letters import (
    QUEUE_NAMES,
    DeadLetterPage,
    DeadLetterRequest,
    DeadLettersDone,
    LetterDeps,
    Verb,
    handle_letters,
    list_letters,
    page_of,
)
from noetl.services.orchestrator.dead_letters import MARGIN_SECONDS

SECONDS = 12.0
"""How long one request moves letters; the answer says whether there may be more."""
_PAGE, _MOST = 100, 500


def list_all(deps: ApiDeps, request: Request) -> Answer:
    """Answer a page; the queues are read again for each, because they have no cursor."""
    count = parse.limit(request, _PAGE, _MOST)
    after = parse.text_cursor(request)
    queue = request.query.get("queue")
    if queue is not None and queue not in QUEUE_NAMES:
        raise BadRequestError(
            f"queue={queue[:40]!r} has no dead letters to show",
            code="invalid_parameter",
            hint=f"queues are {' and '.join(QUEUE_NAMES)}",
        )
    about = parse.maybe_execution_id(request, "execution_id")
    found = list_letters(_deps(deps), queue=queue, execution_id=None if about is None else str(about))
    page, last = page_of(found, after, count)
    more = parse.cursor_text(last) if last else None
    return Answer(200, msgspec.structs.replace(page, next=more), headers={"Cache-Control": "no-store"})


def retry(deps: ApiDeps, request: Request) -> Answer:
    return _handle("retry", deps, request)


def delete(deps: ApiDeps, request: Request) -> Answer:
    return _handle("delete", deps, request)


def _handle(verb: Verb, deps: ApiDeps, request: Request) -> Answer:
    body = parse.body(request, deps, DeadLetterRequest)
    if body.execution_id is not None:
        body = msgspec.structs.replace(body, execution_id=str(parse.execution_id(body.execution_id)))
    until = time.monotonic() + SECONDS + MARGIN_SECONDS
    return Answer(200, handle_letters(verb, body, _deps(deps), lambda: until - time.monotonic()))


def _deps(deps: ApiDeps) -> LetterDeps:
    return LetterDeps(deps.letter_queues, deps.results, deps.store, deps.clock, deps.log)


_QUEUE = Parameter("queue", "Only those of this queue.", {"type": "string", "enum": list(QUEUE_NAMES)})
_EXECUTION = Parameter("execution_id", "Only those about this execution.")
_PATH = "/api/dead-letters"

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        _PATH,
        "listDeadLetters",
        "Messages that their queue or the engine gave up, with the reason, the oldest first; and executions that ended because of lost work.",
        "read",
        list_all,
        {200: DeadLetterPage},
        "dead letters",
        query=(_QUEUE, _EXECUTION, AFTER, limit(_PAGE, _MOST)),
    ),
    Route(
        "POST",
        f"{_PATH}/retry",
        "retryDeadLetters",
        "Send dead letters back to the queue that they came from; a repeat does no harm.",
        "execute",
        retry,
        {200: DeadLettersDone},
        "dead letters",
        body=DeadLetterRequest,
        logged=True,
    ),
    Route(
        "POST",
        f"{_PATH}/delete",
        "deleteDeadLetters",
        "Remove dead letters for good; a repeat does no harm.",
        "admin",
        delete,
        {200: DeadLettersDone},
        "dead letters",
        body=DeadLetterRequest,
        logged=True,
    ),
)
