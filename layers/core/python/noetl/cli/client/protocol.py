"""The interface of places: this machine or a server.

Commands do not depend on which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from noetl.domain.errors import InvalidInputError

if TYPE_CHECKING:
    from noetl.api.http.bodies import CredentialDeletedAnswer, VariableView
    from noetl.api.nouns.triggers import FiredAnswer
    from noetl.cli.actions.context_patch import ContextPatch
    from noetl.cli.render.event_stream import Feed
    from noetl.domain.event_names import Vocabulary
    from noetl.domain.task_logs import TaskLine
    from noetl.dsl.diagnostics import Diagnostic
    from noetl.dsl.program import Program
    from noetl.ports.history_sql import SqlTable
    from noetl.ports.results import ResultStore
    from noetl.services.automations.backfill import Backfill, BackfillRequest
    from noetl.services.automations.schedules import ScheduleView
    from noetl.services.automations.triggers import TriggerPatch, TriggerRequest, TriggerView
    from noetl.services.callbacks.complete_callback import CallbackQuestion
    from noetl.services.callbacks.open_callbacks import OpenCallback
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
    from noetl.services.history.loop_items import LoopItem
    from noetl.services.history.read_history import HistoryEvent
    from noetl.services.history.recorded_test import RecordedTest
    from noetl.services.messaging.operate_dead_letters import (
        DeadLetterPage,
        DeadLetterRequest,
        DeadLettersDone,
    )
    from noetl.services.messaging.operate_dead_letters import Verb as LetterVerb
    from noetl.services.queries.analyze import Analysis
    from noetl.services.queries.compare_executions import Comparison
    from noetl.services.queries.limits import LimitRequest, LimitView
    from noetl.services.queries.read_execution import ExecutionSummary, ExecutionView
    from noetl.services.queries.step_costs import CostView
    from noetl.services.results.prune import Pruned, PruneRequest

Change = Literal["pause", "resume", "delete"]


class Registered(msgspec.Struct, frozen=True):
    """A playbook in the catalog.

    ``program``: hash of its compiled form. ``warnings``: of the compiler.
    """

    path: str
    version: int
    name: str
    program: str
    warnings: Sequence[Diagnostic] = ()


class NewExecution(msgspec.Struct, frozen=True):
    """What an execution starts with.

    ``priority`` None: the playbook's own. ``key``: an idempotency key, or empty.

    ``starts_at``: epoch seconds; None, or a moment that has passed: now.
    """

    payload: dict[str, Any] = {}
    priority: int | None = None
    key: str = ""
    labels: Mapping[str, str] = {}
    starts_at: float | None = None
    no_cache: bool = False


class Place(Protocol):
    """To look at executions and to change them without waiting.

    Ids are execution ids; everything raises NotFoundError for unknown ones, ConflictError for what does not fit the
    present state, and InfrastructureError when the place cannot be reached.
    """

    def latest(self) -> int:
        """The execution that was started last, and not by another."""

    def executions(self, wanted: ManyFilter, *, limit: int) -> Sequence[ExecutionSummary]:
        """Newest first."""

    def steer_many(self, verb: Verb, request: BulkRequest) -> SteeredMany:
        """Cancel, pause, resume or redrive all executions that fit.

        Where executions run while this is open, the change is applied when this returns.
        """

    def describe(self, execution_id: int) -> ExecutionView: ...
    def analyze(self, execution_id: int) -> Analysis: ...

    def compare(self, a: int, b: int) -> Comparison: ...

    def cost(self, execution_id: int, *, family: bool) -> CostView: ...

    def record_test(self, execution_id: int, *, code: bool) -> RecordedTest: ...

    def sql(self, text: str, limit: int) -> SqlTable:
        """Run a query over the views of history."""

    def status(self, execution_id: int) -> str: ...
    def history(
        self, execution_id: int, words: Vocabulary, *, follow: bool, wanted: EventFilter
    ) -> Iterable[HistoryEvent]:
        """Those that are wanted, in order; ``follow``: until the execution ends."""

    def newest(
        self, execution_id: int, words: Vocabulary, count: int, wanted: EventFilter
    ) -> Sequence[HistoryEvent]:
        """The latest of those that are wanted, without those of items, in order."""

    def items(self, execution_id: int, run: int, *, failed: bool) -> Iterable[LoopItem]:
        """The items of a loop by its step run, in its order; read as they are taken."""

    def lines(
        self, execution_id: int, wanted: LineFilter, *, follow: bool, last: int | None
    ) -> Iterable[TaskLine]:
        """What its tasks have printed, as far as it is wanted.

        ``last``: only so many of the latest that there are. ``follow``: until the execution ends.
        """

    def result(self, execution_id: int) -> Any:
        """Whole."""

    def parts(self, execution_id: int) -> tuple[Any, ResultStore]:
        """The result with large values as references, and where these are read."""

    def callbacks(self, execution_id: int) -> Sequence[OpenCallback]:
        """What it waits for, with the tokens that answer it."""

    def callback_question(self, token: str) -> CallbackQuestion:
        """What a token asks for. Raises GoneError, too."""

    def find(self, target: str) -> Registered:
        """A playbook of the catalog: ``path``, or ``path@version``."""

    def relations(self, target: str) -> Relations:
        """What a playbook calls, and what calls and starts it.

        ``target``: ``path``, or ``path@version``.
        """

    def register(self, text: str, *, source_name: str) -> Registered:
        """Raises InvalidPlaybookError with every diagnostic."""

    def register_scheduled(self, text: str, *, source_name: str) -> tuple[Registered, ScheduleView | None]:
        """As ``register``, and its schedule with it."""

    def present(self) -> Present:
        """What a playbook can use here: registered playbooks, and credentials."""

    def program(self, entry: Registered) -> Program | None:
        """Its compiled form; None when only the place itself can compile it."""

    def start(self, entry: Registered, request: NewExecution) -> int:
        """Durable when this returns."""

    def variables(self, execution_id: int) -> Mapping[str, VariableView]: ...
    def variable(self, execution_id: int, name: str) -> VariableView:
        """The read is counted."""

    def set_variables(self, execution_id: int, values: Mapping[str, Any], reason: str) -> None: ...
    def delete_variable(self, execution_id: int, name: str) -> None: ...

    def schedules(self, limit: int) -> Sequence[ScheduleView]: ...
    def schedule(self, name: str) -> ScheduleView: ...
    def next_times(self, name: str, count: int) -> Sequence[float]:
        """Epoch seconds."""

    def backfill(self, name: str, request: BackfillRequest) -> Backfill: ...
    def change_schedule(self, what: Change, name: str) -> ScheduleView | None:
        """As it is afterwards; None when it is gone."""

    def put_trigger(self, request: TriggerRequest) -> TriggerView: ...
    def triggers(self, limit: int) -> Sequence[TriggerView]: ...
    def trigger(self, name: str) -> TriggerView: ...
    def patch_trigger(self, name: str, patch: TriggerPatch) -> TriggerView: ...
    def delete_trigger(self, name: str) -> None: ...
    def fire_trigger(self, name: str, body: dict[str, Any], key: str) -> FiredAnswer:
        """``key``: the same one starts one execution; empty: this is another happening."""

    def prune(self, request: PruneRequest) -> Pruned:
        """As much as is done in a while."""

    def dead_letters(self, queue: str | None, execution: str | None, limit: int) -> DeadLetterPage:
        """The oldest ``limit`` of them."""

    def handle_dead_letters(self, verb: LetterVerb, request: DeadLetterRequest) -> DeadLettersDone:
        """Send back or remove; less than all when that takes long."""

    def limits(self, limit: int) -> Sequence[LimitView]: ...
    def limit(self, key: str) -> LimitView: ...
    def set_limit(self, key: str, request: LimitRequest) -> LimitView: ...
    def remove_limit(self, key: str) -> None: ...

    # Errors about credentials never repeat their data.

    def keep_credential(self, request: CredentialRequest) -> CredentialView:
        """New (version 1), or in the place of the one of this name."""

    def credentials(self, type_: str, limit: int) -> Sequence[CredentialView]: ...
    def credential(self, name: str, *, reveal: bool) -> CredentialView:
        """By name or id. ``reveal``: with its data."""

    def remove_credential(self, name: str) -> CredentialDeletedAnswer: ...
    def reseal_credentials(self) -> ResealResult: ...
    def credential_accesses(
        self, name: str, execution_id: int | None, limit: int
    ) -> Sequence[CredentialAccessView]:
        """List uses of credentials, the newest first.

        Of one credential unless the name is empty, of one execution unless it is None.
        """


class Running(Place, Protocol):
    """A place that runs executions while it is open."""

    def feed(self) -> Feed: ...
    def run_until(
        self,
        ids: Collection[int],
        feed: Feed,
        *,
        on_tick: Callable[[], None] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Return when all have ended, or when those left wait for the outside.

        Raises TimeoutError.
        """

    def cancel(self, execution_id: int, reason: str, *, cascade: bool) -> None:
        """It has ended when this returns, unless that takes long."""

    def pause(self, execution_id: int, reason: str, *, cascade: bool) -> None: ...
    def resume(self, execution_id: int, reason: str, *, cascade: bool) -> None: ...
    def redrive(
        self,
        execution_id: int,
        reason: str,
        *,
        step: str,
        args: dict[str, Any] | None,
        version: int | None,
        output: Any = msgspec.UNSET,
    ) -> None:
        """Run an ended execution again.

        ``step`` empty: from its failure. ``args`` None: those of the step's last run. ``version`` None: the playbook it had. ``output``:
        what the step leaves with, instead of being run.
        """

    def plan_redrive(
        self,
        execution_id: int,
        *,
        step: str,
        args: dict[str, Any] | None,
        version: int | None,
        output: Any = msgspec.UNSET,
    ) -> RedrivePreview:
        """Return what ``redrive`` would run; change nothing. Raises as it does."""

    def patch(
        self, execution_id: int, patch: ContextPatch, reason: str, *, correlation_id: str = ""
    ) -> None: ...
    def inject(
        self, execution_id: int, step: str, args: dict[str, Any], reason: str, *, correlation_id: str = ""
    ) -> None: ...
    def answer(self, token: str, body: Any) -> tuple[int, bool]:
        """Answer a callback: (execution, whether it was answered so before).

        Raises GoneError, and InvalidInputError for what does not fit.
        """


def resolve_id(place: Place, name: str) -> int:
    """An execution id as text, or ``latest``. Raises InvalidInputError and NotFoundError."""
    if name == "latest":
        return place.latest()
    if not (name.isascii() and name.isdigit() and len(name) <= 19 and 0 < int(name) < 2**63):
        raise InvalidInputError(
            f"{name[:80]!r} is not an execution id",
            code="invalid_execution_id",
            hint="an id is a number such as `noetl list` shows, or `latest`",
        )
    return int(name)
