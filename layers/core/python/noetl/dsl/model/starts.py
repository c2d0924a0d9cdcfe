"""What starts a playbook by itself: ``metadata.schedule`` and ``metadata.triggers``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, WithJsonSchema, model_validator

from noetl.domain.automations.missed_run_policy import MOST_CAUGHT_UP
from noetl.dsl.model.start_types import (
    Bucket,
    Bus,
    CatchUpMost,
    Cron,
    KeyPart,
    Pattern,
    Payload,
    Queue,
    Rate,
    ScheduleName,
    Zone,
)
from noetl.dsl.model.types import Identifier, Strict, problem


class ScheduleBlock(Strict):
    """``metadata.schedule``."""

    name: ScheduleName | None = None
    cron: Cron | None = None
    rate: Rate | None = None
    timezone: Zone = "UTC"
    payload: Payload = Field(default_factory=dict)
    enabled: bool = True
    catch_up: Literal["once", "all", "none"] = "once"
    catch_up_max: CatchUpMost = MOST_CAUGHT_UP
    overlap: Literal["allow", "skip", "cancel_previous"] = "allow"

    @model_validator(mode="after")
    def _one_rhythm(self) -> ScheduleBlock:
        if (self.cron is None) == (self.rate is None):
            many = "both cron and rate" if self.cron is not None else "neither cron nor rate"
            raise problem(
                "schedule-rhythm", f"the schedule has {many}", "write cron: 0 6 * * 1-5, or rate: 5 minutes"
            )
        return self


class S3TriggerBlock(Strict):
    """An object appears in (or disappears from) a bucket that reports to EventBridge."""

    type: Literal["s3"]
    name: Identifier | None = None
    bucket: Bucket
    prefix: KeyPart = ""
    suffix: KeyPart = ""
    events: list[Literal["created", "deleted"]] = Field(default=["created"], min_length=1)


class EventBridgeTriggerBlock(Strict):
    """An event on a bus matches a pattern."""

    type: Literal["eventbridge"]
    name: Identifier | None = None
    pattern: Pattern
    bus: Bus = "default"


class SqsTriggerBlock(Strict):
    """A message arrives in a queue."""

    type: Literal["sqs"]
    name: Identifier | None = None
    queue: Queue
    batch: int = Field(default=10, ge=1, le=10)


class UnknownTriggerBlock(Strict):
    """Only to say which types there are."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: Literal["s3", "eventbridge", "sqs"]


def _trigger(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    return f"<{kind}>" if kind in ("s3", "eventbridge", "sqs") else "<unknown>"


Trigger = Annotated[
    Annotated[S3TriggerBlock, Tag("<s3>")]
    | Annotated[EventBridgeTriggerBlock, Tag("<eventbridge>")]
    | Annotated[SqsTriggerBlock, Tag("<sqs>")]
    | Annotated[UnknownTriggerBlock, Tag("<unknown>"), WithJsonSchema({"not": {}})],
    Discriminator(_trigger),
]
