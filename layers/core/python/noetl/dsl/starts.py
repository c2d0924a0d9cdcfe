"""What starts a playbook by itself, as its Program carries it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class ScheduleSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """``metadata.schedule``: one of ``cron`` and ``rate``.

    domain/automations/schedules.py defines them. An empty ``name`` is made of the path that the playbook is registered under.
    ``catch_up``, ``overlap``: see domain/automations/missed_run_policy.py.
    """

    name: str = ""
    cron: str | None = None
    rate: str | None = None
    timezone: str = "UTC"
    payload: dict[str, Any] = {}
    enabled: bool = True
    catch_up: Literal["once", "all", "none"] = "once"
    catch_up_max: int = 100
    overlap: Literal["allow", "skip", "cancel_previous"] = "allow"


class S3Trigger(msgspec.Struct, frozen=True, tag="s3", tag_field="type", omit_defaults=True):
    """Objects of ``bucket`` whose key begins with ``prefix`` and ends with ``suffix``."""

    name: str
    bucket: str
    prefix: str = ""
    suffix: str = ""
    events: tuple[Literal["created", "deleted"], ...] = ("created",)


class EventBridgeTrigger(
    msgspec.Struct, frozen=True, tag="eventbridge", tag_field="type", omit_defaults=True
):
    """``bus``: a name or an ARN."""

    name: str
    pattern: dict[str, Any]
    bus: str = "default"


class SqsTrigger(msgspec.Struct, frozen=True, tag="sqs", tag_field="type", omit_defaults=True):
    """A trigger on an SQS queue. ``queue``: a name or an ARN.

    ``batch``: most messages handed over at once (each starts an execution of its own).
    """

    name: str
    queue: str
    batch: int = 10


Trigger = S3Trigger | EventBridgeTrigger | SqsTrigger
