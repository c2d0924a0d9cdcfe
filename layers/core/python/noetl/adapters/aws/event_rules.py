"""Triggers as EventBridge rules that invoke the scheduler function: S3 objects and events.

Also triggers that need no rule (webhooks), and those that AWS cannot watch (folders).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from noetl.adapters.aws.clients import FAILURES, answering, error_code, error_message
from noetl.domain.automations.triggers import EventBridgeSource, S3Source
from noetl.domain.errors import InvalidInputError
from noetl.dsl.program import S3Trigger
from noetl.dsl.triggers import event_pattern
from noetl.ports.automations.trigger_store import TriggerRow

TARGET = "scheduler"
MAX_RULE = 64
_REFUSED = frozenset({"InvalidEventPatternException", "ValidationException", "LimitExceededException"})
_RETRY = {"MaximumRetryAttempts": 24, "MaximumEventAgeInSeconds": 86_400}
_DECLARE = "declare it in the playbook (metadata.triggers), and deploy"


class EventRules:
    """Triggers as rules of EventBridge.

    ``prefix``: of every rule's name; the function's permissions are limited to it. ``target_arn``: the scheduler function, which gets
    ``{"trigger": name, "event": …}``. ``dead_letter_arn``: the queue of events that could not be delivered.
    """

    def __init__(self, prefix: str, target_arn: str, dead_letter_arn: str, client: Any) -> None:
        self._prefix = prefix
        self._target_arn = target_arn
        self._dead_letter_arn = dead_letter_arn
        self._client = client

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        if row.kind == "file":
            return (
                "a deployment has no folders to watch",
                "put the files into a bucket, and use an s3 trigger",
            )
        if isinstance(row.source, EventBridgeSource) and row.source.bus != "default":
            return (
                f"the function may be invoked by rules of the default bus, not of {row.source.bus[:80]}",
                f"send the bus's events on to the default one, or {_DECLARE}",
            )
        return None

    def put(self, row: TriggerRow) -> None:
        """Create or update the rule of a trigger.

        Raises InvalidInputError(code="trigger_refused") with the message of EventBridge.
        """
        if row.kind == "webhook":
            return
        with answering("events"):
            self._put(row)

    def _put(self, row: TriggerRow) -> None:
        name = self.rule(row.name)
        target: dict[str, Any] = {
            "Id": TARGET,
            "Arn": self._target_arn,
            "InputTransformer": {
                "InputPathsMap": {"event": "$"},
                "InputTemplate": f'{{"trigger": {json.dumps(row.name)}, "event": <event>}}',
            },
            "RetryPolicy": dict(_RETRY),
        }
        if self._dead_letter_arn:
            target["DeadLetterConfig"] = {"Arn": self._dead_letter_arn}
        try:
            self._client.put_rule(
                Name=name,
                EventPattern=json.dumps(_pattern(row)),
                State="ENABLED" if row.enabled else "DISABLED",
                Description=f"Starts {row.path} (trigger {row.name})"[:512],
            )
            answer = self._client.put_targets(Rule=name, Targets=[target])
        except FAILURES as error:
            if error_code(error) not in _REFUSED:
                raise
            raise _refused(row, error_message(error)) from error
        if answer.get("FailedEntries"):
            self.delete(row)
            raise _refused(row, str(answer["FailedEntries"][0].get("ErrorMessage", "")))

    def delete(self, row: TriggerRow) -> None:
        if row.kind not in ("s3", "eventbridge"):
            return
        rule = self.rule(row.name)
        with answering("events"):
            try:
                self._client.remove_targets(Rule=rule, Ids=[TARGET])
                self._client.delete_rule(Name=rule)
            except FAILURES as error:
                if error_code(error) != "ResourceNotFoundException":
                    raise

    def rule(self, name: str) -> str:
        """Return the rule's name: at most 64 characters, so a long one ends with a hash.

        A name as long as the names with a hash gets a hash too: otherwise a trigger could have the very name of another trigger's rule.
        """
        whole = self._prefix + name
        if len(whole) < MAX_RULE:
            return whole
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        return f"{whole[: MAX_RULE - 13]}-{digest}"


def _pattern(row: TriggerRow) -> dict[str, Any]:
    source = row.source
    if isinstance(source, S3Source):
        return event_pattern(S3Trigger(row.name, source.bucket, source.prefix, source.suffix, source.events))
    assert isinstance(source, EventBridgeSource)
    return source.pattern


def _refused(row: TriggerRow, message: str) -> InvalidInputError:
    return InvalidInputError(
        f"EventBridge does not take the trigger {row.name!r}: {message}", code="trigger_refused"
    )
