"""Bulk control: cancel, pause, resume or redrive every execution that a filter selects.

Each execution gets its own event; they are posted in batches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from noetl.domain.automations.schedules import parse_instant
from noetl.domain.errors import ConflictError, InvalidInputError, NoetlError
from noetl.domain.events import Cancel, Event, Pause, Resume
from noetl.domain.redrive import parse_address
from noetl.domain.state import TERMINAL
from noetl.dsl.program import Program
from noetl.ports.catalog import Catalog
from noetl.ports.executions.answers import ExecutionFilter, Posted, Steering
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.catalog.find_playbook import find_playbook
from noetl.services.executions import redrive_execution
from noetl.services.executions.change_execution import ChangeRequest, event_id, steer
from noetl.services.history.execution_state import demand_state
from noetl.services.history.steering_order import accepted_before, check_paused
from noetl.services.queries.read_execution import STATUSES, statuses, summarize

Verb = Literal["cancel", "pause", "resume", "redrive"]
BATCH = 256
"""Most events in one commit."""
MOST = 1000
"""Most executions in one request."""
FITTING: dict[Verb, tuple[str, ...]] = {
    "cancel": ("running", "paused"),
    "pause": ("running",),
    "resume": ("paused",),
    "redrive": ("failed", "cancelled"),
}
"""Stored statuses that are meant when the filter names neither a status nor ids."""
_SECONDS = re.compile(r"\d{1,11}(\.\d{1,9})?", re.ASCII)


class ManyFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A filter of executions, which has at least one condition and selects what fits them all.

    ``version``: of the playbook ``path``. Moments are RFC 3339, or seconds since 1970. ``ids``: only these. ``labels``: all of them.
    ``roots``: true leaves out those that another execution started. ``principal``: who started them. ``error_code``: they failed with this
    code. ``text``: their path, name or a label contains it.
    """

    status: str | None = None
    path: str | None = None
    version: int | None = None
    started_before: str | None = None
    started_after: str | None = None
    parent: str | None = None
    ids: list[str] | None = None
    labels: dict[str, str] | None = None
    roots: bool | None = None
    principal: str | None = None
    error_code: str | None = None
    text: str | None = None


class BulkRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request to control many executions.

    ``limit``: most executions, the newest first. ``after``: the ``next`` of the previous answer. ``dry_run``: only report what would be
    done. ``cascade``: their children as well (cancel, pause, resume). ``from``, ``version``: as of a single redrive; a version needs a path
    in the filter.
    """

    filter: ManyFilter = ManyFilter()
    limit: int = 100
    after: str | None = None
    dry_run: bool = False
    reason: str = ""
    cascade: bool = True
    from_: str = msgspec.field(default="failure", name="from")
    version: int | None = None


class ControlResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome for one execution.

    ``status``: before the request. ``outcome``: ``done`` (its event is durable), ``would`` (in a dry run), or ``refused``, with the reason.
    """

    execution_id: str
    path: str
    status: str
    outcome: Literal["done", "would", "refused"]
    code: str = ""
    detail: str = ""


class SteeredMany(msgspec.Struct, frozen=True):
    """``more``: the limit cut it; ``next`` is the ``after`` of what is left."""

    executions: list[ControlResult]
    done: int
    refused: int
    dry_run: bool
    more: bool
    next: str | None


class BulkDeps(msgspec.Struct, frozen=True):
    """The dependencies of a bulk request.

    ``publish``: called with each batch of events once the store has committed it. ``clock``: epoch seconds.
    """

    store: ExecutionStore
    catalog: Catalog
    programs: Callable[[str], Program]
    publish: Callable[[Sequence[Event]], None]
    clock: Callable[[], float]


def steer_many(verb: Verb, request: BulkRequest, change: ChangeRequest, deps: BulkDeps) -> SteeredMany:
    """Cancel, pause, resume or redrive every execution that a filter selects.

    The answer states for each execution whether it was refused. Raises InvalidInputError(code="empty_filter", "invalid_filter",
    "invalid_limit" or "invalid_redrive"), and NotFoundError for a version that does not exist.
    """
    if not 1 <= request.limit <= MOST:
        raise InvalidInputError(f"a limit is a number from 1 to {MOST}", code="invalid_limit")
    wanted = _filter_of(verb, request, deps.catalog)
    again = _BulkRedrive(request, deps)
    found, more = _select(request, wanted, deps)
    results: list[ControlResult] = list(_unknown(request, found, more, deps))
    for start in range(0, len(found), BATCH):
        results += _steer(verb, request, change, found[start : start + BATCH], again, deps)
    done = sum(one.outcome != "refused" for one in results)
    last = str(found[-1].execution_id) if more else None
    return SteeredMany(results, done, len(results) - done, request.dry_run, more, last)


# --- which ----------------------------------------------------------------------------------------


def _filter_of(verb: Verb, request: BulkRequest, catalog: Catalog) -> ExecutionFilter:
    many = request.filter
    if many == ManyFilter():
        raise InvalidInputError(
            "the filter names nothing, which would be every execution",
            code="empty_filter",
            hint='such as {"filter": {"status": "failed", "path": "reports/daily"}}',
        )
    free = many.status is None and many.ids is None
    wanted = execution_filter(many, catalog, FITTING[verb] if free else ())
    return msgspec.structs.replace(wanted, pausing=free and verb == "resume")


def execution_filter(many: ManyFilter, catalog: Catalog, statuses: tuple[str, ...] = ()) -> ExecutionFilter:
    """Check ``many`` and return its conditions, without the status.

    Raises InvalidInputError(code="invalid_filter"), and NotFoundError for an unknown version.
    """
    if many.status is not None and many.status not in STATUSES:
        raise _invalid(f"{many.status[:40]!r} is not a status", f"one of {', '.join(STATUSES)}")
    if many.ids is not None and not 1 <= len(many.ids) <= MOST:
        raise _invalid(f"ids is a list of 1 to {MOST} execution ids", "ask for the rest in another request")
    program = None
    if many.version is not None:
        if many.path is None:
            raise _invalid("a version belongs to a path", "name the path as well")
        program = find_playbook(catalog, many.path, many.version).program
    return ExecutionFilter(
        many.path,
        None if many.parent is None else _id(many.parent),
        _moment(many.started_after, "started_after"),
        _moment(many.started_before, "started_before"),
        program,
        None if many.ids is None else tuple(_id(one) for one in many.ids),
        statuses,
        labels=many.labels or {},
        roots=bool(many.roots),
        principal=many.principal,
        error_code=many.error_code,
        text=many.text or None,
    )


def _id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and 0 < int(text) < 2**63):
        raise _invalid(f"{text[:80]!r} is not an execution id", "an id is a number, as text")
    return int(text)


def _moment(text: str | None, name: str) -> float | None:
    if text is None:
        return None
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        return parse_instant(text)
    except InvalidInputError as error:
        raise _invalid(f"{name}: {error.message}", str(error.hint)) from None


def _invalid(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code="invalid_filter", hint=hint)


def _select(
    request: BulkRequest, wanted: ExecutionFilter, deps: BulkDeps
) -> tuple[list[ExecutionInfo], bool]:
    """At most as many as are wanted, and whether there are more."""
    found: list[ExecutionInfo] = []
    status = request.filter.status
    stored = "running" if status in ("waiting", "scheduled") else status
    before = None if request.after is None else _id(request.after)
    while True:
        page = deps.store.executions(limit=BATCH, before=before, status=stored, wanted=wanted)
        now = deps.clock()
        found += [info for info in page if status is None or summarize(info, now).status == status]
        if len(found) > request.limit or len(page) < BATCH:
            return found[: request.limit], len(found) > request.limit
        before = page[-1].execution_id


def _unknown(
    request: BulkRequest, found: Sequence[ExecutionInfo], more: bool, deps: BulkDeps
) -> Iterator[ControlResult]:
    """Yield the ids of the filter that it does not select.

    They are unknown, or another condition excludes them. They come with the last page of the answer.
    """
    if more or not request.filter.ids:
        return
    known = {info.execution_id for info in found}
    for text in dict.fromkeys(request.filter.ids):
        if int(text) in known or (request.after is not None and int(text) >= int(request.after)):
            continue
        info = deps.store.info(int(text))
        if info is None:
            yield ControlResult(text, "", "", "refused", "execution_not_found", "there is no such execution")
        else:
            why = "it does not fit the rest of the filter"
            yield ControlResult(text, info.path, info.status, "refused", "not_in_filter", why)


# --- what ------------------------------------------------------------------------------------------


class _BulkRedrive:
    """What a redrive of many says, checked once."""

    def __init__(self, request: BulkRequest, deps: BulkDeps) -> None:
        self.step = "" if request.from_ == "failure" else request.from_
        parse_address(self.step)
        self.program = ""
        if request.version is not None:
            if request.filter.path is None:
                raise _invalid("a version to continue with needs a path", "name the path in the filter")
            self.program = find_playbook(deps.catalog, request.filter.path, request.version).program


def _steer(
    verb: Verb,
    request: BulkRequest,
    change: ChangeRequest,
    batch: Sequence[ExecutionInfo],
    again: _BulkRedrive,
    deps: BulkDeps,
) -> list[ControlResult]:
    results: dict[int, ControlResult] = {}
    events: list[Event] = []
    shown = statuses(deps.store, batch, deps.clock())
    steering = (
        deps.store.steering([info.execution_id for info in batch]) if verb in ("pause", "resume") else {}
    )
    for info in batch:
        before = accepted_before(steering.get(info.execution_id, ()), event_id(change))
        try:
            event = _event(verb, request, change, info, before, again, deps)
        except NoetlError as error:
            results[info.execution_id] = _result_of(info, shown, error)
            continue
        events.append(event)
        results[info.execution_id] = _result_of(info, shown, None, "would" if request.dry_run else "done")
    if events and not request.dry_run:
        posted = deps.store.post_all(events, change.owner)
        for info in batch:
            problem = _problem(verb, posted.get(info.execution_id))
            if results[info.execution_id].outcome == "done" and problem is not None:
                results[info.execution_id] = _result_of(info, shown, problem)
        deps.publish([event for event in events if results[event.execution_id].outcome == "done"])
    return list(results.values())


def _result_of(
    info: ExecutionInfo,
    shown: Mapping[int, str],
    error: NoetlError | None,
    outcome: Literal["done", "would"] = "done",
) -> ControlResult:
    """Make the answer for each execution. ``shown``: its status as lists show it."""
    status = shown[info.execution_id]
    if error is None:
        return ControlResult(str(info.execution_id), info.path, status, outcome)
    return ControlResult(str(info.execution_id), info.path, status, "refused", error.code, error.message)


def _event(
    verb: Verb,
    request: BulkRequest,
    change: ChangeRequest,
    info: ExecutionInfo,
    before: Sequence[Steering],
    again: _BulkRedrive,
    deps: BulkDeps,
) -> Event:
    """Make the event of one execution.

    Raises ConflictError or InvalidInputError when the request does not fit it.
    """
    if verb == "redrive":
        return redrive_execution.plan(
            deps.store,
            deps.programs,
            info.execution_id,
            change,
            step=again.step,
            program=again.program,
            info=info,
        )
    problem = _problem(verb, Posted(info.status, info.version, True))
    if problem is not None:
        raise problem
    if verb == "cancel":
        return Cancel(
            info.execution_id,
            event_id(change),
            info.program,
            change.reason,
            change.principal,
            request.cascade,
        )
    demand_state(info)
    if verb == "resume":
        if not before and info.status != "paused":
            # A pause that was on its way when it was listed may be applied by now.
            info = deps.store.info(info.execution_id) or info
        check_paused(info, before)
    return steer(Pause if verb == "pause" else Resume, info, change, before, cascade=request.cascade)


def _problem(verb: Verb, posted: Posted | None) -> ConflictError | None:
    """Why an execution that is (or was found to be) like this took no event."""
    if posted is None or posted.status is None:
        return ConflictError(
            "retention or a prune is removing it, or has removed it", code="execution_leaving"
        )
    if (posted.status in TERMINAL) != (verb == "redrive"):
        code = "execution_not_ended" if verb == "redrive" else "execution_ended"
        return ConflictError(f"it is {posted.status}", code=code)
    if posted.version == 0 and verb != "cancel":
        return ConflictError("it has not started yet", code="execution_not_started")
    return None
