"""Bodies about the running system.

Rendering, analysis, queues, workers, and events that come in.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from noetl.api.http.waiting import LONGEST
from noetl.domain.text.timestamps import Timestamp
from noetl.ports.event_batches import BatchStatus, ReportedEvent
from noetl.ports.executions.inspection import Lease, PoolWork
from noetl.ports.gauges import QueueGauge
from noetl.ports.workers import WorkerPool
from noetl.services.orchestrator.ingest_worker_events import EventReport
from noetl.services.queries.limits import LimitView
from noetl.services.queries.rendered_values import RenderError


class RenderBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A template to render.

    ``template``: a text, or any JSON with texts in it. ``step``: with the arguments of this step's run that is under way.
    ``extra_context``: further names, which win. ``strict``: refuse (422) unless everything can be rendered. ``at``: as the execution was at
    this moment of its history (see `GET /api/executions/{execution_id}/state`).
    """

    execution_id: str | int
    template: Any
    step: str | None = None
    extra_context: dict[str, Any] = {}
    strict: bool = False
    at: str | None = None


class QueuesAnswer(msgspec.Struct, frozen=True):
    """Queues, and the commands that are not answered.

    ``queues``: as they count themselves. ``pools``, ``leases``: commands that are not answered, as the store knows them. ``events``: in the
    outbox. ``partly``: there are more commands than were looked at (the oldest).
    """

    queues: list[QueueGauge]
    pools: list[PoolWork]
    leases: list[Lease]
    events: int
    timers: int
    partly: bool


class RenderedAnswer(msgspec.Struct, frozen=True):
    """A rendered template.

    ``rendered``: the template with each text replaced by its value, types kept; null where one could not be rendered.
    ``context_keys``: the names there are."""

    execution_id: str
    rendered: Any
    errors: list[RenderError]
    context_keys: list[str]
    status: Literal["ok", "partial"] = "ok"


class EventsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``events``: 1 to 256, each as ``POST /api/events`` takes it, and with its ``command``."""

    events: list[EventReport]


class EventAnswer(msgspec.Struct, frozen=True):
    """The answer to an event.

    ``accepted``: the engine handles it; the history shows whether it still fitted then. ``wanted``: false in answer to a heartbeat of a
    command whose outcome is not needed any more, because its execution or step run has ended or another worker has it.
    """

    event_id: str
    execution_id: str
    status: Literal["accepted"] = "accepted"
    commands_generated: int = 0
    wanted: bool = True


class BatchAnswer(msgspec.Struct, frozen=True):
    """An accepted batch of events.

    ``request_id``: asks for the status. ``duplicate``: it was accepted before, under the same key.
    """

    request_id: str
    events: int
    duplicate: bool
    status: BatchStatus
    idempotency_key: str | None = None
    commands_generated: int = 0


class BatchStatusAnswer(msgspec.Struct, frozen=True):
    """The status of a batch of events.

    ``told``: the outcome of each event, in order, when the batch is over; ``failed`` when any was refused.
    """

    request_id: str
    status: BatchStatus
    events: int
    taken: int
    refused: int
    told: list[ReportedEvent]
    created_at: Timestamp
    ended_at: Timestamp | None


class WorkerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``pool``: whose commands it takes. ``capacity``: how many at once."""

    name: str
    pool: str = "io"
    capacity: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1


class WorkerNameBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class WorkerAnswer(msgspec.Struct, frozen=True):
    """A registered worker.

    ``lease_seconds``: the silence after which another worker gets its command.
    """

    worker: WorkerPool
    lease_seconds: float


class PoolView(msgspec.Struct, frozen=True):
    """A pool of workers.

    ``workers``: that live; together they run ``capacity`` commands at once, and ``running`` now.
    """

    pool: str
    workers: int
    capacity: int
    running: int


class WorkersAnswer(msgspec.Struct, frozen=True):
    """Pools and their workers.

    ``workers``: those that have registered, also those that have been silent for a while (``alive: false``; after ten minutes they are
    forgotten). ``pools``: of those that live.
    """

    workers: list[WorkerPool]
    pools: list[PoolView]


class ClaimBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``name``: of the worker, as it is registered.

    ``wait``: seconds to wait for a command where none is there.
    """

    name: str
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST)] = 0.0


class ClaimOneBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` (or ``worker_id``): of the worker, as it is registered."""

    name: str = ""
    worker_id: str = ""


class ClaimedCommand(msgspec.Struct, frozen=True):
    """A claimed command. ``command``: send it back with the outcome.

    ``message``: the whole command, as queues carry it.
    """

    execution_id: str
    command_id: str
    step: str
    pool: str
    attempt: int
    turn: int
    command: str
    message: str


class ClaimOneAnswer(msgspec.Struct, frozen=True):
    command: ClaimedCommand
    lease_seconds: float


class ClaimedAnswer(msgspec.Struct, frozen=True):
    commands: list[ClaimedCommand]
    lease_seconds: float


class GiveBackBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``command``: what came with it."""

    command: str


class StoredAnswer(msgspec.Struct, frozen=True):
    status: Literal["stored", "given_back", "not_held"]


class KeptResult(msgspec.Struct, frozen=True):
    """``store``: the tier that the value is in, for its reference."""

    status: Literal["stored"]
    store: str


class LimitPage(msgspec.Struct, frozen=True):
    limits: list[LimitView]
    next: str | None


class LimitRemovedAnswer(msgspec.Struct, frozen=True):
    key: str
    removed: bool
