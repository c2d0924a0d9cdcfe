"""Maintenance of a deployment: sweeps, unfinished work, and dead letters of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.adapters.postgres.credential_store import PostgresCredentialStore
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.domain.errors import InfrastructureError
from noetl.runtime.aws.dead_letters import LIST, RETRY, CloudDeadLetters
from noetl.runtime.aws.engine import CloudEngine, Engine
from noetl.runtime.aws.events import events_in
from noetl.runtime.aws.parts import task_logs
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.sqs_records import batch_answer, deliveries
from noetl.runtime.aws.telemetry import Invocation, telemetry
from noetl.runtime.retention import prune_deps, tidy_deployment
from noetl.services.orchestrator.fail_dead_commands import bury
from noetl.services.orchestrator.ingest_worker_events import resume_batches
from noetl.services.orchestrator.select_worker import worker_of
from noetl.services.orchestrator.sweep import MARGIN_SECONDS

MOST_COUNTED = 1_000_000


class CloudMaintenance:
    """``handle`` is what Lambda invokes."""

    def __init__(self, settings: CloudSettings) -> None:
        self._settings = settings
        self._engine = CloudEngine(settings)
        self._dead = CloudDeadLetters(settings)

    def handle(
        self, event: Mapping[str, Any], remaining: Callable[[], float], call: Invocation
    ) -> dict[str, Any]:
        """Handle a tick, dead letters of commands, or an operator's request about dead letters.

        Return the partial batch response (empty for a tick), or the answer to the operator.
        """
        try:
            engine = self._engine.open()
            if event.get("noetl") in (LIST, RETRY):
                return self._dead.answer_operator(event, engine, remaining)
            if "Records" not in event:
                self._engine.sweep(engine, remaining, call)
                self._resume_batches(engine, call)
                self._dead.send_back(engine, remaining, call)
                _report_backlog(engine, call)
                gone = tidy_deployment(
                    PostgresCredentialStore(engine.database),
                    prune_deps(
                        engine.database,
                        engine.results,
                        task_logs(self._settings.results_bucket),
                        self._settings.retention,
                    ),
                    lambda: remaining() > MARGIN_SECONDS,
                    telemetry.log,
                )
                _count(call, PrunedExecutions=gone)
                call.count("Heartbeats")
                return batch_answer(())
            buried = bury(
                deliveries(event),
                programs=engine.deps.engine.programs,
                results=engine.results,
                events=engine.events,
                limit=self._settings.message_limit,
                worker=lambda command: worker_of(
                    command, engine.deps.engine.programs(command.program), self._settings.queues
                ),
                log=telemetry.log,
            )
        finally:
            self._engine.close()
        call.about(buried.executions)
        call.count("CommandsLost", buried.lost)
        call.count("RefusedMessages", buried.unreadable)
        return batch_answer(buried.give_back)

    def _resume_batches(self, engine: Engine, call: Invocation) -> None:
        """Resume batches of events that a function accepted and did not handle."""
        door = events_in(
            engine.deps.door,
            engine.database,
            engine.events,
            limit=self._settings.message_limit,
            refused=lambda reason: call.count("RefusedEvents"),
            renew_lease=lambda execution_id, command_id, attempt, turn: True,
        )
        try:
            if found := resume_batches(door):
                call.count("ResumedBatches", found)
        except InfrastructureError as outage:
            telemetry.log(
                f"batches of events that were left wait for the next tick: {outage}", level="warning"
            )


def _report_backlog(engine: Engine, call: Invocation) -> None:
    """Report the backlog for the dashboard."""
    try:
        found = PostgresInspection(engine.database).backlog(MOST_COUNTED)
    except InfrastructureError as outage:
        telemetry.log(f"what waits could not be counted: {outage}", level="warning")
        return
    _count(call, BacklogEvents=found.events, BacklogCommands=found.commands)


def _count(call: Invocation, **metrics: int) -> None:
    """Count what is not zero: a metric is paid by the hour in which it is sent."""
    for name, value in metrics.items():
        if value:
            call.count(name, value)
