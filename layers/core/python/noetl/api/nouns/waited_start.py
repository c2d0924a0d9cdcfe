"""Requests that wait for the end of an execution (``?wait=SECONDS``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.access import check_scope
from noetl.api.http.bodies import StartedAnswer
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.waiting import LONGEST
from noetl.api.nouns import executions
from noetl.api.nouns.results import result_answers
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import Ending
from noetl.services.queries import read_execution

MARGIN = 2048
"""Bytes of an answer around a result."""


def start(deps: ApiDeps, request: Request) -> Answer:
    """Start an execution; with ``wait``, return its outcome if it ends in time.

    The execution exists once it is started: its id is the answer, also when waiting fails. Raises ForbiddenError for a caller
    who may start executions and not read them, before anything is started.
    """
    seconds = parse.seconds(request, "wait", LONGEST)
    if seconds is not None:
        check_scope(request.principal, "read")
    made, fresh = executions.start(deps, request)
    begun = made.value
    if seconds is None or not isinstance(begun, StartedAnswer) or begun.status == "scheduled":
        return made
    execution_id = int(begun.execution_id)
    result = _wait(deps, request, execution_id, seconds, fresh=fresh)
    try:
        if result is not UNSET:
            ended = msgspec.structs.replace(begun, status="completed", ended=True, error=None)
            text = _answer_text(deps, ended, result)
        else:
            text = _text_of(deps, begun, _ending(deps, execution_id))
        return Answer(201, text=text, headers=made.headers)
    except NoetlError as error:
        deps.log(f"execution {execution_id} is started; its status cannot be read: {error}")
        return made


def get_execution(deps: ApiDeps, request: Request) -> Answer:
    """An execution with its steps; with ``wait``, as soon as it has ended."""
    _wait_for_named(deps, request)
    return executions.get_execution(deps, request)


def get_status(deps: ApiDeps, request: Request) -> Answer:
    """Return the status of an execution; with ``wait``, as soon as it has ended."""
    _wait_for_named(deps, request)
    return executions.get_status(deps, request)


def _wait_for_named(deps: ApiDeps, request: Request) -> None:
    seconds = parse.seconds(request, "wait", LONGEST)
    if seconds:
        execution_id = parse.execution_id(request.params["execution_id"])
        if not read_execution.is_over(deps.store, read_execution.find(deps.store, execution_id)):
            _wait(deps, request, execution_id, seconds)


def _wait(deps: ApiDeps, request: Request, execution_id: int, seconds: float, *, fresh: bool = False) -> Any:
    """Wait, and return the result where this process knows it; else UNSET.

    ``fresh``: this request has started it.
    """

    def over() -> bool:
        if request.gone():
            return True
        try:
            info = deps.store.info(execution_id)
            return info is None or read_execution.is_over(deps.store, info)
        except InfrastructureError as outage:
            deps.log(f"a request continues to wait for execution {execution_id}: {outage}")
            return False

    return deps.waiting.wait(execution_id, seconds, over, since=request.now_ms / 1000, fresh=fresh)


def _ending(deps: ApiDeps, execution_id: int) -> Ending:
    """Raises NotFoundError."""
    if deps.ending is None:
        return read_execution.find_ending(deps.store, execution_id)
    return deps.ending(execution_id) or read_execution.no_execution(execution_id)


def _text_of(deps: ApiDeps, begun: StartedAnswer, ending: Ending) -> str:
    """Write the answer about an execution as the store has it."""
    info = ending.info
    queued = read_execution.is_queued(deps.store, info)
    summary = read_execution.summarize(info, deps.clock(), queued=queued)
    ended = info.status in TERMINAL
    started = msgspec.structs.replace(
        begun, status=summary.status, ended=ended, error=read_execution.error_of(info)
    )
    completed = info.status == "completed"
    return _answer_text(deps, started, read_execution.result_of(ending) if completed else UNSET)


def _answer_text(deps: ApiDeps, started: StartedAnswer, result: Any) -> str:
    """Return the largest answer that fits. ``result``: UNSET where there is none.

    A result that cannot be read is left out: its own route reports why.
    """
    texts = (Answer(201, one).body() for one in _with_result(deps, started, result))
    fitting = (text for text in texts if executions.escaped_size(text) <= deps.max_answer)
    return next(fitting, None) or Answer(201, started).body()


def _with_result(deps: ApiDeps, started: StartedAnswer, result: Any) -> Iterator[StartedAnswer]:
    """The answer with the whole result, then with its large parts as references."""
    if result is UNSET:
        return
    execution_id = int(started.execution_id)
    try:
        for found in result_answers(deps, execution_id, result, most=deps.max_answer - MARGIN):
            yield msgspec.structs.replace(
                started, result=found.result, complete=found.complete, downloads=found.downloads
            )
    except NoetlError as error:
        deps.log(f"the result of execution {execution_id} cannot be read: {error}")
