"""The engine of a deployment, over Postgres, SQS and S3.

The engine and maintenance functions share it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.frequent_calls import frequent_sqs
from noetl.adapters.aws.gauges import dead_letters
from noetl.adapters.aws.s3 import S3Revocations
from noetl.adapters.aws.sqs import SqsQueue
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.workers import PostgresWorkers
from noetl.adapters.tiered import TieredResults
from noetl.domain.callbacks import proofs
from noetl.domain.errors import InfrastructureError, NoetlError, as_exception
from noetl.domain.workers.direct_requests import DecideRequest, read_request
from noetl.engine.scopes.slot_view import Limits
from noetl.ports.queue import Queue
from noetl.runtime.aws.parts import CloudParts, open_parts
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.sqs_records import batch_answer, deliveries
from noetl.runtime.aws.telemetry import Invocation, telemetry
from noetl.runtime.collector import collect_as_usual
from noetl.runtime.stored_compiler import Compiler
from noetl.runtime.stored_programs import Programs, StoredPrograms
from noetl.services.catalog.find_playbook import find_playbook
from noetl.services.messaging.outside_pools import OutsidePools
from noetl.services.orchestrator.answer_requests import AnsweredRequest, answer_request
from noetl.services.orchestrator.authenticate import MessageAuthenticator
from noetl.services.orchestrator.consume_events import EventBatchResult, MessageDeps, handle_messages
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.publish import Publisher
from noetl.services.orchestrator.snapshot_cache import Recent
from noetl.services.orchestrator.sweep import sweep
from noetl.services.results.hydration import make_hydrate
from noetl.templating import statements as _statements  # noqa: F401  # before the first event: it reads templates

WORKERS = 10
"""Commands of a pool that run at once where the deployment says nothing about it."""


REMEMBERED = 256
"""Snapshots of executions that a process keeps between its invocations: it handles one batch at a time."""

WHOLE_RUNS = 200
"""Up to which step run an execution is read whole, the first time that a process decides it."""
KEPT_SECONDS = 300.0
"""How long a snapshot is good. A restored database, which takes longer, has other executions under the same numbers of versions."""
FRESH_SECONDS = 5.0
"""How long a process decides without reading. A read also returns the store's time, and the workers that fetch commands over HTTP."""


@dataclass(slots=True)
class Engine:
    """Opened once per process."""

    deps: MessageDeps
    database: Database
    results: TieredResults
    events: SqsQueue
    timers: SqsQueue
    dead_events: SqsQueue
    dead_timers: SqsQueue

    def source(self, event: Mapping[str, Any]) -> SqsQueue:
        """Return the queue that invoked this function."""
        name = str(event["Records"][0].get("eventSourceARN", "")).rpartition(":")[2]
        return self.timers if self.timers.name == name else self.events


class CloudEngine:
    """``handle`` is what Lambda invokes. Everything is opened by the first invocation."""

    def __init__(self, settings: CloudSettings) -> None:
        self.settings = settings
        self._opened: Engine | None = None

    def handle(
        self, event: Mapping[str, Any], remaining: Callable[[], float], call: Invocation
    ) -> dict[str, Any]:
        """Handle a batch from the queue of events or of timers; return the partial batch response.

        ``remaining`` returns the seconds left.
        """
        try:
            engine = self.open()
        except InfrastructureError as outage:
            telemetry.log(f"{len(event['Records'])} message(s) are given back: {outage}", level="warning")
            call.count("EventFailures", len(event["Records"]))
            return self._put_off(event)
        try:
            managed = handle_messages(deliveries(event), engine.source(event), engine.deps, remaining)
            if managed.again:
                self.sweep(engine, remaining, call)
        finally:
            self.close()
        report_batch(call, len(event["Records"]), managed, engine.database.round_trips)
        engine.database.round_trips = 0
        return batch_answer(managed.give_back)

    def answer(
        self, event: Mapping[str, Any], remaining: Callable[[], float], call: Invocation
    ) -> dict[str, Any]:
        """Answer a worker that hands outcomes over. An error makes it send them through the queue."""
        request = read_request(event)
        engine = self.open()
        try:
            found = answer_request(request, engine.deps, remaining)
        finally:
            self.close()
        report_answer(call, request, found)
        answer: dict[str, Any] = msgspec.to_builtins(found.answer)
        return answer

    def _put_off(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return a batch to its queue while the engine cannot be opened.

        Without a known queue, the messages come back after the queue's own visibility timeout.
        """
        found = deliveries(event)
        name = str(event["Records"][0].get("eventSourceARN", "")).rpartition(":")[2]
        settings = self.settings
        url = next(
            (one for one in (settings.events_queue, settings.timers_queue) if one.rpartition("/")[2] == name),
            "",
        )
        try:
            for one in found if url else ():
                pause = settings.back_off.after(one.received)
                SqsQueue(url, make_client("sqs"), fifo=True).nack([one], pause)
        except NoetlError as outage:
            telemetry.log(f"they come back when their visibility ends: {outage}", level="warning")
        return batch_answer([one.message_id for one in found])

    def sweep(self, engine: Engine, remaining: Callable[[], float], call: Invocation) -> None:
        """Publish events and commands of dead owners; the next sweep completes an unfinished one."""
        deps = engine.deps
        try:
            swept = sweep(
                deps.engine.store,
                deps.publisher,
                who=deps.who,
                clock=deps.clock,
                deadline=remaining,
            )
        except BaseException as error:
            # The messages of this invocation are done with, whatever comes of the sweep.
            telemetry.log(f"the sweep ends early: {as_exception(error)!r}", level="warning")
            call.count("SweepFailures")
            return
        for name, value in (
            ("SweptCommands", swept.commands),
            ("SweptEvents", swept.events),
            ("SweptTimers", swept.timers),
            ("Unsent", swept.unsent),
        ):
            if value:
                call.count(name, value)

    def open(self) -> Engine:
        if self._opened is None:
            self._opened = open_engine(self.settings, open_parts(self.settings))
            collect_as_usual()
        return self._opened

    def close(self) -> None:
        if self.settings.close_connections and self._opened is not None:
            self._opened.database.close()


def open_engine(settings: CloudSettings, parts: CloudParts) -> Engine:
    """Wire the engine over ``parts``. Connects to nothing yet."""
    s3, sqs = make_client("s3"), frequent_sqs()
    store, results, catalog, keys = parts.store, parts.results, parts.catalog, parts.keys
    stored = parts.stored_programs
    programs = Programs(StoredPrograms(stored), catalog, Compiler(stored), telemetry.log)
    limit = settings.message_limit
    timers = SqsQueue(settings.timers_queue, sqs, fifo=False, limit=limit)

    dead_events = SqsQueue(dead_letters(settings.events_queue), sqs, fifo=True)
    dead_timers = SqsQueue(dead_letters(settings.timers_queue), sqs, fifo=False)

    @cache
    def commands(worker: str) -> Queue:
        return SqsQueue(settings.queue_prefix + worker, sqs, fifo=False, limit=limit)

    publisher = Publisher(
        store=store,
        results=results,
        events=parts.events,
        timers=timers,
        commands=commands,
        workers=settings.queues,
        programs=programs,
        keys=keys,
        clock=time.time,
        limit=limit,
        log=telemetry.log,
        fetched=OutsidePools(store, time.time),
        digests=programs.digest,
    )
    engine = EngineDeps(
        store=store,
        results=results,
        programs=programs,
        resolve=lambda path, version: find_playbook(catalog, path, version).program,
        hydrate=make_hydrate(results),
        limits=Limits(inline_bytes=settings.inline_limit, tier=results.name),
        workers=_concurrency(settings.workers),
        credentials=parts.credential_names(settings.credentials_prefix),
        proofs=lambda found: proofs(found, keys(False)),
        log=telemetry.log,
        recent=Recent(count=REMEMBERED, age=FRESH_SECONDS, whole=WHOLE_RUNS, kept=KEPT_SECONDS),
    )

    deps = MessageDeps(
        door=MessageAuthenticator(store, results, keys, time.time, telemetry.log),
        engine=engine,
        publisher=publisher,
        revocations=S3Revocations(settings.results_bucket, s3),
        clock=time.time,
        who=os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "engine"),
        log=telemetry.log,
        back_off=settings.back_off,
        leases=PostgresWorkers(parts.database),
        dead_letters=lambda queue: dead_events if queue is parts.events else dead_timers,
    )
    return Engine(deps, parts.database, results, parts.events, timers, dead_events, dead_timers)


def _concurrency(workers: Mapping[str, int]) -> Callable[[str], int]:
    """Return the function that maps a pool to how many of its commands run at once.

    A worker has the name of its pool, or of a kind in it.
    """
    most = max(workers.values(), default=WORKERS)
    return lambda pool: max(1, workers.get(pool, most))


def report_batch(call: Invocation, messages: int, managed: EventBatchResult, round_trips: int) -> None:
    """Say in the line of an invocation what it did with a batch of the queue."""
    _report(call, managed)
    call.note(messages=messages, given_back=len(managed.give_back), round_trips=round_trips)


def report_answer(call: Invocation, request: DecideRequest, found: AnsweredRequest) -> None:
    """Say in the line of an invocation what it answered to a worker."""
    _report(call, found.managed)
    call.note(
        handed=found.handed,
        left=len(found.answer.left),
        held=len(request.held),
        returned=found.returned,
    )


def _report(call: Invocation, managed: EventBatchResult) -> None:
    """Note the work, and count the trouble."""
    call.about(managed.executions)
    call.note(events=managed.events, followed=managed.followed, commands=managed.commands)
    for name, value in (
        ("RefusedEvents", managed.refused),
        ("EventFailures", managed.failures),
        ("LaidAside", managed.laid_aside),
        ("FailedExecutions", managed.failed),
        ("Unsent", managed.unsent),
    ):
        if value:
            call.count(name, value)
