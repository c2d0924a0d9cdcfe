"""Schedules and triggers of a deployment.

The events of EventBridge and queues become executions, whose Start events are published to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.adapters.postgres.trigger_store import PostgresTriggerStore
from noetl.domain.errors import InfrastructureError
from noetl.runtime.aws.parts import CloudParts, open_parts
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.sqs_records import batch_answer
from noetl.runtime.aws.telemetry import Invocation, telemetry
from noetl.runtime.deployed_catalog import Registrar
from noetl.runtime.id_source import random_bits
from noetl.runtime.stored_programs import Programs, StoredPrograms
from noetl.services.automations.ingest_triggers import TriggerBatchDeps, TriggerBatchResult, take
from noetl.services.executions.start_playbook import StartDeps
from noetl.services.messaging.send_events import EventSender
from noetl.services.support.store_time import store_clock


@dataclass(slots=True)
class CloudScheduler:
    """The scheduler function of a deployment.

    ``deps``: made once, when the first invocation needs them. ``close``: drops connections, for databases that pause.
    """

    deps: Callable[[], tuple[TriggerBatchDeps, EventSender]]
    close: Callable[[], None] = lambda: None

    def handle(self, event: Mapping[str, Any], call: Invocation) -> dict[str, Any] | None:
        """Start what ``event`` asks for; return the partial batch response for a batch.

        Raises what ``take`` raises: EventBridge tries again, and keeps what was not started in the end in the dead-letter queue.
        """
        try:
            deps, sender = self.deps()
            owner = sender.owner()
            taken = take(event, replace(deps, start=replace(deps.start, owner=owner)))
            self._publish(sender, owner, taken)
        finally:
            self.close()
        call.about(taken.executions)
        call.note(starts=len(taken.events), repeats=len(taken.executions) - len(taken.events))
        if taken.give_back is None:
            return None
        call.note(given_back=len(taken.give_back))
        return batch_answer(taken.give_back)

    @staticmethod
    def _publish(sender: EventSender, owner: str, taken: TriggerBatchResult) -> None:
        """They are durable: what cannot be sent now is sent by maintenance."""
        try:
            sender.events(owner, taken.events)
        except InfrastructureError as error:
            telemetry.log(f"{len(taken.events)} start(s) are left for maintenance to publish: {error}")


def open_scheduler(settings: CloudSettings) -> CloudScheduler:
    """Make the scheduler, without connecting yet."""
    opened: list[tuple[TriggerBatchDeps, EventSender]] = []
    databases: list[Database] = []

    def deps() -> tuple[TriggerBatchDeps, EventSender]:
        if not opened:
            parts = open_parts(settings)
            databases.append(parts.database)
            opened.append(_open(settings, parts))
        return opened[0]

    def close() -> None:
        if settings.close_connections:
            for database in databases:
                database.close()

    return CloudScheduler(deps, close)


def _open(settings: CloudSettings, parts: CloudParts) -> tuple[TriggerBatchDeps, EventSender]:
    stored, catalog = parts.stored_programs, parts.catalog
    start = StartDeps(
        store=parts.store,
        catalog=catalog,
        programs=Programs(StoredPrograms(stored), catalog, Registrar(catalog, stored), telemetry.log),
        owner="",
        clock=store_clock(parts.store.load),
        random_bits=random_bits,
    )
    schedules = PostgresScheduleStore(parts.database)
    sender = parts.sender("scheduler", settings.message_limit)
    return TriggerBatchDeps(
        start, schedules, PostgresTriggerStore(parts.database), settings.trigger_queues, telemetry.log
    ), sender
