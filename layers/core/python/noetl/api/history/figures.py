"""Routes of figures about many executions."""

from __future__ import annotations

from typing import Annotated

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.api.http.route import Parameter, Route, limit
from noetl.ports.executions.figures import EndedWindow
from noetl.services.queries.execution_figures import (
    Activity,
    FailuresAnswer,
    Stats,
    read_activity,
    read_failures,
    read_stats,
    window,
)

_HOUR, _SHORTEST, _LONGEST = 3_600, 60, 86_400
_GROUPS, _MOST_GROUPS = 50, 500
_MOST_PATHS = 500


class ActivityBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``paths``: the playbooks whose endings are counted."""

    paths: Annotated[list[str], msgspec.Meta(min_length=1, max_length=_MOST_PATHS)]


def stats(deps: ApiDeps, request: Request) -> Answer:
    """Answer how executions ended over time."""
    return Answer(200, read_stats(deps.store, _window(deps, request), _bucket_seconds(request)))


def activity(deps: ApiDeps, request: Request) -> Answer:
    """Answer how executions of several playbooks ended over time."""
    paths = parse.body(request, deps, ActivityBody).paths
    return Answer(200, read_activity(deps.store, _window(deps, request), paths, _bucket_seconds(request)))


def _bucket_seconds(request: Request) -> int:
    text = request.query.get("bucket", str(_HOUR))
    seconds = parse.whole_number(text)
    if seconds is None or not _SHORTEST <= seconds <= _LONGEST:
        raise BadRequestError(
            f"bucket={text[:40]!r} is not a number of seconds from {_SHORTEST} to {_LONGEST}",
            code="invalid_parameter",
            hint="such as bucket=3600 for hours",
        )
    return seconds


def failures(deps: ApiDeps, request: Request) -> Answer:
    """Answer what failed, by playbook and code."""
    groups = parse.limit(request, _GROUPS, _MOST_GROUPS)
    return Answer(200, read_failures(deps.store, _window(deps, request), groups))


def _window(deps: ApiDeps, request: Request) -> EndedWindow:
    since, until = parse.moment(request, "ended_after"), parse.moment(request, "ended_before")
    return window(since, until, request.query.get("path"), deps.clock())


_TIMES = (
    Parameter(
        "ended_after",
        "Ended from this moment on: RFC 3339, or seconds since 1970; 24 hours before the end without it.",
    ),
    Parameter("ended_before", "Ended before this moment; until now without it."),
)
_WINDOW = (Parameter("path", "Only executions of this playbook."), *_TIMES)
_BUCKET = {"type": "integer", "minimum": _SHORTEST, "maximum": _LONGEST, "default": _HOUR}

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/executions/stats",
        "getExecutionStats",
        "How executions that no other one started ended over time: counts, and the median and 95th percentile of durations, by bucket.",
        "read",
        stats,
        {200: Stats},
        "executions",
        query=(*_WINDOW, Parameter("bucket", "Seconds of a bucket.", _BUCKET)),
    ),
    Route(
        "POST",
        "/api/executions/activity",
        "getPlaybookActivity",
        "How executions of several playbooks that no other one started ended over time: counts and failures, by playbook and bucket.",
        "read",
        activity,
        {200: Activity},
        "executions",
        query=(*_TIMES, Parameter("bucket", "Seconds of a bucket.", _BUCKET)),
        body=ActivityBody,
    ),
    Route(
        "GET",
        "/api/executions/failures",
        "listFailures",
        "Failures of executions that no other one started, by playbook and error code, the most frequent first.",
        "read",
        failures,
        {200: FailuresAnswer},
        "executions",
        query=(*_WINDOW, limit(_GROUPS, _MOST_GROUPS)),
    ),
)
