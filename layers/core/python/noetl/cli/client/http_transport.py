"""A server as a place: the operations of commands, over the routes of docs/api.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import UNSET

from noetl.api.http.bodies import (
    AcceptedAnswer,
    CancelledAnswer,
    CredentialAccessPage,
    CredentialDeletedAnswer,
    CredentialPage,
    DeletedAnswer,
    ExecutionAnswer,
    ExecutionPage,
    LoopItemPage,
    NextAnswer,
    PlaybookAnswer,
    PlaybookPage,
    RegisteredAnswer,
    SchedulePage,
    StartedAnswer,
    VariableAnswer,
    VariableDeletedAnswer,
    VariablesAnswer,
    VariablesSetAnswer,
    VariableView,
)
from noetl.api.http.result_bodies import ResultAnswer
from noetl.api.http.runtime_bodies import LimitPage, LimitRemovedAnswer
from noetl.api.nouns.callbacks import CallbacksAnswer, CallbackTaken
from noetl.cli.actions.context_patch import ContextPatch
from noetl.cli.client import runtime_access
from noetl.cli.client.event_polling import (
    ONE,
    History,
    RemoteFeed,
    lines,
    newest_events,
    run_until,
    status_of,
)
from noetl.cli.client.http_client import Client, segment
from noetl.cli.client.http_problems import diagnostics
from noetl.cli.client.http_results import RemoteResults
from noetl.cli.client.http_triggers import RemoteTriggers
from noetl.cli.client.profiles import Context
from noetl.cli.client.protocol import Change, NewExecution, Registered
from noetl.cli.render.event_stream import Feed
from noetl.domain.automations.schedules import instant, name_for, parse_instant
from noetl.domain.callbacks import PATH
from noetl.domain.errors import NotFoundError, PlaybookError
from noetl.domain.event_names import Vocabulary
from noetl.domain.state import TERMINAL
from noetl.domain.task_logs import TaskLine
from noetl.dsl.program import Program
from noetl.ports.history_sql import SqlTable
from noetl.ports.results import ResultStore
from noetl.services.automations.backfill import Backfill, BackfillRequest
from noetl.services.automations.schedules import ScheduleView
from noetl.services.callbacks.complete_callback import CallbackQuestion
from noetl.services.callbacks.open_callbacks import OpenCallback
from noetl.services.catalog.find_playbook import named_by
from noetl.services.catalog.playbook_needs import Present
from noetl.services.catalog.playbook_relations import Relations
from noetl.services.credentials.credentials import (
    CredentialAccessView,
    CredentialRequest,
    CredentialView,
    ResealResult,
)
from noetl.services.executions.bulk_control import BulkRequest, ManyFilter, SteeredMany, Verb
from noetl.services.executions.redrive_preview import RedrivePreview
from noetl.services.history.event_filter import EventFilter
from noetl.services.history.log_lines import LineFilter
from noetl.services.history.loop_items import PAGE, LoopItem
from noetl.services.history.read_history import HistoryEvent
from noetl.services.history.recorded_test import RecordedTest
from noetl.services.messaging.operate_dead_letters import (
    DeadLetterPage,
    DeadLetterRequest,
    DeadLettersDone,
    DeadLetterView,
)
from noetl.services.messaging.operate_dead_letters import Verb as LetterVerb
from noetl.services.queries import read_execution
from noetl.services.queries.analyze import Analysis
from noetl.services.queries.compare_executions import Comparison
from noetl.services.queries.limits import LimitRequest, LimitView
from noetl.services.queries.read_execution import ExecutionSummary, ExecutionView
from noetl.services.queries.step_costs import CostView
from noetl.services.results.prune import Pruned, PruneRequest

CANCEL_SECONDS = 30.0
LETTERS = 500
"""Dead letters of a page: each page reads the queues again, so that few large ones are best."""


class RemotePlace(RemoteTriggers):
    """A server that runs executions (``protocol.Running``).

    Its executions outlive the client.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._expected: set[str] = set()

    @classmethod
    def at(cls, context: Context) -> RemotePlace:
        return cls(Client(context))

    # --- looking ---

    def latest(self) -> int:
        found = self._client.get("/api/executions", ExecutionPage, limit=1, roots="true").executions
        if found:
            return int(found[0].execution_id)
        raise NotFoundError(
            "nothing has been executed there yet",
            code="execution_not_found",
            hint="start with `noetl exec PATH --remote`",
        )

    def executions(self, wanted: ManyFilter, *, limit: int) -> Sequence[ExecutionSummary]:
        query = {key: value for key, value in msgspec.structs.asdict(wanted).items() if value is not None}
        if wanted.ids is not None:
            query["ids"] = ",".join(wanted.ids)
        if wanted.roots is not None:
            query["roots"] = str(wanted.roots).lower()
        if wanted.labels is not None:
            query["labels"] = ",".join(f"{name}={value}" for name, value in wanted.labels.items())
        return self._client.entries(
            "/api/executions", ExecutionPage, lambda page: page.executions, limit, **query
        )

    def analyze(self, execution_id: int) -> Analysis:
        return self._client.post(f"{ONE.format(execution_id)}/analyze", Analysis, {})

    def compare(self, a: int, b: int) -> Comparison:
        return self._client.get("/api/compare", Comparison, a=a, b=b)

    def cost(self, execution_id: int, *, family: bool) -> CostView:
        return self._client.get(f"{ONE.format(execution_id)}/cost", CostView, family=str(family).lower())

    def record_test(self, execution_id: int, *, code: bool) -> RecordedTest:
        return self._client.get(
            f"/api/executions/{execution_id}/test", RecordedTest, code="run" if code else "recorded"
        )

    def sql(self, text: str, limit: int) -> SqlTable:
        return self._client.post("/api/sql", SqlTable, {"sql": text, "limit": limit})

    def describe(self, execution_id: int) -> ExecutionView:
        """Its steps, or the last of them where there are very many."""
        found = self._client.get(ONE.format(execution_id), ExecutionAnswer)
        summary = ExecutionSummary(
            found.execution_id,
            found.path,
            found.name,
            found.status,
            found.started_at,
            found.ended_at,
            found.duration_ms,
            found.parent_execution_id,
            version=found.version,
            program=found.program,
            principal=found.principal,
            labels=found.labels,
            active_seconds=found.active_seconds,
            rounds=found.rounds,
        )
        return ExecutionView(
            summary,
            found.steps,
            found.error,
            found.reason,
            found.parked,
            found.outstanding,
            found.waits,
            found.awaiting,
            found.awaiting_left_out,
            found.unreadable,
            revision=found.revision,
        )

    def status(self, execution_id: int) -> str:
        return status_of(self._client, execution_id).status

    def history(
        self, execution_id: int, words: Vocabulary, *, follow: bool, wanted: EventFilter
    ) -> Iterable[HistoryEvent]:
        history = History(self._client, execution_id, words, wanted)
        return history.follow() if follow else history.all()

    def newest(
        self, execution_id: int, words: Vocabulary, count: int, wanted: EventFilter
    ) -> Sequence[HistoryEvent]:
        return newest_events(self._client, execution_id, words, count, wanted)

    def lines(
        self, execution_id: int, wanted: LineFilter, *, follow: bool, last: int | None
    ) -> Iterable[TaskLine]:
        return lines(self._client, execution_id, wanted, follow=follow, last=last)

    def result(self, execution_id: int) -> Any:
        """What is too large for an answer is downloaded.

        Raises TaskError when a part is gone, or is not what was kept.
        """
        found = self._client.get(f"{ONE.format(execution_id)}/result", ResultAnswer)
        if found.complete:
            return found.result
        return read_execution.resolve(found.result, RemoteResults(self._client, found.downloads))

    def parts(self, execution_id: int) -> tuple[Any, ResultStore]:
        found = self._client.get(f"{ONE.format(execution_id)}/result", ResultAnswer, parts="true")
        return found.result, RemoteResults(self._client, found.downloads)

    # --- callbacks ---

    def items(self, execution_id: int, run: int, *, failed: bool) -> Iterable[LoopItem]:
        where = f"{ONE.format(execution_id)}/loops/{run}/items"
        for page in self._client.pages(where, LoopItemPage, limit=PAGE, failed="true" if failed else None):
            yield from page.items

    def callbacks(self, execution_id: int) -> Sequence[OpenCallback]:
        found = self._client.get(f"{ONE.format(execution_id)}/callbacks", CallbacksAnswer)
        return [
            msgspec.structs.replace(plain, url=reached(plain.url, self._client.context.url))
            for plain in (one.plain() for one in found.callbacks)
        ]

    def callback_question(self, token: str) -> CallbackQuestion:
        return self._client.get(f"{PATH}{segment(token)}", CallbackQuestion)

    def answer(self, token: str, body: Any) -> tuple[int, bool]:
        taken = self._client.post(f"{PATH}{segment(token)}", CallbackTaken, body)
        return int(taken.execution_id), taken.duplicate

    # --- playbooks ---

    def find(self, target: str) -> Registered:
        path, version = named_by(target)
        found = self._client.get(_playbook(path), PlaybookAnswer, version=version)
        return Registered(found.path, found.version, found.name, found.program)

    def relations(self, target: str) -> Relations:
        path, version = named_by(target)
        return self._client.get(f"{_playbook(path)}/relations", Relations, version=version)

    def register(self, text: str, *, source_name: str) -> Registered:
        """Register a playbook. The server gets the file's name, not its folder."""
        body = {"content": text, "source_name": PurePath(source_name).name}
        found = self._client.post("/api/catalog/register", RegisteredAnswer, body, source_name=source_name)
        warnings = diagnostics([msgspec.to_builtins(one) for one in found.warnings])
        return Registered(found.path, found.version, found.name, found.program, warnings)

    def register_scheduled(self, text: str, *, source_name: str) -> tuple[Registered, ScheduleView | None]:
        """The schedule by its usual name; one that its playbook names otherwise is not looked for."""
        entry = self.register(text, source_name=source_name)
        try:
            schedule = self.schedule(name_for(entry.path))
        except NotFoundError:
            return entry, None
        return entry, schedule if schedule.declared and schedule.path == entry.path else None

    def present(self) -> Present:
        playbooks = {
            one.path: one.version
            for page in self._client.pages("/api/catalog", PlaybookPage, limit=500)
            for one in page.playbooks
        }
        known = {
            one.name
            for page in self._client.pages("/api/credentials", CredentialPage, limit=500)
            for one in page.credentials
        }
        return Present(playbooks, lambda wanted: known & set(wanted), known)

    def program(self, entry: Registered) -> Program | None:
        found = self._client.get(_playbook(entry.path), PlaybookAnswer, version=entry.version or None)
        try:
            return runtime_access.compile_playbook(found.content, entry.path, None).program
        except PlaybookError:  # the server may have kinds that this machine lacks
            return None

    def start(self, entry: Registered, request: NewExecution) -> int:
        body: dict[str, Any] = {"path": entry.path, "version": entry.version, "payload": request.payload}
        body |= {} if request.priority is None else {"priority": request.priority}
        body |= {"labels": dict(request.labels)} if request.labels else {}
        body |= {"no_cache": True} if request.no_cache else {}
        if request.starts_at is not None:
            body["trigger_at"] = instant(request.starts_at)
        return int(self._client.post("/api/executions", StartedAnswer, body, key=request.key).execution_id)

    def prune(self, request: PruneRequest) -> Pruned:
        return self._client.post("/api/admin/prune", Pruned, msgspec.to_builtins(request))

    # --- variables ---

    def variables(self, execution_id: int) -> Mapping[str, VariableView]:
        return self._client.get(f"/api/vars/{execution_id}", VariablesAnswer).variables

    def variable(self, execution_id: int, name: str) -> VariableView:
        one = self._client.get(f"/api/vars/{execution_id}/{segment(name)}", VariableAnswer)
        return VariableView(
            one.value, one.type, one.source_step, one.created_at, one.accessed_at, one.access_count
        )

    def set_variables(self, execution_id: int, values: Mapping[str, Any], reason: str) -> None:
        body = {"variables": dict(values), "reason": reason}
        self._client.post(f"/api/vars/{execution_id}", VariablesSetAnswer, body)

    def delete_variable(self, execution_id: int, name: str) -> None:
        self._client.delete(f"/api/vars/{execution_id}/{segment(name)}", VariableDeletedAnswer)

    # --- schedules ---

    def schedules(self, limit: int) -> Sequence[ScheduleView]:
        return self._client.entries("/api/schedules", SchedulePage, lambda page: page.schedules, limit)

    def schedule(self, name: str) -> ScheduleView:
        return self._client.get(f"/api/schedules/{segment(name)}", ScheduleView)

    def next_times(self, name: str, count: int) -> Sequence[float]:
        found = self._client.get(f"/api/schedules/{segment(name)}/next", NextAnswer, count=count)
        return [parse_instant(one) for one in found.times]

    def backfill(self, name: str, request: BackfillRequest) -> Backfill:
        body = msgspec.to_builtins(request)
        return self._client.post(f"/api/schedules/{segment(name)}/backfill", Backfill, body)

    def change_schedule(self, what: Change, name: str) -> ScheduleView | None:
        path = f"/api/schedules/{segment(name)}"
        if what == "delete":
            self._client.delete(path, DeletedAnswer)
            return None
        return self._client.post(f"{path}/{what}", ScheduleView, {})

    # --- dead letters ---

    def dead_letters(self, queue: str | None, execution: str | None, limit: int) -> DeadLetterPage:
        first: DeadLetterPage | None = None
        letters: list[DeadLetterView] = []
        params = {"queue": queue, "execution_id": execution, "limit": min(limit, LETTERS)}
        for page in self._client.pages("/api/dead-letters", DeadLetterPage, **params):
            first = first or page
            letters += page.letters
            if len(letters) >= limit:
                break
        assert first is not None, "a list has at least one page"
        return msgspec.structs.replace(first, letters=letters[:limit], next=None)

    def handle_dead_letters(self, verb: LetterVerb, request: DeadLetterRequest) -> DeadLettersDone:
        return self._client.post(f"/api/dead-letters/{verb}", DeadLettersDone, msgspec.to_builtins(request))

    # --- limits ---

    def limits(self, limit: int) -> Sequence[LimitView]:
        return self._client.entries("/api/limits", LimitPage, lambda page: page.limits, limit)

    def limit(self, key: str) -> LimitView:
        return self._client.get(_limit(key), LimitView)

    def set_limit(self, key: str, request: LimitRequest) -> LimitView:
        return self._client.put(_limit(key), LimitView, msgspec.to_builtins(request))

    def remove_limit(self, key: str) -> None:
        self._client.delete(_limit(key), LimitRemovedAnswer)

    # --- credentials ---

    def keep_credential(self, request: CredentialRequest) -> CredentialView:
        return self._client.post("/api/credentials", CredentialView, msgspec.to_builtins(request))

    def credentials(self, type_: str, limit: int) -> Sequence[CredentialView]:
        return self._client.entries(
            "/api/credentials", CredentialPage, lambda page: page.credentials, limit, type=type_ or None
        )

    def credential(self, name: str, *, reveal: bool) -> CredentialView:
        """Return a credential.

        ``reveal``: what a worker gets; of a type that is exchanged, the token instead of the secret.
        """
        include_data = "true" if reveal else None
        return self._client.get(_credential(name), CredentialView, include_data=include_data)

    def remove_credential(self, name: str) -> CredentialDeletedAnswer:
        return self._client.delete(_credential(name), CredentialDeletedAnswer)

    def reseal_credentials(self) -> ResealResult:
        return self._client.post("/api/credentials/reseal", ResealResult, {})

    def credential_accesses(
        self, name: str, execution_id: int | None, limit: int
    ) -> Sequence[CredentialAccessView]:
        params = {"name": name or None, "execution_id": execution_id}
        return self._client.entries(
            "/api/access/credentials", CredentialAccessPage, lambda page: page.accesses, limit, **params
        )

    # --- running ---

    def feed(self) -> RemoteFeed:
        return RemoteFeed(self._client, expected=self._expected)

    def run_until(
        self,
        ids: Collection[int],
        feed: Feed,
        *,
        on_tick: Callable[[], None] | None = None,
        timeout: float | None = None,
    ) -> None:
        assert isinstance(feed, RemoteFeed)
        run_until(self._client, feed, ids, on_tick=on_tick, timeout=timeout)

    def cancel(self, execution_id: int, reason: str, *, cascade: bool) -> None:
        body = {"reason": reason, "cascade": cascade}
        self._client.post(f"{ONE.format(execution_id)}/cancel", CancelledAnswer, body)
        until, pause = time.monotonic() + CANCEL_SECONDS, 0.1
        while self.status(execution_id) not in TERMINAL and time.monotonic() < until:
            time.sleep(pause)
            pause = min(pause * 1.5, 2.0)

    def steer_many(self, verb: Verb, request: BulkRequest) -> SteeredMany:
        return self._client.post(f"/api/executions/{verb}", SteeredMany, msgspec.to_builtins(request))

    def pause(self, execution_id: int, reason: str, *, cascade: bool) -> None:
        self._steer(execution_id, "pause", {"reason": reason, "cascade": cascade})

    def resume(self, execution_id: int, reason: str, *, cascade: bool) -> None:
        self._steer(execution_id, "resume", {"reason": reason, "cascade": cascade})

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
        self._steer(execution_id, "redrive", {**_redrive(step, args, version, output), "reason": reason})

    def plan_redrive(
        self,
        execution_id: int,
        *,
        step: str,
        args: dict[str, Any] | None,
        version: int | None,
        output: Any = UNSET,
    ) -> RedrivePreview:
        body = {**_redrive(step, args, version, output), "dry_run": True}
        return self._client.post(f"{ONE.format(execution_id)}/redrive", RedrivePreview, body)

    def _steer(self, execution_id: int, what: str, body: dict[str, Any]) -> None:
        """It is done when this returns, unless that takes long."""
        before = self.status(execution_id)
        done = self._client.post(f"{ONE.format(execution_id)}/{what}", AcceptedAnswer, body)
        self._expected.add(done.event_id)
        until = time.monotonic() + CANCEL_SECONDS
        # What fails again at once has the status it had: then the history shows that it was done.
        while time.monotonic() < until and self.status(execution_id) == before:
            changes = self.analyze(execution_id).changes
            if any(done.event_id in one.event_id for one in changes):
                break
            time.sleep(0.2)

    def patch(self, execution_id: int, patch: ContextPatch, reason: str, *, correlation_id: str = "") -> None:
        body = {"patch": patch, "reason": reason, "correlation_id": correlation_id}
        done = self._client.patch(f"{ONE.format(execution_id)}/ctx", AcceptedAnswer, body)
        self._expected.add(done.event_id)

    def inject(
        self, execution_id: int, step: str, args: dict[str, Any], reason: str, *, correlation_id: str = ""
    ) -> None:
        body = {"step": step, "args": args, "reason": reason, "correlation_id": correlation_id}
        done = self._client.post(f"{ONE.format(execution_id)}/tokens", AcceptedAnswer, body)
        self._expected.add(done.event_id)


def reached(url: str, address: str) -> str:
    """Return the address of a callback.

    It has the path below which this client reaches the server, where the server does not know it.
    """
    there, here = urlsplit(url), urlsplit(address)
    prefix = here.path.rstrip("/")
    if there.netloc != here.netloc or there.path.startswith(f"{prefix}/api/"):
        return url
    return urlunsplit((here.scheme, here.netloc, f"{prefix}{there.path}", there.query, ""))


def _playbook(path: str) -> str:
    return f"/api/catalog/{_segments(path)}"


def _credential(name: str) -> str:
    return f"/api/credentials/{_segments(name)}"


def _limit(key: str) -> str:
    return f"/api/limits/{_segments(key)}"


def _segments(name: str) -> str:
    return "/".join(segment(part) for part in name.split("/"))


def _redrive(step: str, args: dict[str, Any] | None, version: int | None, output: Any) -> dict[str, Any]:
    """Build the body of a redrive; without ``output`` the step is run."""
    body = {"from": step or "failure", "args": args, "version": version}
    return body if output is UNSET else {**body, "output": output}
