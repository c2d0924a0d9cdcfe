"""Every route: what it is called with, which scope it needs, what it answers. The resolver, the checks of access, the OpenAPI document and
the tests read this one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl.api import bodies
from noetl.api.deps import ApiDeps
from noetl.api.endpoints import catalog, control, executions, schedules, state
from noetl.api.exchange import Answer, Request
from noetl.domain.vocabulary import VOCABULARIES
from noetl.services.manage_schedules import MAX_NEXT, ScheduleView, ScheduleWish
from noetl.services.read_execution import STATUSES

Endpoint = Callable[[ApiDeps, Request], Answer]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter."""

    name: str
    about: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Route:
    """``path``: ``{name}`` is one segment, ``{name+}`` all the rest. ``scope`` None: open to everybody. ``endpoint`` None: answered without
    anything from outside. ``answers``: status → shape. ``yaml``: the body may be a playbook's text instead. ``keyed``: takes an
    Idempotency-Key."""

    method: str
    path: str
    name: str
    about: str
    scope: str | None
    endpoint: Endpoint | None
    answers: Mapping[int, Any]
    tag: str
    query: tuple[Parameter, ...] = ()
    body: Any = None
    yaml: bool = False
    keyed: bool = False


def _limit(default: int, most: int) -> Parameter:
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Parameter("limit", "Most entries of the page.", schema)


_AFTER = Parameter("after", "The `next` of the page before.")
_VERSION = Parameter("version", "A version's number; the latest without it.")
_STATUS = Parameter("status", "Only executions of this status.", {"type": "string", "enum": list(STATUSES)})
_VOCABULARY = Parameter(
    "vocabulary",
    "Names of events: as they are stored, the formal or the canonical ones.",
    {"type": "string", "enum": list(VOCABULARIES), "default": "stored"},
)
_COUNT = Parameter(
    "count", "How many moments.", {"type": "integer", "minimum": 1, "maximum": MAX_NEXT, "default": 5}
)
_ONE = "/api/executions/{execution_id}"
_SCHEDULE = "/api/schedules/{name}"


def _start(path: str, name: str) -> Route:
    return Route(
        "POST",
        path,
        name,
        "Start an execution. It is durable when this answers; the same Idempotency-Key with the same body gives the same answer.",
        "execute",
        executions.start,
        {201: bodies.StartedAnswer},
        "executions",
        body=bodies.StartBody,
        keyed=True,
    )


def _schedule(
    method: str, path: str, name: str, about: str, scope: str, endpoint: Endpoint, answer: Any, **more: Any
) -> Route:
    return Route(method, path, name, about, scope, endpoint, {200: answer}, "schedules", **more)


SCHEDULE_ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/schedules",
        "putSchedule",
        "Make a schedule, or replace the one of this name. Those that playbooks declare are changed there.",
        "write",
        schedules.put,
        {201: ScheduleView, 200: ScheduleView},
        "schedules",
        body=ScheduleWish,
    ),
    _schedule(
        "GET",
        "/api/schedules",
        "listSchedules",
        "What starts by itself, by name.",
        "read",
        schedules.list_schedules,
        bodies.SchedulePage,
        query=(_AFTER, _limit(100, 500)),
    ),
    _schedule("GET", _SCHEDULE, "getSchedule", "A schedule.", "read", schedules.get, ScheduleView),
    _schedule(
        "GET",
        f"{_SCHEDULE}/next",
        "getScheduleNext",
        "When it fires next.",
        "read",
        schedules.get_next,
        bodies.NextAnswer,
        query=(_COUNT,),
    ),
    _schedule(
        "POST",
        f"{_SCHEDULE}/pause",
        "pauseSchedule",
        "Start nothing by it until it is resumed.",
        "write",
        schedules.pause,
        ScheduleView,
    ),
    _schedule(
        "POST",
        f"{_SCHEDULE}/resume",
        "resumeSchedule",
        "Fire again from now on; what was missed stays missed.",
        "write",
        schedules.resume,
        ScheduleView,
    ),
    _schedule(
        "DELETE",
        _SCHEDULE,
        "deleteSchedule",
        "Forget it. One that a playbook declares comes back when that is registered again.",
        "write",
        schedules.delete,
        bodies.DeletedAnswer,
    ),
)

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/catalog/register",
        "registerPlaybook",
        "Register a playbook. A new version is made only when its content changed; an invalid one is refused with every diagnostic.",
        "write",
        catalog.register,
        {201: bodies.RegisteredAnswer, 200: bodies.RegisteredAnswer},
        "catalog",
        query=(
            Parameter("path", "For a body that is YAML: the path instead of the one it names."),
            Parameter("source_name", "For a body that is YAML: the file name that diagnostics print."),
        ),
        body=bodies.RegisterBody,
        yaml=True,
    ),
    Route(
        "GET",
        "/api/catalog",
        "listPlaybooks",
        "The latest version of every registered playbook.",
        "read",
        catalog.list_playbooks,
        {200: bodies.PlaybookPage},
        "catalog",
        query=(_AFTER, _limit(100, 500)),
    ),
    Route(
        "GET",
        "/api/catalog/{path+}",
        "getPlaybook",
        "A registered playbook with its text.",
        "read",
        catalog.get_playbook,
        {200: bodies.PlaybookAnswer},
        "catalog",
        query=(_VERSION,),
    ),
    _start("/api/execute", "execute"),
    _start("/api/executions", "startExecution"),
    Route(
        "GET",
        "/api/executions",
        "listExecutions",
        "Executions, newest first.",
        "read",
        executions.list_executions,
        {200: bodies.ExecutionPage},
        "executions",
        query=(_STATUS, _AFTER, _limit(50, 500)),
    ),
    Route(
        "GET",
        _ONE,
        "getExecution",
        "An execution with its steps.",
        "read",
        executions.get_execution,
        {200: bodies.ExecutionAnswer},
        "executions",
    ),
    Route(
        "GET",
        f"{_ONE}/status",
        "getExecutionStatus",
        "Where an execution stands; cheap enough to poll.",
        "read",
        executions.get_status,
        {200: bodies.StatusAnswer},
        "executions",
    ),
    Route(
        "GET",
        f"{_ONE}/events",
        "getExecutionEvents",
        "The history of an execution, page by page. A page ends with a stored row, so it may hold a few events more than its limit.",
        "read",
        executions.get_events,
        {200: bodies.EventPage},
        "executions",
        query=(_AFTER, _limit(200, 1000), _VOCABULARY),
    ),
    Route(
        "GET",
        f"{_ONE}/steps",
        "getExecutionSteps",
        "The step runs of an execution, in the order they began.",
        "read",
        executions.get_steps,
        {200: bodies.StepPage},
        "executions",
        query=(_AFTER, _limit(200, executions.STEPS)),
    ),
    Route(
        "GET",
        f"{_ONE}/result",
        "getExecutionResult",
        "What a completed execution gave; what is too large for an answer can be downloaded. 409 while it runs, and when it failed.",
        "read",
        executions.get_result,
        {200: bodies.ResultAnswer},
        "executions",
    ),
    Route(
        "POST",
        f"{_ONE}/cancel",
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
        f"{_ONE}/ctx",
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
        f"{_ONE}/tokens",
        "injectToken",
        "Let a step of a running execution run, with these arguments.",
        "execute",
        control.inject_token,
        {202: bodies.AcceptedAnswer},
        "control",
        body=bodies.TokenBody,
        keyed=True,
    ),
    *SCHEDULE_ROUTES,
    Route(
        "GET",
        "/api/queue",
        "getQueues",
        "How full the queues are, and how many messages were given up.",
        "read",
        state.get_queues,
        {200: bodies.QueuesAnswer},
        "state",
    ),
    Route(
        "GET",
        "/health",
        "health",
        "Whether this function runs. The database is not asked.",
        None,
        None,
        {200: bodies.HealthAnswer},
        "state",
    ),
    Route(
        "GET",
        "/ready",
        "ready",
        "Whether everything a request needs can be reached, and the database is migrated.",
        None,
        state.ready,
        {200: bodies.ReadyAnswer, 503: bodies.ReadyAnswer},
        "state",
    ),
    Route(
        "GET",
        "/openapi.json",
        "openapi",
        "This document.",
        None,
        None,
        {200: dict[str, Any]},
        "state",
    ),
)
