"""Triggers on queues as event source mappings.

Lambda reads the queue for the scheduler function.

Lambda reads with the function's role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from noetl.adapters.aws.clients import FAILURES, answering, error_code, error_message
from noetl.domain.automations.trigger_queues import QueueRights
from noetl.domain.automations.triggers import SqsSource
from noetl.domain.errors import InfrastructureError, InvalidInputError, NoetlError
from noetl.ports.automations.trigger_store import TriggerRow

CONCURRENCY = 2
"""Batches of one queue that are handed over at once: as for the queues of metadata.triggers."""
_REFUSED = frozenset({"InvalidParameterValueException", "ValidationException"})
_BUSY = frozenset({"ResourceInUseException", "ResourceConflictException"})
_GOING = ("Deleting",)


class QueueMappings:
    """Event source mappings of the scheduler function: one per queue.

    One mapping per queue means one trigger per queue.

    The API may make mappings of ``rights.reader`` alone, and that function may read the allowed queues alone: Lambda refuses a request
    beyond that as well.
    """

    def __init__(self, rights: QueueRights, client: Any) -> None:
        self._rights = rights
        self._client = client

    def whole(self, row: TriggerRow) -> TriggerRow:
        source = _source(row)
        return replace(row, source=replace(source, queue=self._rights.arn(source.queue)))

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        return self._rights.refusal(_source(row).queue)

    def put(self, row: TriggerRow, before: TriggerRow | None = None) -> None:
        """Create or update the mapping of a trigger.

        Raises InvalidInputError(code="trigger_source_missing", "trigger_refused"), InfrastructureError(code="trigger_busy").
        """
        with answering("lambda"):
            try:
                self._put(row)
            except FAILURES as error:
                problem = _problem(row, error)
                if problem is None:
                    raise
                raise problem from error
        if before is not None and _source(before).queue != _source(row).queue:
            self.delete(before)

    def _put(self, row: TriggerRow) -> None:
        source = _source(row)
        wanted = {
            "BatchSize": source.batch,
            "Enabled": row.enabled,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "ScalingConfig": {"MaximumConcurrency": CONCURRENCY},
        }
        found = self._find(source.queue)
        if found is None:
            self._client.create_event_source_mapping(
                EventSourceArn=source.queue, FunctionName=self._rights.reader, **wanted
            )
        elif not _is(found, wanted):
            self._client.update_event_source_mapping(UUID=found["UUID"], **wanted)

    def delete(self, row: TriggerRow) -> None:
        """Delete the mapping of a trigger.

        Does nothing where no queue is allowed: then the API has no right to change mappings either.
        """
        if not self._rights.allowed:
            return
        with answering("lambda"):
            found = self._find(self._rights.arn(_source(row).queue))
            if found is None:
                return
            try:
                self._client.delete_event_source_mapping(UUID=found["UUID"])
            except FAILURES as error:
                if error_code(error) == "ResourceNotFoundException":
                    return
                if error_code(error) in _BUSY:
                    raise _busy(row, error) from error
                raise

    def _find(self, arn: str) -> Mapping[str, Any] | None:
        answer = self._client.list_event_source_mappings(EventSourceArn=arn, FunctionName=self._rights.reader)
        found = [one for one in answer["EventSourceMappings"] if one.get("State") not in _GOING]
        return found[0] if found else None


def _is(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether the mapping is as wanted; False while Lambda makes or updates it."""
    states = ("Enabled", "Enabling") if wanted["Enabled"] else ("Disabled", "Disabling")
    same = all(found.get(name) == value for name, value in wanted.items() if name != "Enabled")
    return same and found.get("State") in states


def _busy(row: TriggerRow, error: Exception) -> InfrastructureError:
    return InfrastructureError(
        f"Lambda is still at the last change of how {_source(row).queue} is read: {error_message(error)}",
        code="trigger_busy",
        hint="try again in a few seconds",
    )


def _problem(row: TriggerRow, error: Exception) -> NoetlError | None:
    """Map Lambda's error to an error of NoETL; None for one without a special meaning."""
    code, message, queue = error_code(error), error_message(error), _source(row).queue
    if code in _BUSY:
        return _busy(row, error)
    # Lambda tells of a queue that is not there in the words of SQS.
    if "NonExistentQueue" in message or (code == "ResourceNotFoundException" and "Function" not in message):
        return InvalidInputError(
            f"there is no queue {queue}",
            code="trigger_source_missing",
            hint=f"`aws sqs create-queue --queue-name {queue.rpartition(':')[2]}` makes it; of another account give its ARN",
        )
    if code in _REFUSED:
        return InvalidInputError(
            f"Lambda does not take the trigger {row.name!r} on {queue}: {message}",
            code="trigger_refused",
            hint="its visibility timeout is at least 30 seconds, and its key lets the scheduler function's role decrypt",
        )
    return None


def _source(row: TriggerRow) -> SqsSource:
    assert isinstance(row.source, SqsSource)
    return row.source
