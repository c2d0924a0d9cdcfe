"""The API as a function: its routes over Postgres, SQS and S3.

The first request that needs a connection opens it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.gauges import read_gauges
from noetl.adapters.aws.kms import KmsCipher
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.credential_store import PostgresCredentialStore
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.adapters.postgres.saved_views import PostgresSavedViews
from noetl.adapters.postgres.variables import PostgresVariables
from noetl.adapters.postgres.workers import PostgresWorkers
from noetl.api.deps import ApiDeps
from noetl.api.http.dispatch import Api
from noetl.api.http.gateway import make_resolver
from noetl.api.http.waiting import Waiting
from noetl.domain.callbacks import shown_path
from noetl.domain.events import Start
from noetl.runtime.aws.database import history_sql
from noetl.runtime.aws.deliveries import CloudDeliveries, letter_queues
from noetl.runtime.aws.events import events_in
from noetl.runtime.aws.parts import CloudParts, open_parts, task_logs
from noetl.runtime.aws.readiness import pools, queue_urls, readiness
from noetl.runtime.aws.rest_events import as_http_api, as_rest_answer, at_emulator, is_of_rest
from noetl.runtime.aws.results import make_link
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import Invocation, telemetry
from noetl.runtime.collector import collect_as_usual
from noetl.runtime.deployed_catalog import Registrar, schedule_deps, trigger_deps
from noetl.runtime.id_source import new_id
from noetl.runtime.retention import prune_deps
from noetl.runtime.stored_programs import Programs, StoredPrograms
from noetl.services.automations.schedules import declared
from noetl.services.credentials.credentials import CredentialDeps
from noetl.services.credentials.oauth_tokens import make_exchange
from noetl.services.executions.direct_starts import DecidedStarts, DirectStarts
from noetl.services.messaging.backpressure import Backpressure
from noetl.services.messaging.send_events import EventSender
from noetl.services.orchestrator.authenticate import MessageAuthenticator
from noetl.services.worker.http_worker_leases import Claims

if TYPE_CHECKING:  # the engine is loaded by the first start
    from noetl.services.orchestrator.consume_events import MessageDeps

WAIT_SECONDS = 24.0
"""Seconds within which a request that waits is answered. The function has 29: this leaves time to read a result."""
FIRST_LOOK_SECONDS, NEXT_LOOK_SECONDS = 0.03, 0.008
"""When a request that waits first looks at its execution, and how long after that again: a short one has ended soon after."""
SLOWER = 1.12
"""By how much it looks less often each time: about fifty looks in the longest time, and none late by more than an eighth."""
_EXECUTION = re.compile(r"/api/executions/(\d{1,19})(?:/|$)", re.ASCII)


@dataclass(slots=True)
class CloudApi:
    """``handle`` is what API Gateway calls."""

    settings: CloudSettings
    _database: Database | None = None
    _deps: ApiDeps | None = None
    _call: Invocation | None = None
    _resolve: Callable[[dict[str, Any], Any], dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self._resolve = make_resolver(
            Api(
                self.deps,
                settings.auth,
                settings.scopes,
                settings.deployment,
                telemetry.log,
                settings.worker_roles,
            )
        )

    def handle(self, event: dict[str, Any], context: Any, call: Invocation) -> dict[str, Any]:
        """Answer one request, and record its result in ``call``."""
        self._call = call
        of_rest = is_of_rest(event)
        event = as_http_api(event) if of_rest else at_emulator(event, os.environ.get("AWS_ENDPOINT_URL", ""))
        before = self._kms_calls()
        try:
            answer = self._resolve(event, context)
        finally:
            if self.settings.close_connections and self._database is not None:
                self._database.close()
        report(call, event, answer)
        self._count("KmsCalls", self._kms_calls() - before)
        return as_rest_answer(answer) if of_rest else answer

    def _kms_calls(self) -> int:
        cipher = self._deps.credentials.cipher if self._deps is not None else None
        return cipher.calls if isinstance(cipher, KmsCipher) else 0

    def _count(self, name: str, value: float) -> None:
        """A function answers one request at a time."""
        if self._call is not None and value:
            self._call.count(name, value)

    def deps(self) -> ApiDeps:
        """Opened once. Raises InvalidInputError and InfrastructureError."""
        if self._deps is None:
            settings = self.settings
            parts = open_parts(settings)
            self._database = parts.database
            self._deps = _deps(settings, parts, self._count)
            collect_as_usual()
        return self._deps


def open_api(settings: CloudSettings) -> CloudApi:
    """Make the API without connecting: it answers health even when all else is unavailable."""
    return CloudApi(settings)


def _deps(settings: CloudSettings, parts: CloudParts, counted: Callable[[str, float], None]) -> ApiDeps:
    catalog, stored = parts.catalog, parts.stored_programs
    registrar = Registrar(catalog, stored)
    programs = Programs(StoredPrograms(stored), catalog, registrar, telemetry.log)
    schedules = schedule_deps(settings, parts.database, catalog, programs)
    inspection, lines = PostgresInspection(parts.database), task_logs(settings.results_bucket)
    sender = parts.sender("api", settings.message_limit)
    starts = _direct_starts(settings, parts, sender, counted) if settings.direct_starts else None
    claims = Claims(PostgresWorkers(parts.database), parts.store, pools(settings), keeps_pools=True)
    return ApiDeps(
        store=parts.store,
        catalog=catalog,
        schedules=schedules,
        triggers=trigger_deps(settings, parts.database, catalog, parts.keys),
        variables=PostgresVariables(parts.database),
        saved_views=PostgresSavedViews(parts.database),
        inspection=inspection,
        credentials=_credentials(settings, parts.database),
        events=events_in(
            MessageAuthenticator(parts.store, parts.results, parts.keys, time.time, telemetry.log),
            parts.database,
            parts.events,
            limit=settings.message_limit,
            refused=lambda reason: counted("RefusedEvents", 1),
            renew_lease=claims.renew_lease,
        ),
        counted=counted,
        waiting=Waiting(
            longest=WAIT_SECONDS,
            first_pause=FIRST_LOOK_SECONDS,
            next_pause=NEXT_LOOK_SECONDS,
            slower=SLOWER,
        ),
        history_sql=history_sql(settings),
        workers=claims,
        names=parts.credential_names(settings.credentials_prefix),
        results=parts.results,
        prune=prune_deps(parts.database, parts.results, lines, settings.retention),
        task_logs=lines,
        programs=programs,
        compile=registrar.compile,
        kinds=registrar.kinds,
        keep=registrar.keep,
        publisher=starts or sender,
        begin=starts.begin if starts else None,
        link=make_link(parts.results),
        pressure=Backpressure(
            inspection.backlog,
            settings.backlog_limit,
            time.monotonic,
            lambda reason: counted("BacklogRefusals", 1),
        ),
        gauges=lambda: read_gauges(make_client("sqs"), queue_urls(settings)),
        checks=readiness(settings),
        deliveries=CloudDeliveries(settings, parts.results),
        letter_queues=letter_queues(settings),
        clock=time.time,
        reconnect=parts.database.close,
        keys=parts.keys,
        workspace=settings.workspace,
        public_url=settings.public_url,
        inline_bytes=settings.inline_limit,
        registered=declared(schedules),
        log=telemetry.log,
    )


def _direct_starts(
    settings: CloudSettings, parts: CloudParts, sender: EventSender, counted: Callable[[str, float], None]
) -> DirectStarts:
    """Starts that this function decides itself. The engine is loaded by the first of them."""

    @cache
    def engine() -> MessageDeps:
        from noetl.runtime.aws.engine import open_engine

        opened = open_engine(settings, parts)
        collect_as_usual()
        return opened.deps

    def decide(starts: Sequence[Start], deadline: Callable[[], float]) -> DecidedStarts:
        from noetl.services.orchestrator.answer_requests import begin_executions

        begun = begin_executions(starts, engine(), deadline)
        counted("FailedExecutions", begun.failed)
        return begun

    return DirectStarts(decide, sender, time.monotonic, telemetry.log)


def _credentials(settings: CloudSettings, database: Database) -> CredentialDeps:
    """Sealed with data keys of KMS, under the deployment's key for secrets."""
    return CredentialDeps(
        PostgresCredentialStore(database),
        KmsCipher(settings.kms_key, make_client("kms"), shared=frozenset({"purpose"})),
        make_exchange(settings.http_allow),
        new_id,
    )


def report(call: Invocation, event: dict[str, Any], answer: dict[str, Any]) -> None:
    """Note the request, its answer and its execution for the log line of the invocation."""
    http = (event.get("requestContext") or {}).get("http") or {}
    status = int(answer["statusCode"])
    call.note(method=http.get("method"), path=shown_path(str(event.get("rawPath") or "")), status=status)
    if status >= 500:
        call.count("ServerErrors")
    location = (answer.get("headers") or {}).get("Location", "")
    found = _EXECUTION.match(str(location)) or _EXECUTION.match(str(event.get("rawPath") or ""))
    if found:
        call.about([int(found[1])])
