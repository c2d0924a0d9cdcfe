"""The versions of a server, and its diagnostics.

These are one document to pass on: without secrets, without data of executions.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, TypeVar

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.machine_report import MachineReport
from noetl.api.http.route import Route
from noetl.domain import codec
from noetl.domain.errors import NoetlError
from noetl.domain.text.timestamps import Timestamp
from noetl.services.queries.execution_figures import FailureView, read_failures, window
from noetl.services.queries.limits import list_limits

API_VERSION = "1"
"""The version of the API, which docs/openapi.json has, too."""
_EXECUTIONS = 1000
"""Executions that are counted, the newest ones."""
_FAILURES = 20
_LIMITS = 100
_Part = TypeVar("_Part")
_PRIVATE = {"Cache-Control": "no-store"}


class VersionAnswer(msgspec.Struct, frozen=True):
    """The versions of a server.

    ``server``: of NoETL; empty where its code was deployed without its package. ``api``: of these routes. ``system``: what both run on.
    """

    server: str
    api: str
    python: str
    system: str


class LimitUse(msgspec.Struct, frozen=True):
    key: str
    concurrent: int | None
    rate: float | None
    in_use: int
    waiting: int


class WorkerUse(msgspec.Struct, frozen=True):
    name: str
    pool: str
    capacity: int
    running: int
    alive: bool


class DiagnosticsAnswer(msgspec.Struct, frozen=True):
    """The state of a server in one document.

    ``ready``: as `/ready` answers. ``machine``: null on a deployment. ``executions``: the newest by status. ``failures``: of the last
    24 hours, by playbook and code. ``unread``: what could not be read, with the code of the error.
    """

    made_at: Timestamp
    version: VersionAnswer
    ready: dict[str, str]
    machine: MachineReport | None
    queues: dict[str, Any]
    executions: dict[str, int]
    failures: list[FailureView]
    limits: list[LimitUse]
    workers: list[WorkerUse]
    unread: dict[str, str]


def version_of_server() -> VersionAnswer:
    try:
        server = metadata.version("noetl-serverless")
    except metadata.PackageNotFoundError:
        server = ""
    return VersionAnswer(
        server, API_VERSION, platform.python_version(), f"{platform.system()} {platform.machine()}"
    )


def get_version(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, version_of_server())


def get_diagnostics(deps: ApiDeps, request: Request) -> Answer:
    """Gather what can be read: this is asked for when something is broken."""
    parts = _Parts(deps.log)
    found = DiagnosticsAnswer(
        Timestamp(deps.clock()),
        version_of_server(),
        {name: _ready(check) for name, check in deps.checks.items()},
        parts.read("machine", lambda: None if deps.machine is None else deps.machine(), None),
        parts.read("queues", lambda: _queues(deps), {}),
        parts.read("executions", lambda: dict(deps.store.status_counts(_EXECUTIONS)), {}),
        parts.read("failures", lambda: _failures(deps), []),
        parts.read("limits", lambda: _limits(deps), []),
        parts.read("workers", lambda: _workers(deps), []),
        parts.unread,
    )
    return Answer(200, found, headers=_PRIVATE)


class _Parts:
    """Reader of parts that may fail; ``unread`` has the codes of those that did."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self.unread: dict[str, str] = {}

    def read(self, name: str, part: Callable[[], _Part], otherwise: _Part) -> _Part:
        try:
            return part()
        except NoetlError as error:
            self.unread[name] = error.code
            self._log(f"diagnostics without {name}: {error}")
            return otherwise


def _ready(check: Callable[[], None]) -> str:
    try:
        check()
    except NoetlError as error:
        return error.code
    return "ok"


def _queues(deps: ApiDeps) -> dict[str, Any]:
    """Count what waits; leases name executions, and are left out."""
    found = deps.inspection.outstanding()
    counts: Mapping[str, Any] = {
        "queues": list(deps.gauges()),
        "pools": list(found.pools),
        "leases": len(found.leases),
        "events": found.events,
        "timers": found.timers,
    }
    plain: dict[str, Any] = codec.plain(counts)
    return plain


def _failures(deps: ApiDeps) -> list[FailureView]:
    return read_failures(deps.store, window(None, None, None, deps.clock()), _FAILURES).failures


def _limits(deps: ApiDeps) -> list[LimitUse]:
    found = list_limits(deps.store, limit=_LIMITS)
    return [LimitUse(one.key, one.concurrent, one.rate, one.in_use, one.waiting) for one in found]


def _workers(deps: ApiDeps) -> list[WorkerUse]:
    if deps.workers is None:
        return []
    return [
        WorkerUse(one.name, one.pool, one.capacity, one.running, one.alive) for one in deps.workers.entries()
    ]


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/version",
        "getVersion",
        "The versions of the server and of its API.",
        "read",
        get_version,
        {200: VersionAnswer},
        "state",
    ),
    Route(
        "GET",
        "/api/diagnostics",
        "getDiagnostics",
        "The state of the server in one document, to be passed on: versions, checks, settings, counts. No secret, no data of executions.",
        "admin",
        get_diagnostics,
        {200: DiagnosticsAnswer},
        "state",
    ),
)
