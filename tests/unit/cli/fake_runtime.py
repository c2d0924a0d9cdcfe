"""The runtime as the command line sees it, in one thread over stores in memory: the real engine, worker and compiler, no Postgres."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore, MemoryResultStore
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError, TaskError
from noetl.domain.events import Cancel, ContextPatched, Event
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.state import TERMINAL
from noetl.kinds.registry import Registry
from noetl.kinds.support.base import KindParams
from noetl.ports.credentials import CredentialNames
from noetl.ports.gauges import QueueGauge
from noetl.ports.history_sql import SqlColumn, SqlTable
from noetl.runtime.programs import Programs
from noetl.services.automations.triggers import TriggerDeps
from noetl.services.credentials.check_keychain import check_keychain
from noetl.services.credentials.credentials import CredentialDeps, Token
from noetl.services.executions.start_execution import start_event
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.handle_events import handle_events
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.prune import PruneDeps
from noetl.services.worker.run_command import run_command
from noetl.services.worker.task_log_writer import LineKeeper
from noetl.services.worker.worker_deps import WorkerDeps
from tests.doubles.credential_store import MemoryCredentialStore
from tests.doubles.inspection import MemoryInspection
from tests.doubles.retention import MemoryRetention
from tests.doubles.schedule_store import MemoryScheduleStore
from tests.doubles.task_logs import MemoryTaskLogs
from tests.doubles.trigger_sources import MemoryTriggerSources
from tests.doubles.trigger_store import MemoryTriggerStore


class Double:
    """Doubles a number; lists stay lists."""

    SPEC = KindSpec(name="double", summary="Doubles a number.", pool="io")
    EXAMPLE: ClassVar[dict[str, Any]] = {"value": 2}

    class Params(KindParams):
        value: Any = 0

    @staticmethod
    def run(params: Any, context: TaskContext) -> TaskResult:
        context.log(f"doubling {params.value}")
        return TaskResult(params.value * 2)


class Boom:
    """Fails, with everything an error can carry."""

    SPEC = KindSpec(name="boom", summary="Fails.", pool="io")
    EXAMPLE: ClassVar[dict[str, Any]] = {}

    class Params(KindParams):
        message: str = "the pipe burst"
        times: int = 10**9

    calls = 0

    @classmethod
    def run(cls, params: Any, context: TaskContext) -> TaskResult:
        cls.calls += 1
        if cls.calls <= params.times:
            raise TaskError(
                params.message, kind="server_error", code="burst", hint="call a plumber", retryable=True
            )
        return TaskResult("mended")


class Interrupt:
    """Stands for somebody pressing Ctrl-C while it runs."""

    SPEC = KindSpec(name="interrupt", summary="Interrupts the process once.", pool="io")
    EXAMPLE: ClassVar[dict[str, Any]] = {}
    done = False

    class Params(KindParams):
        """None."""

    @classmethod
    def run(cls, params: Any, context: TaskContext) -> TaskResult:
        if not cls.done:
            cls.done = True
            raise KeyboardInterrupt
        return TaskResult("went on")


def registry() -> Registry:
    Boom.calls, Interrupt.done = 0, False
    found = Registry(discover=False)
    for kind in (Double, Boom, Interrupt):
        found.add(kind)
    return found


class Plain:
    """A cipher that hides nothing but the text itself; ``rotations`` counts."""

    def __init__(self) -> None:
        self.rotations = 0

    def encrypt(self, plain: bytes, context: Any) -> bytes:
        return plain[::-1]

    def decrypt(self, sealed: bytes, context: Any) -> bytes:
        return sealed[::-1]

    @contextmanager
    def rotation(self) -> Iterator[None]:
        self.rotations += 1
        yield


def credentials(store: MemoryCredentialStore) -> CredentialDeps:
    cipher = Plain()
    return CredentialDeps(
        store,
        cipher,
        lambda name, data: Token("t", 60.0),
        itertools.count(7).__next__,
        rotation=cipher.rotation,
    )


BEGAN = time.time() - 3600
"""Where the clock of every database begins: a limit that a test counts from one database is the limit of another."""


class Database:
    """What survives a runtime: stores, and how often they were opened."""

    def __init__(self) -> None:
        # Every handled batch moves this clock on. It begins in the past, so that it never passes the clock of the command line,
        # which is what `--before` and `--since` count from.
        self.now = BEGAN
        self.results = MemoryResultStore()
        kept = MemoryCredentialStore(self.clock)
        self.store = MemoryExecutionStore(self.clock, kept.forget_execution)
        self.credentials = credentials(kept)
        self.names: CredentialNames | None = None
        """What keychains are held against; None: they are not."""
        self.catalog = MemoryCatalog()
        self.schedules = MemoryScheduleStore()
        retention = MemoryRetention(self.store, self.schedules, kept.forget_execution)
        self.triggers = TriggerDeps(
            MemoryTriggerStore(self.clock),
            MemoryTriggerSources(),
            self.catalog,
            lambda fresh: KeyRing.of(["a key of this machine"]),
        )
        self.task_logs = MemoryTaskLogs()
        self.prune = PruneDeps(retention, self.results, self.task_logs, self.clock)
        self.kinds = registry()
        self.programs = Programs(self.catalog, self.kinds)
        self.opened = 0
        self.numbers = itertools.count(1)

    def clock(self) -> float:
        return self.now


class FakeHistorySql:
    """Answers every query with one row: the text of the query, and the limit."""

    def run(self, text: str, limit: int) -> SqlTable:
        return SqlTable([SqlColumn("query", "text"), SqlColumn("limit", "integer")], [[text, limit]], False)


class MemoryRuntime:
    """Runs everything in the caller's thread, inside ``run_until``; delays pass at once."""

    def __init__(self, database: Database, on_log: Callable[..., None] | None = None) -> None:
        self.database = database
        database.opened += 1
        self.owner = f"cli-test-{database.opened}"
        self.store, self.catalog = database.store, database.catalog
        self.results, self.programs = database.results, database.programs
        self.inspection, self.variables = MemoryInspection(database.store), database.store
        self.schedules, self.credentials = database.schedules, database.credentials
        self.prune, self.triggers = database.prune, database.triggers
        self.task_logs = database.task_logs
        self.history_sql = FakeHistorySql()
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.deps = EngineDeps(
            store=self.store,
            results=self.results,
            programs=self.programs,
            resolve=self.programs.resolve,
            hydrate=make_hydrate(self.results),
            owner=self.owner,
            credentials=database.names,
        )
        self.worker = WorkerDeps(
            programs=self.programs,
            registry=database.kinds,
            results=self.results,
            credentials=None,
            log=on_log or (lambda line: None),
            lines=LineKeeper(database.task_logs, on_log or (lambda line: None)),
        )

    def __enter__(self) -> MemoryRuntime:
        self.store.heartbeat(self.owner, 1e9)
        return self

    def __exit__(self, *error: object) -> None:
        self.store.release(self.owner)

    def register(self, text: str, *, source_name: str, path: str | None = None) -> Any:
        return self.programs.register(text, source_name=source_name, path=path)

    def start(self, entry: Any, payload: dict[str, Any], priority: int | None = None) -> int:
        number = next(self.database.numbers)
        event = start_event(
            self.programs(entry.program),
            payload,
            now_ms=int(self.database.now * 1000) + number,
            random_bits=number,
            principal="local:0",
            priority=priority,
        )
        if self.database.names is not None:
            check_keychain(self.programs(entry.program), event, self.database.names, self.database.now)
        self._handle([event])
        return event.execution_id

    def run_until(
        self,
        ids: Collection[int],
        *,
        on_tick: Callable[[], None] | None = None,
        timeout: float | None = None,
    ) -> None:
        while self.events or self.commands:
            if on_tick is not None:
                on_tick()
            if timeout is not None and timeout < 0.01:
                raise TimeoutError
            if self.events:
                batch, self.events = self.events, []
                self._handle(batch)
            else:
                run_command(self.commands.pop(0), self.worker, self.events.append)

    def recover(self) -> list[int]:
        self.commands += self.store.claim(self.owner, 1000)
        self.events += self.store.undelivered(self.owner, 1000)
        live = self.store.executions(limit=1000, status="running")
        return sorted(info.execution_id for info in live if not info.ahead)

    def accept(self, events: Collection[Event]) -> None:
        self.events += events

    def gauges(self) -> list[QueueGauge]:
        return [QueueGauge("events", 0, 0, 0)]

    def cancel(self, execution_id: int, reason: str, principal: str, cascade: bool = True) -> None:
        program = self.store.info(execution_id).program
        self._handle(
            [Cancel(execution_id, f"ext:{next(self.database.numbers)}", program, reason, principal, cascade)]
        )

    def patch_context(
        self, execution_id: int, patches: list[Patch], principal: str, reason: str, correlation_id: str = ""
    ) -> None:
        info = self.store.info(execution_id)
        if info.status in TERMINAL:
            raise NoetlError("over")
        event_id = f"ext:{next(self.database.numbers)}"
        self._handle(
            [ContextPatched(execution_id, event_id, info.program, patches, principal, reason, correlation_id)]
        )

    def _handle(self, batch: list[Event]) -> None:
        self.database.now += 0.01
        handled = handle_events(batch, self.deps)
        self.commands += handled.commands
        self.events += handled.events
