"""This machine: the stores in its home folder, and its runtime.

The runtime exists while it is open.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from noetl.cli.actions.context_patch import ContextPatch
from noetl.cli.client import runtime_access
from noetl.cli.client.local_bulk_control import do_many, look_many
from noetl.cli.client.local_credentials import CredentialsHere
from noetl.cli.client.local_dead_letters import DeadLettersHere
from noetl.cli.client.local_limits import LimitsHere
from noetl.cli.client.local_results import ResultsHere
from noetl.cli.client.local_schedules import SchedulesHere
from noetl.cli.client.local_triggers import TriggersHere
from noetl.cli.client.local_variables import no_variable, variable_view
from noetl.cli.client.protocol import NewExecution, Registered
from noetl.cli.render.event_stream import Feed, StoreFeed
from noetl.domain.errors import ConflictError, NotFoundError
from noetl.domain.event_names import Vocabulary
from noetl.domain.events import Event
from noetl.domain.state import TERMINAL
from noetl.domain.task_logs import TaskLine
from noetl.domain.workers.lost_owners import Takes
from noetl.ports.catalog import CatalogEntry
from noetl.ports.history_sql import SqlTable
from noetl.runtime.id_source import random_bits
from noetl.services.callbacks.open_callbacks import OpenCallback, open_callbacks
from noetl.services.executions import change_execution
from noetl.services.executions.bulk_control import (
    BulkRequest,
    ManyFilter,
    SteeredMany,
    Verb,
    execution_filter,
)
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.history.event_filter import EventFilter
from noetl.services.history.history_pages import HistoryReader
from noetl.services.history.log_lines import LineFilter, LineReader
from noetl.services.history.loop_items import LoopItem, every_loop_item
from noetl.services.history.newest_events import newest_events
from noetl.services.history.read_history import HistoryEvent
from noetl.services.queries import read_execution
from noetl.services.queries.read_execution import ExecutionSummary, ExecutionView
from noetl.services.results.prune import Pruned, PruneRequest, prune

if TYPE_CHECKING:
    from noetl.api.http.bodies import VariableView
    from noetl.dsl.program import Program
    from noetl.services.automations.schedules import ScheduleView
    from noetl.services.callbacks.complete_callback import CallbackDeps, CallbackQuestion
    from noetl.services.catalog.playbook_needs import Present
    from noetl.services.catalog.playbook_relations import Relations
    from noetl.services.executions.redrive_preview import RedrivePreview
    from noetl.services.executions.start_execution import Started
    from noetl.services.history.recorded_test import RecordedTest
    from noetl.services.queries.analyze import Analysis
    from noetl.services.queries.compare_executions import Comparison
    from noetl.services.queries.step_costs import CostView

POLL = 0.3
LINES = 1000
CANCEL_SECONDS = 30.0


@contextmanager
def open_here(home: str | None) -> Iterator[LocalTransport]:
    """Stores without workers.

    What is changed is done by whichever process runs executions here.
    """
    with runtime_access.open_reading(home) as reading:
        yield LocalTransport(reading, home)


@contextmanager
def open_running_here(
    home: str | None, on_log: Callable[[str], None] | None, takes: Takes = "everything"
) -> Iterator[RunningHere]:
    """Stores with engine and workers.

    ``takes``: what is taken over from processes that are gone.
    """
    with runtime_access.open_local(home, on_log=on_log, takes=takes) as runtime:
        yield RunningHere(runtime, home)


class LocalTransport(CredentialsHere, DeadLettersHere, LimitsHere, ResultsHere, SchedulesHere, TriggersHere):
    """``noetl.cli.client.protocol.Place`` over the stores of this machine."""

    def __init__(self, reading: runtime_access.Reading, home: str | None = None) -> None:
        self._reading = reading
        self._home = home

    def latest(self) -> int:
        return read_execution.latest(self._reading.store)

    def executions(self, wanted: ManyFilter, *, limit: int) -> Sequence[ExecutionSummary]:
        where = execution_filter(wanted, self._reading.catalog)
        return read_execution.list_executions(
            self._reading.store, limit=limit, now=time.time(), status=wanted.status, wanted=where
        )

    def steer_many(self, verb: Verb, request: BulkRequest) -> SteeredMany:
        return look_many(self._reading, verb, request, _change_request("", request.reason))

    def describe(self, execution_id: int) -> ExecutionView:
        return read_execution.describe(
            self._reading.store, self._reading.programs, execution_id, now=time.time()
        )

    def analyze(self, execution_id: int) -> Analysis:
        from noetl.services.queries.analyze import AnalyzeDeps, analyze

        reading = self._reading
        return analyze(
            execution_id, AnalyzeDeps(reading.store, reading.inspection, reading.programs, time.time)
        )

    def compare(self, a: int, b: int) -> Comparison:
        from noetl.services.queries.compare_executions import compare_executions

        return compare_executions(self._reading.store, self._reading.catalog, a, b, now=time.time())

    def cost(self, execution_id: int, *, family: bool) -> CostView:
        from noetl.services.queries.step_costs import read_costs

        return read_costs(self._reading.store, self._reading.programs, execution_id, family=family)

    def record_test(self, execution_id: int, *, code: bool) -> RecordedTest:
        from noetl.services.history.recorded_test import make_test

        reading = self._reading
        return make_test(reading.store, reading.results, reading.programs, execution_id, code=code)

    def sql(self, text: str, limit: int) -> SqlTable:
        from noetl.services.history.run_sql import run_sql

        return run_sql(self._reading.history_sql, text, limit)

    def status(self, execution_id: int) -> str:
        return read_execution.find(self._reading.store, execution_id).status

    def history(
        self, execution_id: int, words: Vocabulary, *, follow: bool, wanted: EventFilter
    ) -> Iterable[HistoryEvent]:
        reader = HistoryReader(self._reading.store, execution_id, words, wanted=wanted)
        while True:
            over = self.status(execution_id) in TERMINAL
            yield from reader.read(everything=over or not follow)
            if over or not follow:
                return
            time.sleep(POLL)

    def newest(
        self, execution_id: int, words: Vocabulary, count: int, wanted: EventFilter
    ) -> Sequence[HistoryEvent]:
        self.status(execution_id)
        return newest_events(self._reading.store, execution_id, words, count, wanted)

    def lines(
        self, execution_id: int, wanted: LineFilter, *, follow: bool, last: int | None
    ) -> Iterable[TaskLine]:
        reader = LineReader(self._reading.task_logs, execution_id, wanted)
        after = ""
        if last is not None:
            found, after = reader.last(last, everything=self.status(execution_id) in TERMINAL)
            yield from found
            if not follow:
                return
        while True:
            over = self.status(execution_id) in TERMINAL
            page = reader.oldest(after, LINES, everything=over)
            yield from page.lines
            after = page.next
            if page.more:
                continue
            if over or not follow:
                return
            time.sleep(POLL)

    # --- callbacks ---

    def items(self, execution_id: int, run: int, *, failed: bool) -> Iterable[LoopItem]:
        return every_loop_item(self._reading.store, execution_id, run, failed=failed)

    def callbacks(self, execution_id: int) -> Sequence[OpenCallback]:
        store = self._reading.store
        keys, base = runtime_access.callbacks_of(self._home)
        return open_callbacks(store, read_execution.find(store, execution_id), keys, base)

    def callback_question(self, token: str) -> CallbackQuestion:
        from noetl.services.callbacks import complete_callback

        return complete_callback.look(token, self._callbacks())

    def _callbacks(self) -> CallbackDeps:
        from noetl.services.callbacks import complete_callback

        reading = self._reading
        keys, _ = runtime_access.callbacks_of(self._home)
        return complete_callback.CallbackDeps(reading.store, reading.results, reading.programs, keys)

    # --- playbooks ---

    def find(self, target: str) -> Registered:
        from noetl.services.catalog.find_playbook import by_id

        return _registered(by_id(self._reading.catalog, target))

    def relations(self, target: str) -> Relations:
        from noetl.services.catalog.find_playbook import by_id
        from noetl.services.catalog.playbook_relations import RelationDeps, read_relations

        reading = self._reading
        deps = RelationDeps(reading.catalog, reading.programs, reading.schedules, reading.triggers.store)
        return read_relations(deps, by_id(reading.catalog, target))

    def register(self, text: str, *, source_name: str) -> Registered:
        return _registered(self._reading.programs.register(text, source_name=source_name))

    def register_scheduled(self, text: str, *, source_name: str) -> tuple[Registered, ScheduleView | None]:
        from noetl.services.automations.register_schedules import register_schedule
        from noetl.services.automations.schedules import view

        entry = self.register(text, source_name=source_name)
        schedule = register_schedule(
            entry.path,
            self._reading.programs(entry.program),
            store=self._reading.schedules,
            schedules=None,
            now=time.time(),
        )
        return entry, None if schedule is None else view(schedule)

    def present(self) -> Present:
        from noetl.runtime.bootstrap import credential_names
        from noetl.services.catalog.playbook_needs import Present, every_playbook

        names = credential_names(runtime_access.settings(self._home), self._reading.credentials.store)
        playbooks = every_playbook(self._reading.catalog)
        return Present(playbooks, lambda wanted: names.types(wanted).keys(), names.known())

    def program(self, entry: Registered) -> Program | None:
        return self._reading.programs(entry.program)

    def start(self, entry: Registered, request: NewExecution) -> int:
        return self._start(entry, request, "").execution_id

    def _start(self, entry: Registered, request: NewExecution, owner: str) -> Started:
        from noetl.services.executions.start_execution import StartRequest, start_execution

        who = f"local:{os.getuid()}"
        key = hashlib.sha256(f"{who}\n{request.key}".encode()).hexdigest()
        identity = {"path": entry.path, "payload": request.payload, "labels": dict(request.labels)}
        return start_execution(
            self._reading.programs(entry.program),
            StartRequest(
                request.payload,
                entry.path,
                entry.version,
                who,
                key=f"cli:{key}" if request.key else "",
                identity=identity if request.key else None,
                at=request.starts_at,
                priority=request.priority,
                labels=request.labels,
                no_cache=request.no_cache,
            ),
            self._reading.store,
            owner=owner,
            now_ms=time.time_ns() // 1_000_000,
            random_bits=random_bits(),
        )

    # --- variables ---

    def variables(self, execution_id: int) -> Mapping[str, VariableView]:
        read_execution.find(self._reading.store, execution_id)
        return {one.name: variable_view(one) for one in self._reading.variables.variables(execution_id)}

    def variable(self, execution_id: int, name: str) -> VariableView:
        read_execution.find(self._reading.store, execution_id)
        found = self._reading.variables.read_variable(execution_id, name)
        if found is None:
            raise no_variable(execution_id, name)
        return variable_view(found)

    def set_variables(self, execution_id: int, values: Mapping[str, Any], reason: str) -> None:
        change_execution.set_variables(self._reading.store, execution_id, _change_request("", reason), values)

    def delete_variable(self, execution_id: int, name: str) -> None:
        change_execution.live(self._reading.store, execution_id, "changed")
        if all(one.name != name for one in self._reading.variables.variables(execution_id)):
            raise no_variable(execution_id, name)
        change_execution.delete_variable(self._reading.store, execution_id, _change_request("", ""), name)

    def prune(self, request: PruneRequest) -> Pruned:
        return prune(request, self._reading.prune, lambda: True)


class RunningHere(LocalTransport):
    """``noetl.cli.client.protocol.Running`` over the local runtime."""

    def __init__(self, runtime: runtime_access.Runtime, home: str | None = None) -> None:
        super().__init__(runtime, home)
        self.runtime = runtime

    def register(self, text: str, *, source_name: str) -> Registered:
        return _registered(self.runtime.register(text, source_name=source_name))

    def start(self, entry: Registered, request: NewExecution) -> int:
        program = self.program(entry)
        labels = request.labels or (program is not None and program.labels)
        if request.starts_at is not None or request.key or labels or request.no_cache:
            started = self._start(entry, request, self.runtime.owner)
            if started.event is not None:
                self.runtime.accept([started.event])
            return started.execution_id
        kept = self.runtime.catalog.get(entry.path, entry.version)
        if kept is None:
            raise NotFoundError(f"{entry.path} has no version {entry.version}", code="playbook_not_found")
        return self.runtime.start(kept, request.payload, request.priority)

    def feed(self) -> Feed:
        return StoreFeed(self.runtime.store)

    def run_until(
        self,
        ids: Collection[int],
        feed: Feed,
        *,
        on_tick: Callable[[], None] | None = None,
        timeout: float | None = None,
    ) -> None:
        self.runtime.run_until(ids, on_tick=on_tick, timeout=timeout)

    def cancel(self, execution_id: int, reason: str, *, cascade: bool) -> None:
        self._refuse_ended(execution_id, "cancelled")
        change = _change_request(self.runtime.owner, reason)
        self.runtime.cancel(execution_id, change.reason, change.principal, cascade)
        self._let_children_end(execution_id)

    def steer_many(self, verb: Verb, request: BulkRequest) -> SteeredMany:
        return do_many(self.runtime, verb, request, _change_request(self.runtime.owner, request.reason))

    def pause(self, execution_id: int, reason: str, *, cascade: bool) -> None:
        store = self.runtime.store
        self._steer(
            change_execution.pause(
                store, execution_id, _change_request(self.runtime.owner, reason), cascade=cascade
            )
        )

    def resume(self, execution_id: int, reason: str, *, cascade: bool) -> None:
        store = self.runtime.store
        self._steer(
            change_execution.resume(
                store, execution_id, _change_request(self.runtime.owner, reason), cascade=cascade
            )
        )

    def redrive(
        self,
        execution_id: int,
        reason: str,
        *,
        step: str,
        args: dict[str, Any] | None,
        version: int | None,
        output: Any = UNSET,
    ) -> None:
        from noetl.services.executions import redrive_execution

        event = redrive_execution.redrive(
            self.runtime.store,
            self.runtime.programs,
            execution_id,
            _change_request(self.runtime.owner, reason),
            step=step,
            args=args,
            program=redrive_execution.program_of_version(
                self.runtime.store, self.runtime.catalog, execution_id, version
            ),
            output=output,
        )
        self._steer(event)

    def plan_redrive(
        self,
        execution_id: int,
        *,
        step: str,
        args: dict[str, Any] | None,
        version: int | None,
        output: Any = UNSET,
    ) -> RedrivePreview:
        from noetl.services.executions import redrive_execution
        from noetl.services.executions.redrive_preview import preview
        from noetl.services.history.execution_state import demand_state

        runtime, info = self.runtime, read_execution.find(self.runtime.store, execution_id)
        event = redrive_execution.plan(
            runtime.store,
            runtime.programs,
            execution_id,
            _change_request(runtime.owner, ""),
            step=step,
            args=args,
            program=redrive_execution.program_of_version(
                self.runtime.store, self.runtime.catalog, execution_id, version
            ),
            output=output,
            info=info,
        )
        return preview(runtime.programs(event.program), demand_state(info), event)

    def _steer(self, event: Event) -> None:
        """Wait until an event is applied, or had no effect.

        At the latest after CANCEL_SECONDS.
        """
        store, execution_id = self.runtime.store, event.execution_id
        before = read_execution.find(store, execution_id).version
        self.runtime.accept([event])
        until = time.monotonic() + CANCEL_SECONDS
        # A change that has no effect (another process was faster) makes no new version.
        while _is_handling(self.runtime) and time.monotonic() < until:
            if read_execution.find(store, execution_id).version != before:
                return
            time.sleep(0.02)

    def patch(self, execution_id: int, patch: ContextPatch, reason: str, *, correlation_id: str = "") -> None:
        runtime = self.runtime
        change = _change_request(runtime.owner, reason)
        event = change_execution.patch_context(
            runtime.store, execution_id, change, patch, correlation_id=correlation_id
        )
        runtime.accept([event])

    def answer(self, token: str, body: Any) -> tuple[int, bool]:
        from noetl.services.callbacks import complete_callback

        taken = complete_callback.answer(token, body, self._callbacks(), self.runtime.owner)
        if taken.event is not None:
            self._steer(taken.event)
        return taken.callback.execution_id, taken.event is None

    def inject(
        self, execution_id: int, step: str, args: dict[str, Any], reason: str, *, correlation_id: str = ""
    ) -> None:
        runtime = self.runtime
        event = change_execution.inject_token(
            runtime.store,
            runtime.programs,
            execution_id,
            _change_request(runtime.owner, reason),
            step=step,
            args=args,
            correlation_id=correlation_id,
        )
        runtime.accept([event])

    def _refuse_ended(self, execution_id: int, what: str) -> None:
        status = self.status(execution_id)
        if status in TERMINAL:
            raise ConflictError(
                f"execution {execution_id} is {status} and cannot be {what}", code="execution_ended"
            )

    def _let_children_end(self, execution_id: int) -> None:
        """Keep the runtime open until sub-executions have their cancel."""
        children = [
            info.execution_id
            for status in ("running", "paused")
            for info in self.runtime.store.executions(limit=10_000, status=status)
            if info.parent_execution_id == execution_id
        ]
        if children:
            with suppress(TimeoutError):
                self.runtime.run_until(children, timeout=CANCEL_SECONDS)


def _is_handling(runtime: runtime_access.Runtime) -> bool:
    """Whether events wait in this process, or are being handled."""
    events = runtime.gauges()[0]
    return bool(events.waiting or events.in_flight)


def principal() -> str:
    """Who types this: recorded with what they change."""
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):
        return "user:unknown"


def _change_request(owner: str, reason: str) -> ChangeRequest:
    return ChangeRequest(principal(), secrets.token_hex(16), owner, reason)


def _registered(entry: CatalogEntry) -> Registered:
    return Registered(entry.path, entry.version, entry.name, entry.program)
