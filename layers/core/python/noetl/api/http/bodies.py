"""Shapes of bodies, asked and answered; the OpenAPI document is made from them.

Ids are text: they do not fit a JavaScript number.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from noetl.api.http.result_bodies import Download
from noetl.domain.sizes.table import PRIORITY
from noetl.domain.text.timestamps import Timestamp, TimeText
from noetl.domain.variables import VariableType
from noetl.dsl.editors.shapes import TextEdit
from noetl.ports.catalog import CatalogEntry
from noetl.services.automations.schedules import ScheduleView
from noetl.services.credentials.credentials import CredentialAccessView, CredentialView
from noetl.services.history.loop_items import LoopItem
from noetl.services.history.read_history import HistoryEvent
from noetl.services.queries.limits import WaitView
from noetl.services.queries.read_execution import AwaitedCallback, ExecutionSummary, ParkedStep, StepView
from noetl.services.queries.saved_views import SavedViewAnswer

# --- asked ------------------------------------------------------------------------------------------


class FormatBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A playbook to format.

    ``content``: its YAML, or base64 of it. ``source_name``: what diagnostics print.
    """

    content: str
    source_name: str | None = None


class ValidateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A playbook to check.

    ``content``: its YAML, or base64 of it. ``source_name``: what diagnostics print. ``names``: answer the names that it declares, too.
    ``graph``: answer its graph, too.
    """

    content: str
    source_name: str | None = None
    names: bool = False
    graph: bool = False


class RegisterBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A playbook to register.

    ``content``: the playbook's YAML, or base64 of it. ``path``: instead of the one it names. ``source_name``: what diagnostics print; of an
    absolute path its last part. ``resource_type`` may say ``playbook``. ``if_version``: the latest version that the caller knows (0: none);
    with another one the playbook is refused.
    """

    content: str
    path: str | None = None
    source_name: str | None = None
    resource_type: Literal["playbook", "Playbook"] | None = None
    if_version: int | None = None


class ResourcesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``resource_type``: ``playbook`` or ``credential``, in any case; without it, playbooks."""

    resource_type: str = "playbook"


class MigrateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A playbook to migrate.

    ``content``: the YAML of a playbook of any dialect, or base64 of it. ``source_name``: what diagnostics print.
    """

    content: str
    source_name: str | None = None


class ResourceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A playbook by path; ``version`` may be a number or ``latest``."""

    path: str
    version: int | str | None = None


class StartBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An execution to start.

    Which playbook: ``path`` (and ``version``, or the latest), or ``playbook_id``/``catalog_id`` (``path@version``), or ``program`` (the
    hash of its compiled form). ``payload``, also called ``workload``: what its workload is overlaid with. ``trigger_at``: when it starts
    (ISO 8601 with a zone), at most a year ahead; what has passed is now. ``priority``: higher goes first; the playbook's own without it.
    ``labels``: text by name for lists and filters, over those of the playbook. ``no_cache``: no task takes the result of an earlier
    call.
    """

    path: str | None = None
    version: int | str | None = None
    playbook_id: str | None = None
    catalog_id: str | None = None
    program: str | None = None
    payload: dict[str, Any] | None = None
    workload: dict[str, Any] | None = None
    resource_kind: Literal["playbook", "Playbook"] | None = None
    parent_execution_id: None = None
    trigger_at: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=-PRIORITY.value, le=PRIORITY.value)] | None = None
    labels: dict[str, str] | None = None
    no_cache: bool = False


class CancelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``cascade``: its children as well."""

    reason: str = ""
    cascade: bool = True


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One operation of a JSON Patch (RFC 6902).

    ``path`` and ``from`` are JSON pointers into the context.
    """

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    value: Any = msgspec.UNSET
    from_: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="from")

    def to_dict(self) -> dict[str, Any]:
        """As it was sent."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class ContextBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A patch of an execution's context.

    ``patch``: a JSON Merge Patch of the context (mappings merge, null removes, anything else replaces), or JSON Patch operations.
    """

    patch: dict[str, Any] | list[Operation]
    reason: str = ""
    correlation_id: str = ""


class TokenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``step`` runs (once more), with ``args``."""

    step: str
    args: dict[str, Any] = {}
    reason: str = ""
    correlation_id: str = ""


class VariablesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Variables to set, all at once.

    ``variables``: name → value, all of them set at once. ``var_type`` and ``source_step`` are kept with each.
    """

    variables: dict[str, Any]
    var_type: VariableType = "user_defined"
    source_step: str | None = None
    reason: str = ""


# --- answered ---------------------------------------------------------------------------------------


class PlaybookDiagnostic(msgspec.Struct, frozen=True):
    """Something about a playbook.

    ``location``: ``file:line:column``; ``path``: the place in the document; ``fix``: what to write instead.
    ``edit``: the change of the text that says so, where a playbook was checked and there is one.
    """

    location: str
    line: int
    column: int
    severity: Literal["error", "warning"]
    code: str
    message: str
    fix: str | None = None
    path: str | None = None
    edit: TextEdit | None = None


class PlaybookChange(msgspec.Struct, frozen=True):
    """What one rule did at one place. ``line``: of the playbook that was sent."""

    rule: str
    line: int
    before: str
    after: str


class PlaybookNote(msgspec.Struct, frozen=True):
    """What the reader has to check about a place that was rewritten."""

    rule: str
    line: int
    text: str


class PlaybookRefusal(msgspec.Struct, frozen=True):
    """A place that a rule knows and cannot rewrite; ``fix``: what to write instead."""

    rule: str
    line: int
    column: int
    message: str
    fix: str | None = None


class MigratedAnswer(msgspec.Struct, frozen=True):
    """A migrated playbook.

    ``content``: the playbook as far as rules go. ``runs``: it compiles. ``proved``: it did before, and to the same program.
    ``diagnostics``: what keeps it from running beside ``refusals``, at lines of the playbook that was sent.
    """

    content: str
    changed: bool
    runs: bool
    proved: bool
    changes: list[PlaybookChange]
    notes: list[PlaybookNote]
    refusals: list[PlaybookRefusal]
    diagnostics: list[PlaybookDiagnostic]


class FormattedAnswer(msgspec.Struct, frozen=True):
    """A playbook in its layout."""

    content: str
    changed: bool


class RegisteredAnswer(msgspec.Struct, frozen=True):
    """A registered version of a playbook.

    ``created``: this call made the version (the same content at the same path keeps the one it has). ``program``: the compiled form's hash.
    ``catalog_id``: ``path@version``.
    """

    path: str
    version: int
    name: str
    program: str
    catalog_id: str
    created: bool
    warnings: list[PlaybookDiagnostic]
    kind: Literal["playbook"] = "playbook"
    status: Literal["success"] = "success"


class PlaybookLine(msgspec.Struct, frozen=True):
    """A playbook without its text."""

    path: str
    version: int
    name: str
    program: str
    catalog_id: str
    created_at: Timestamp

    @classmethod
    def of(cls, entry: CatalogEntry) -> PlaybookLine:
        return cls(
            entry.path,
            entry.version,
            entry.name,
            entry.program,
            catalog_id(entry),
            Timestamp(entry.created_at),
        )


class PlaybookAnswer(msgspec.Struct, frozen=True):
    """``content``: the YAML text as it was registered."""

    path: str
    version: int
    name: str
    program: str
    catalog_id: str
    created_at: Timestamp
    content: str


class ResourceLine(msgspec.Struct, frozen=True):
    """A playbook, or a credential without its data."""

    path: str
    name: str
    kind: Literal["playbook", "credential"]
    version: int
    created_at: Timestamp
    catalog_id: str | None = None
    type: str | None = None


class ResourcePage(msgspec.Struct, frozen=True):
    """A page of the catalog.

    ``entries``: what was asked for. ``playbooks``: the same playbooks as ``GET /api/catalog`` has them; empty for credentials.
    """

    entries: list[ResourceLine]
    playbooks: list[PlaybookLine]
    next: str | None


class SchemaAnswer(msgspec.Struct, frozen=True):
    """What a payload has to fit.

    ``schema``: the JSON Schema that it is held against. ``workload``: what it is laid over, as it is written.
    """

    path: str
    version: int
    schema: dict[str, Any]
    workload: dict[str, Any] = {}


class PlaybookPage(msgspec.Struct, frozen=True):
    """The latest version of each path, in path order, or the versions of one, newest first.

    ``next``: the cursor of the next page, null on the last.
    """

    playbooks: list[PlaybookLine]
    next: str | None


class StartedAnswer(msgspec.Struct, frozen=True):
    """An execution that was started.

    ``GET /api/executions/{execution_id}/status`` shows its progress.

    ``scheduled``: it starts at ``trigger_at``.

    Asked with ``wait``, ``status`` is that of the execution, ``ended`` says whether it has ended, and ``error`` why it failed. Of one that
    completed, ``result``, ``complete`` and ``downloads`` are as ``GET …/result`` returns them; they are left out where they do not
    fit one answer.
    """

    execution_id: str
    path: str
    version: int | None
    program: str
    status: str = "started"
    commands_generated: int = 0
    trigger_at: TimeText | None = None
    ended: bool | UnsetType = UNSET
    error: dict[str, Any] | UnsetType | None = UNSET
    result: Any = UNSET
    complete: bool | UnsetType = UNSET
    downloads: list[Download] | UnsetType = UNSET


class ExecutionPage(msgspec.Struct, frozen=True):
    """Newest first. ``next``: the cursor of the next page, null on the last."""

    executions: list[ExecutionSummary]
    next: str | None


class StatusAnswer(msgspec.Struct, frozen=True):
    """The status of an execution.

    ``ended``: nothing will happen any more. ``outstanding``: counts of commands, lost ones, timers, outbox.
    ``completed_steps``: those that have left a result, in the playbook's order (at most 200). ``current_step``: one that is under way.
    ``completed``: as ``ended``, for published clients; ``failed`` is true of a cancelled execution, too.
    """

    execution_id: str
    path: str
    name: str
    status: str
    ended: bool
    started_at: Timestamp
    ended_at: Timestamp | None
    duration_ms: int
    parent_execution_id: str | None
    error: dict[str, Any] | None
    outstanding: dict[str, int]
    unreadable: str | None = None
    """Why the state of the execution cannot be read."""
    completed: bool = False
    failed: bool = False
    completed_steps: list[str] = []
    current_step: str | None = None
    version: int | None = None
    program: str = ""
    principal: str = ""
    labels: dict[str, str] = {}
    active_seconds: float = 0.0
    rounds: int = 0


class ExecutionAnswer(msgspec.Struct, frozen=True):
    """An execution with its steps.

    ``steps``: the last of them, when there are very many (``steps_left_out`` counts the others; ``/steps`` pages through all).

    ``parked``: steps that wait for the context; ``waits``: for slots or moments of keys that are shared; ``awaiting``: for callbacks
    (``awaiting_left_out`` counts those of items of loops that are not shown: ``/callbacks`` lists all).
    ``unreadable``: rows of the execution that cannot be read, and why. ``revision`` grows with each change; a hint of the stream whose
    ``version`` is not greater says nothing new, except of loops that run."""

    execution_id: str
    path: str
    name: str
    status: str
    started_at: Timestamp
    ended_at: Timestamp | None
    duration_ms: int
    parent_execution_id: str | None
    steps: list[StepView]
    steps_left_out: int
    error: dict[str, Any] | None
    reason: str
    parked: list[ParkedStep]
    outstanding: dict[str, int]
    waits: list[WaitView] = []
    awaiting: list[AwaitedCallback] = []
    awaiting_left_out: int = 0
    unreadable: list[str] = []
    version: int | None = None
    program: str = ""
    principal: str = ""
    labels: dict[str, str] = {}
    active_seconds: float = 0.0
    """Seconds that it was at work: from start to end without its rests, and without the time between an end and a redrive."""
    rounds: int = 0
    """How often it was redriven."""
    revision: int = 0


class StepPage(msgspec.Struct, frozen=True):
    """Step runs in the order they began. ``waits``: why some of them do not progress."""

    execution_id: str
    steps: list[StepView]
    next: str | None
    waits: list[WaitView] = []


class LoopItemPage(msgspec.Struct, frozen=True):
    """Items of a loop in its order.

    ``next``: pass it as ``?after``; null after the last item that has ended.
    """

    execution_id: str
    run: int
    items: list[LoopItem]
    next: str | None


class EventPage(msgspec.Struct, frozen=True):
    """A page of events. ``next``: pass it as ``?after`` to continue, now or later.

    ``complete``: the execution has ended, and no event follows this page; from the newest on: this page ends with the first event.
    ``more``: stored events follow that this request did not look at. ``scanned``: events that it looked at, whether they fit the filter
    or not; ``scanned_until``: the time of the last of them.
    """

    execution_id: str
    events: list[HistoryEvent]
    next: str
    complete: bool
    more: bool = False
    scanned: int = 0
    scanned_until: TimeText | None = None


class CancelledAnswer(msgspec.Struct, frozen=True):
    """A cancelled execution, and the family that is cancelled with it.

    As every change; and which executions it cancels, the one that was named first (at most 100 are named; ``cancelled_count`` says so).
    """

    execution_id: str
    event_id: str
    cancelled_executions: list[str]
    cancelled_count: int
    message: str
    status: Literal["accepted"] = "accepted"


class AcceptedAnswer(msgspec.Struct, frozen=True):
    """It will be done; ``event_id`` names it in the history."""

    execution_id: str
    event_id: str
    status: Literal["accepted"] = "accepted"


class SchedulePage(msgspec.Struct, frozen=True):
    """By name. ``next``: the cursor of the next page, null on the last."""

    schedules: list[ScheduleView]
    next: str | None


class NextAnswer(msgspec.Struct, frozen=True):
    """The next fire times of a schedule.

    ``times``: ISO 8601 in UTC. ``active`` false: it would fire then, were it not paused or disabled.
    """

    name: str
    active: bool
    times: list[TimeText]


class SavedViewPage(msgspec.Struct, frozen=True):
    views: list[SavedViewAnswer]


class DeletedAnswer(msgspec.Struct, frozen=True):
    name: str
    deleted: Literal[True] = True


class HealthAnswer(msgspec.Struct, frozen=True):
    """``deployment``: what was deployed (stack, version)."""

    status: Literal["ok"]
    deployment: dict[str, str]


class ReadyAnswer(msgspec.Struct, frozen=True):
    """``checks``: ``ok``, or the code of what is wrong."""

    status: Literal["ready", "not_ready"]
    checks: dict[str, str]


class ProblemAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """RFC 9457. ``code`` is stable.

    ``retryable``: the same request may succeed later. ``errors``: what is wrong with a playbook.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    retryable: bool = False
    errors: list[PlaybookDiagnostic] | None = None
    details: dict[str, Any] | None = None
    instance: str | None = None
    request_id: str | None = None


def catalog_id(entry: CatalogEntry) -> str:
    return f"{entry.path}@{entry.version}"


class VariableView(msgspec.Struct, frozen=True):
    """Moments are RFC 3339. ``access_count``: reads of this one, not lists."""

    value: Any
    type: VariableType
    source_step: str | None
    created_at: TimeText
    accessed_at: TimeText
    access_count: int


class VariablesAnswer(msgspec.Struct, frozen=True):
    execution_id: str
    variables: dict[str, VariableView]
    count: int


class VariableAnswer(msgspec.Struct, frozen=True):
    execution_id: str
    var_name: str
    value: Any
    type: VariableType
    source_step: str | None
    created_at: TimeText
    accessed_at: TimeText
    access_count: int


class VariablesSetAnswer(msgspec.Struct, frozen=True):
    execution_id: str
    variables_set: int
    var_names: list[str]


class VariableDeletedAnswer(msgspec.Struct, frozen=True):
    execution_id: str
    var_name: str
    deleted: bool


class CredentialAccessPage(msgspec.Struct, frozen=True):
    """Newest first. ``next``: the cursor of the next page, null on the last."""

    accesses: list[CredentialAccessView]
    next: str | None


class CredentialPage(msgspec.Struct, frozen=True):
    """By name. ``next``: the cursor of the next page, null on the last."""

    credentials: list[CredentialView]
    next: str | None


class CredentialDeletedAnswer(msgspec.Struct, frozen=True):
    name: str
    id: str
    deleted: bool
