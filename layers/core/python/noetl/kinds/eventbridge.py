"""The kind ``eventbridge``: puts events on an EventBridge bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.cloud.aws_client import AwsParams, answering, client

SPEC = KindSpec(
    name="eventbridge",
    summary="Puts events on an EventBridge bus.",
    pool="io",
    default_timeout=30.0,
    aliases={"event_bus": "bus", "event_bus_name": "bus"},
    result_fields=("count", "event_ids"),
    needs_network=True,
    extra="aws",
)

EXAMPLE: dict[str, Any] = {
    "bus": "orders",
    "source": "shop.checkout",
    "detail_type": "order placed",
    "detail": {"order": 17},
}

MOST_EVENTS = 1000
PER_REQUEST = 10
MOST_BYTES = 256 * 1024
"""Bytes of a request's entries, and so of one event (quotas of PutEvents)."""


class Entry(BaseModel):
    """One of ``events``; ``source`` and ``detail_type`` default to those beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    detail: Annotated[dict[str, Any], Field(description="What happened.")]
    source: Annotated[str | None, Field(min_length=1, max_length=256, description="Who says it.")] = None
    detail_type: Annotated[
        str | None, Field(min_length=1, max_length=128, description="What kind of event.")
    ] = None
    resources: Annotated[list[str], Field(description="ARNs it is about.")] = Field(default_factory=list)


class Params(AwsParams):
    """One event (``detail``) or several (``events``)."""

    refused: ClassVar[Mapping[str, str]] = {"time": "EventBridge notes when it got the event"}

    bus: Annotated[
        str, Field(pattern=r"^[/.A-Za-z0-9_:-]{1,1600}$", description="Name or ARN of the bus.")
    ] = "default"
    source: Annotated[str | None, Field(min_length=1, max_length=256, description="Who says it.")] = None
    detail_type: Annotated[
        str | None, Field(min_length=1, max_length=128, description="What kind of event.")
    ] = None
    detail: Annotated[dict[str, Any] | None, Field(description="What happened.")] = None
    resources: Annotated[list[str], Field(description="ARNs it is about.")] = Field(default_factory=list)
    events: Annotated[
        list[Entry] | None, Field(min_length=1, max_length=MOST_EVENTS, description="Several events.")
    ] = None

    @model_validator(mode="after")
    def _one_way(self) -> Params:
        if (self.detail is None) == (self.events is None):
            raise ValueError("give one event as `detail`, or several as `events`")
        return self


def run(params: Params, context: TaskContext) -> TaskResult:
    """Put the events: ``{count, event_ids}``, in the order of the events.

    An event that was refused is sent again alone once; what is refused then fails the task, and the error names the events that were
    taken. Raises TaskError: ``event_invalid`` (schema), ``events_refused``, or the code of EventBridge.
    """
    entries = [
        _entry(one, params)
        for one in params.events or [Entry(detail=params.detail or {}, resources=params.resources)]
    ]
    service = client("events", params, context)
    taken: dict[int, str] = {}
    waiting = list(range(len(entries)))
    for _ in range(2):
        refused: dict[int, str] = {}
        for numbers in _requests(entries, waiting):
            with answering("events", f"the bus {params.bus}"):
                answer = service.put_events(Entries=[entries[number] for number in numbers])
            for number, entry_answer in zip(numbers, answer["Entries"], strict=True):
                if "EventId" in entry_answer:
                    taken[number] = str(entry_answer["EventId"])
                else:
                    refused[number] = str(entry_answer.get("ErrorCode"))
        waiting = list(refused)
        if not waiting:
            return TaskResult({"count": len(taken), "event_ids": [taken[number] for number in sorted(taken)]})
    raise TaskError(
        f"the bus {params.bus} refused {len(refused)} of {len(entries)} events; event {waiting[0]}: {refused[waiting[0]]}",
        kind="rate_limit" if "Throttling" in refused[waiting[0]] else "server_error",
        code="events_refused",
        retryable=True,
        details={"refused": waiting[:100], "taken": len(taken)},
    )


def _entry(one: Entry, params: Params) -> dict[str, Any]:
    source, detail_type = one.source or params.source, one.detail_type or params.detail_type
    if not source or not detail_type:
        raise TaskError(
            "an event needs `source` and `detail_type`",
            kind="schema",
            code="event_invalid",
            hint="give them once beside `events`",
        )
    if source.startswith("aws."):
        raise TaskError(f"the source {source!r} belongs to AWS", kind="schema", code="event_invalid")
    made = {
        "EventBusName": params.bus,
        "Source": source,
        "DetailType": detail_type,
        "Detail": codec.encode(one.detail).decode(),
        "Resources": one.resources,
    }
    if _size(made) > MOST_BYTES:
        raise TaskError(
            f"an event of {_size(made)} bytes; EventBridge takes {MOST_BYTES}",
            kind="schema",
            code="event_invalid",
            hint="put what is large into a bucket, and its address into the event",
        )
    return made


def _size(entry: Mapping[str, Any]) -> int:
    """Count bytes as EventBridge does: the texts in UTF-8.

    (Its documentation, "Calculating event size".)
    """
    texts = [entry["Source"], entry["DetailType"], entry["Detail"], *entry["Resources"]]
    return sum(len(text.encode()) for text in texts)


def _requests(entries: list[dict[str, Any]], numbers: list[int]) -> list[list[int]]:
    """Split events into requests within EventBridge's limits of count and size."""
    made: list[list[int]] = []
    room = 0
    for number in numbers:
        size = _size(entries[number])
        if not made or len(made[-1]) == PER_REQUEST or size > room:
            made.append([])
            room = MOST_BYTES
        made[-1].append(number)
        room -= size
    return made
