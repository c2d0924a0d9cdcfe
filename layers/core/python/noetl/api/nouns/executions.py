"""The endpoints of executions: start, list, and read their progress and results."""

from __future__ import annotations

import json

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.bodies import (
    ExecutionAnswer,
    ExecutionPage,
    LoopItemPage,
    StartBody,
    StartedAnswer,
    StatusAnswer,
    StepPage,
)
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.api.http.publishing import publish
from noetl.domain import codec
from noetl.domain.automations.schedules import instant, parse_instant
from noetl.domain.errors import InvalidInputError
from noetl.domain.state import TERMINAL
from noetl.ports.catalog import PlaybookVersion
from noetl.ports.executions.answers import ExecutionFilter
from noetl.services.catalog.find_playbook import (
    by_program,
    find_named,
    find_playbook,
    find_version,
    named_by,
    version_of,
)
from noetl.services.executions.start_execution import StartRequest, start_execution
from noetl.services.history.loop_bands import MOST as MOST_BANDS
from noetl.services.history.loop_bands import loop_bands
from noetl.services.history.loop_items import loop_items
from noetl.services.history.phases import read_phases
from noetl.services.history.progress import read_progress
from noetl.services.queries import read_execution
from noetl.services.queries.limits import waits

STEPS = 2000
"""Most step runs in one answer."""
ITEMS = 500
"""Most items of a loop in one answer."""
BANDS = 60
"""Spans of time in which a loop is shown, where a request does not say how many."""


# --- start ------------------------------------------------------------------------------------------


def start(deps: ApiDeps, request: Request) -> tuple[Answer, bool]:
    """Start an execution; answer 201 as soon as it is durable.

    The same Idempotency-Key with the same body returns the same answer. The second value says whether this request made the
    execution, to start now.
    """
    deps.pressure.check_start()
    request = parse.as_json(request, deps)
    body = parse.body(request, deps, StartBody)
    payload = _payload(body)
    found = _find_playbook(deps, body)
    at = None if body.trigger_at is None else parse_instant(body.trigger_at)
    return begin(
        deps,
        request,
        found,
        payload,
        at=at,
        priority=body.priority,
        labels=body.labels,
        no_cache=body.no_cache,
    )


def begin(
    deps: ApiDeps,
    request: Request,
    found: PlaybookVersion,
    payload: dict[str, object],
    *,
    at: float | None = None,
    priority: int | None = None,
    labels: dict[str, str] | None = None,
    no_cache: bool = False,
) -> tuple[Answer, bool]:
    """Start ``found`` for the caller, under the key of the request.

    The answer, and whether this request made the execution, to start now.
    """
    parse.storable(payload, "payload")
    owner = deps.publisher.owner()
    key = parse.idempotency_key(request)
    start_request = StartRequest(
        payload,
        found.path,
        found.version,
        request.principal.name,
        request.principal.kind,
        key,
        codec.decode(request.body or b"{}") if key else None,
        at=at,
        priority=priority,
        labels=labels or {},
        no_cache=no_cache,
    )
    started = start_execution(
        deps.programs(found.program),
        start_request,
        deps.store,
        owner=owner,
        now_ms=request.now_ms,
        random_bits=request.bits,
        again=request.again,
        names=deps.names,
        begin=deps.begin,
        origin=request.origin,
    )
    if started.event is not None:
        publish(deps, owner, started.event)
    if started.fresh:
        answer = StartedAnswer(str(started.execution_id), found.path, found.version, found.program)
    else:
        answer = _kept(deps, started.execution_id)
    location = f"/api/executions/{started.execution_id}"
    return Answer(201, answer, headers={"Location": location}), started.fresh


def _payload(body: StartBody) -> dict[str, object]:
    if body.payload is not None and body.workload is not None:
        raise InvalidInputError("payload and workload are the same thing: send one", code="body_invalid")
    return body.payload or body.workload or {}


def _find_playbook(deps: ApiDeps, body: StartBody) -> PlaybookVersion:
    named = [body.path, body.playbook_id or body.catalog_id, body.program]
    if sum(name is not None for name in named) != 1:
        raise InvalidInputError(
            "name one playbook: by path (and version), by playbook_id, or by program",
            code="body_invalid",
            hint='such as {"path": "reports/daily", "payload": {}}',
        )
    path, playbook_id, program = named
    version = parse.version(body.version)
    if path is not None:
        return find_named(deps.catalog, path, version, deps.find)
    if version is not None:
        raise InvalidInputError("a version belongs to a path", code="body_invalid")
    if playbook_id is not None:
        return find_version(deps.catalog, *named_by(playbook_id), deps.find)
    assert program is not None
    if len(program) != 64 or not program.isalnum() or not program.isascii():
        raise InvalidInputError("a program is a SHA-256 in hexadecimal digits", code="body_invalid")
    return version_of(by_program(deps.catalog, program))


def _kept(deps: ApiDeps, execution_id: int) -> StartedAnswer:
    """Find the playbook of an execution that starts later or began before.

    Of an execution that starts later, or that was started by an earlier request: the playbook may have another version now.
    """
    info = read_execution.find(deps.store, execution_id)
    entry = deps.catalog.by_program(info.program)
    version = entry.version if entry is not None and entry.path == info.path else None
    answer = StartedAnswer(str(execution_id), info.path, version, info.program)
    if info.ahead:
        return msgspec.structs.replace(answer, status="scheduled", trigger_at=instant(info.started_at))
    return answer


# --- read -------------------------------------------------------------------------------------------


def list_executions(deps: ApiDeps, request: Request) -> Answer:
    limit = parse.limit(request, 50, 500)
    status = request.query.get("status")
    if status is not None and status not in read_execution.STATUSES:
        raise BadRequestError(
            f"status={status[:40]!r} is not a status",
            code="invalid_parameter",
            hint=f"one of {', '.join(read_execution.STATUSES)}",
        )
    after = parse.after(request)
    before = parse.whole_number(after) if after is not None else None
    if after is not None and before is None:
        raise parse.bad_cursor(after)
    path, version = request.query.get("path"), parse.version(request.query.get("version"))
    if version is not None and path is None:
        raise BadRequestError("a version belongs to a path: name the path as well", code="invalid_parameter")
    wanted = ExecutionFilter(
        path=path,
        parent=parse.maybe_execution_id(request, "parent"),
        started_after=parse.moment(request, "started_after"),
        started_before=parse.moment(request, "started_before"),
        program=find_playbook(deps.catalog, path, version).program if path and version else None,
        ids=parse.execution_ids(request),
        labels=_labels(request),
        roots=parse.flag(request, "roots"),
        principal=request.query.get("principal"),
        error_code=request.query.get("error_code"),
        text=request.query.get("text") or None,
    )
    found = read_execution.list_executions(
        deps.store, limit=limit, now=deps.clock(), before=before, status=status, wanted=wanted
    )
    more = found[-1].execution_id if len(found) == limit else None
    return Answer(200, ExecutionPage(found, more))


def _labels(request: Request) -> dict[str, str]:
    """``?labels=team=data,stage=raw``. Raises BadRequestError."""
    found: dict[str, str] = {}
    for part in filter(None, request.query.get("labels", "").split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise BadRequestError(
                f"labels={part[:40]!r} is not name=value",
                code="invalid_parameter",
                hint="such as labels=team=data,stage=raw",
            )
        found[name] = value
    return found


def get_execution(deps: ApiDeps, request: Request) -> Answer:
    execution_id = _id(request)
    view = read_execution.describe(deps.store, deps.programs, execution_id, now=deps.clock())
    shown = view.to_dict()
    steps = shown.pop("steps")
    last = [] if parse.flag(request, "lean") else steps[-STEPS:]
    answer = codec.convert(
        {**shown, "steps": last, "steps_left_out": len(steps) - len(last)}, ExecutionAnswer
    )
    return Answer(200, answer)


def get_status(deps: ApiDeps, request: Request) -> Answer:
    """Answer the status from the execution's row alone, regardless of its history's length."""
    execution_id = _id(request)
    info = read_execution.find(deps.store, execution_id)
    full = "full" not in request.query or parse.flag(request, "full")
    queued = read_execution.is_queued(deps.store, info)
    summary = msgspec.structs.asdict(read_execution.summarize(info, deps.clock(), queued=queued))
    answer = StatusAnswer(
        **summary,
        ended=info.status in TERMINAL,
        error=read_execution.error_of(info),
        outstanding=dict(deps.store.open_work(execution_id)),
        completed=info.status in TERMINAL,
        failed=info.status in ("failed", "cancelled"),
        completed_steps=read_execution.completed_steps(deps.store, deps.programs, info) if full else [],
        current_step=read_execution.current_step(info),
    )
    return Answer(200, answer)


def get_steps(deps: ApiDeps, request: Request) -> Answer:
    execution_id, limit = _id(request), parse.limit(request, 200, STEPS)
    after = parse.after(request)
    since = parse.whole_number(after) if after is not None else -1
    if since is None:
        raise parse.bad_cursor(str(after))
    read_execution.find(deps.store, execution_id)
    phases = read_phases(deps.store, execution_id) if parse.flag(request, "phases") else None
    progress = phases.progress if phases else read_progress(deps.store, execution_id)
    runs = [run for run in progress.runs.values() if run.run > since]
    now = deps.clock()
    waiting = waits(deps.store, execution_id)
    limited = {one.run for one in waiting}
    steps = [
        read_execution.step_view(
            run, now, phases=phases.of(run, limited=run.run in limited) if phases else ()
        )
        for run in runs[:limit]
    ]
    more = str(steps[-1].run) if len(runs) > limit else None
    return Answer(200, StepPage(str(execution_id), steps, more, waiting))


def get_loop_items(deps: ApiDeps, request: Request) -> Answer:
    """Answer a page of the items of a loop, or of those that failed."""
    execution_id, limit = _id(request), parse.limit(request, 100, ITEMS)
    read_execution.find(deps.store, execution_id)
    after = parse.after(request)
    place = parse.whole_number(after) if after is not None else -1
    if place is None:
        raise parse.bad_cursor(str(after))
    run = parse.whole_number(request.params["run"]) or 0  # no run has the number 0
    failed = parse.flag(request, "failed")
    page = loop_items(deps.store, execution_id, run, after=place, limit=limit, failed=failed)
    following = None if page.next is None else str(page.next)
    return Answer(200, LoopItemPage(str(execution_id), run, page.items, following))


def get_loop_bands(deps: ApiDeps, request: Request) -> Answer:
    """Answer a loop over time: at most so many bands, regardless of how many items it has."""
    execution_id = _id(request)
    read_execution.find(deps.store, execution_id)
    run = parse.whole_number(request.params["run"]) or 0  # no run has the number 0
    return Answer(
        200, loop_bands(deps.store, execution_id, run, parse.limit(request, BANDS, MOST_BANDS, "bands"))
    )


def escaped_size(text: str) -> int:
    """Count the bytes of ``text`` as a JSON string: how an answer of a function is counted."""
    return len(json.dumps(text))


def _id(request: Request) -> int:
    return parse.execution_id(request.params["execution_id"])
