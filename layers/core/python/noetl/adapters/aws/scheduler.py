"""Schedules as entries of one group of EventBridge Scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.adapters.aws.clients import FAILURES, answering, error_code, error_message, unreachable
from noetl.adapters.aws.cron import aws_cron, aws_rate
from noetl.adapters.schedule_entry import check_entry, is_name
from noetl.domain import codec
from noetl.domain.automations.missed_run_policy import CatchUp
from noetl.domain.errors import InvalidInputError
from noetl.ports.automations.schedules import ScheduleEntry

MAX_INPUT = 256 * 1024
MOST_RETRIES = 185
RETRY: dict[CatchUp, dict[str, int]] = {
    "none": {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 5},
    "once": {"MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 30},
    "all": {"MaximumEventAgeInSeconds": 86_400, "MaximumRetryAttempts": MOST_RETRIES},
}
"""How long a moment is delivered again; a minute is the least and a day the most that the service takes."""
TIME = "<aws.scheduler.scheduled-time>"


class EventBridgeSchedules:
    """Schedules as entries of EventBridge Scheduler.

    ``target_arn``: the scheduler function; ``role_arn``: may invoke it. ``dead_letter_arn``: a queue for starts that failed for good.

    A target receives ``{"schedule", "path", "version", "payload", "scheduled_time"}``. The description keeps the expression as written.
    Schedules of the group that were not made by this class are left alone and not listed.
    """

    def __init__(
        self, group: str, target_arn: str, role_arn: str, client: Any, *, dead_letter_arn: str = ""
    ) -> None:
        self._group = group
        self._target_arn = target_arn
        self._role_arn = role_arn
        self._client = client
        self._dead_letter_arn = dead_letter_arn

    def put(self, entry: ScheduleEntry) -> None:
        """Create or update a schedule's entry.

        Raises InvalidInputError: the codes of ``check_entry``, ``cron_too_long``, ``schedule_too_large``, ``schedule_refused`` (by the
        service).
        """
        wanted = self._request(check_entry(entry))
        with answering("scheduler"):
            try:
                self._create_or_update(wanted)
            except FAILURES as error:
                if error_code(error) != "ValidationException":
                    raise
                message = error_message(error)
                raise InvalidInputError(
                    f"EventBridge Scheduler does not take schedule {entry.name!r}: {message}",
                    code="schedule_refused",
                ) from error

    def delete(self, name: str) -> bool:
        if not is_name(name):
            return False
        try:
            self._client.delete_schedule(GroupName=self._group, Name=name)
        except FAILURES as error:
            if error_code(error) == "ResourceNotFoundException":
                return False
            raise unreachable(error, "scheduler") from error
        return True

    def get(self, name: str) -> ScheduleEntry | None:
        return self._read(name) if is_name(name) else None

    def entries(self) -> Sequence[ScheduleEntry]:
        with answering("scheduler"):
            pages = self._client.get_paginator("list_schedules").paginate(GroupName=self._group)
            names = [found["Name"] for page in pages for found in page["Schedules"]]
        found = filter(None, map(self._read, names))
        return sorted(found, key=lambda entry: entry.name)

    def _create_or_update(self, wanted: dict[str, Any]) -> None:
        try:
            self._client.create_schedule(**wanted)
        except FAILURES as error:
            if error_code(error) != "ConflictException":
                raise
            self._client.update_schedule(**wanted)

    def _read(self, name: str) -> ScheduleEntry | None:
        """Read an entry; None when it is missing, or when another system made it."""
        try:
            found = self._client.get_schedule(GroupName=self._group, Name=name)
        except FAILURES as error:
            if error_code(error) == "ResourceNotFoundException":
                return None
            raise unreachable(error, "scheduler") from error
        return _entry(found)

    def _request(self, entry: ScheduleEntry) -> dict[str, Any]:
        target: dict[str, Any] = {
            "Arn": self._target_arn,
            "RoleArn": self._role_arn,
            "Input": _input(entry),
            "RetryPolicy": dict(RETRY[entry.catch_up]),
        }
        if self._dead_letter_arn:
            target["DeadLetterConfig"] = {"Arn": self._dead_letter_arn}
        return {
            "GroupName": self._group,
            "Name": entry.name,
            "Description": f"cron: {entry.cron}" if entry.cron is not None else f"rate: {entry.rate}",
            "ScheduleExpression": aws_cron(entry.cron)
            if entry.cron is not None
            else aws_rate(entry.rate or ""),
            "ScheduleExpressionTimezone": entry.timezone,
            "State": "ENABLED" if entry.enabled else "DISABLED",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": target,
        }


def _input(entry: ScheduleEntry) -> str:
    facts = {
        "schedule": entry.name,
        "path": entry.path,
        "version": entry.version,
        "payload": entry.payload,
    }
    # The service replaces <aws.scheduler.…> wherever it stands: what a payload says is not for it to read.
    text = codec.encode(facts).decode().replace("<", "\\u003c")
    text = f'{text[:-1]},"scheduled_time":"{TIME}"}}'
    size = len(text.encode())
    if size > MAX_INPUT:
        raise InvalidInputError(
            f"the payload of schedule {entry.name!r} makes {size} bytes; EventBridge Scheduler takes {MAX_INPUT}",
            code="schedule_too_large",
        )
    return text


def _entry(found: dict[str, Any]) -> ScheduleEntry | None:
    word, separator, expression = str(found.get("Description") or "").partition(": ")
    try:
        target = found["Target"]
        facts = codec.decode(target.get("Input") or "null")
        if not separator or word not in ("cron", "rate"):
            return None
        return ScheduleEntry(
            name=facts["schedule"],
            path=facts["path"],
            cron=expression if word == "cron" else None,
            rate=expression if word == "rate" else None,
            timezone=found.get("ScheduleExpressionTimezone") or "UTC",
            version=facts["version"],
            payload=facts["payload"],
            enabled=found.get("State") != "DISABLED",
            catch_up=_catch_up(target.get("RetryPolicy")),
        )
    except (ValueError, TypeError, KeyError):
        return None


def _catch_up(policy: dict[str, int] | None) -> CatchUp:
    age = (policy or {}).get("MaximumEventAgeInSeconds")
    return next((word for word, policy in RETRY.items() if policy["MaximumEventAgeInSeconds"] == age), "once")
