"""Maintenance of a deployment: sweeps, and the dead letters of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.adapters.postgres.credential_store import PostgresCredentialStore
from noetl.runtime.cloud_engine import CloudEngine
from noetl.runtime.cloud_settings import CloudSettings
from noetl.runtime.retention import prune_deps, tidy_deployment
from noetl.runtime.sqs_records import batch_answer, deliveries
from noetl.runtime.telemetry import Invocation, telemetry
from noetl.services.bury import bury
from noetl.services.sweep import MARGIN_SECONDS


class CloudMaintenance:
    """``handle`` is what Lambda invokes."""

    def __init__(self, settings: CloudSettings) -> None:
        self._settings = settings
        self._engine = CloudEngine(settings)

    def handle(
        self, event: Mapping[str, Any], remaining: Callable[[], float], call: Invocation
    ) -> dict[str, Any]:
        """A tick, or dead letters of commands. Returns the partial batch response (empty for a tick)."""
        try:
            engine = self._engine.open()
            if "Records" not in event:
                self._engine.sweep(engine, remaining, call)
                gone = tidy_deployment(
                    PostgresCredentialStore(engine.database),
                    prune_deps(engine.database, engine.results, self._settings.retention),
                    lambda: remaining() > MARGIN_SECONDS,
                    telemetry.log,
                )
                call.count("PrunedExecutions", gone)
                return batch_answer(())
            buried = bury(
                deliveries(event),
                programs=engine.deps.engine.programs,
                results=engine.results,
                events=engine.events,
                limit=self._settings.message_limit,
                log=telemetry.log,
            )
        finally:
            self._engine.close()
        call.about(buried.executions)
        call.count("CommandsLost", buried.lost)
        call.count("RefusedMessages", buried.unreadable)
        return batch_answer(buried.give_back)
