"""The API over a real Postgres: handlers get events as API Gateway sends them, engine and worker run when a test says so."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.adapters.postgres import Database, PostgresCatalog, PostgresExecutionStore
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.adapters.postgres.saved_views import PostgresSavedViews
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.adapters.postgres.variables import PostgresVariables
from noetl.api.deps import ApiDeps
from noetl.api.http.dispatch import Api
from noetl.api.http.gateway import make_resolver
from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.kinds.registry import default_registry
from noetl.runtime.deployed_catalog import Registrar
from noetl.runtime.retention import prune_deps
from noetl.runtime.stored_programs import StoredPrograms
from noetl.services.automations.schedules import ScheduleDeps
from noetl.services.messaging.backpressure import Backpressure
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.handle_events import handle_events
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.prune import RetentionDays
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from tests.doubles.programs import MemoryProgramStore
from tests.doubles.schedules import MemorySchedules
from tests.doubles.task_logs import MemoryTaskLogs

EVENTS = Path(__file__).parents[3] / "events" / "apigw"
OWNER = "test-engine"


class Reply:
    def __init__(self, raw: dict[str, Any]) -> None:
        self.status: int = raw["statusCode"]
        self.text: str = raw["body"]
        self.headers: dict[str, str] = raw["headers"]

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    def __repr__(self) -> str:
        return f"<{self.status} {self.text[:500]}>"


class Deployed:
    """``handle``: the function's handler. ``work``: what engine and workers do with what was published."""

    def __init__(self, dsn: str, auth: str) -> None:
        self.database = Database(dsn)
        self.store, results = PostgresExecutionStore(self.database), MemoryResultStore()
        self.catalog = PostgresCatalog(self.database)
        stored = MemoryProgramStore()
        registrar = Registrar(self.catalog, stored)
        programs = StoredPrograms(stored)
        self.sent: list[Event] = []
        self.logs: list[str] = []
        self.deps = ApiDeps(
            store=self.store,
            catalog=self.catalog,
            schedules=ScheduleDeps(
                PostgresScheduleStore(self.database), MemorySchedules(), self.catalog, programs, time.time
            ),
            triggers=None,  # type: ignore[arg-type]
            variables=PostgresVariables(self.database),
            saved_views=PostgresSavedViews(self.database),
            inspection=PostgresInspection(self.database),
            credentials=None,  # type: ignore[arg-type]
            events=None,  # type: ignore[arg-type]
            names=None,  # type: ignore[arg-type]
            results=results,
            prune=prune_deps(self.database, results, (lines := MemoryTaskLogs()), RetentionDays()),
            task_logs=lines,
            programs=programs,
            compile=registrar.compile,
            kinds=registrar.kinds,
            keep=registrar.keep,
            publisher=self,
            link=lambda uri, seconds, store: f"https://bucket.example/{uri}",
            gauges=list,
            pressure=Backpressure(PostgresInspection(self.database).backlog, 1000, time.monotonic),
            checks={"database": lambda: self.store.executions(limit=1) and None},
            clock=time.time,
            reconnect=self.database.close,
            log=self.logs.append,
        )
        self.handle = make_resolver(Api(lambda: self.deps, auth, log=self.logs.append))
        self.engine = EngineDeps(
            self.store, results, programs, self._resolve, make_hydrate(results), owner=OWNER
        )
        self.worker = WorkerDeps(programs, default_registry(), results, None)
        self.store.heartbeat(OWNER, 1e6)

    def owner(self) -> str:
        return OWNER

    def events(self, owner: str, events: Sequence[Event]) -> None:
        self.sent += events

    def _resolve(self, path: str, version: int | None) -> str:
        entry = self.catalog.get(path, version)
        assert entry is not None
        return entry.program

    def work(self) -> None:
        commands: list[Command] = []
        while self.sent or commands:
            if self.sent:
                batch, self.sent = self.sent, []
                handled = handle_events(batch, self.engine)
                commands += handled.commands
                self.sent += handled.events
            else:
                run_command(commands.pop(0), self.worker, self.sent.append)

    def sample(self, name: str, execution_id: str = "", **changes: Any) -> Reply:
        """Send a sample event, for this execution."""
        text = (EVENTS / f"{name}.json").read_text("utf-8")
        event = json.loads(text.replace("382358247895465985", execution_id or "382358247895465985"))
        return Reply(self.handle({**event, **changes}, None))


@pytest.fixture
def deployed(database: str) -> Iterator[Deployed]:
    made = Deployed(database, "iam")
    yield made
    made.database.close()


@pytest.fixture
def deployed_jwt(database: str) -> Iterator[Deployed]:
    made = Deployed(database, "jwt")
    yield made
    made.database.close()
