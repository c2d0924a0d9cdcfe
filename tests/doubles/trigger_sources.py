"""Everything can be watched, of queues those that are allowed and there; nothing is."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from noetl.domain.automations.trigger_queues import QueueRights
from noetl.domain.automations.triggers import SqsSource
from noetl.domain.errors import InvalidInputError
from noetl.ports.automations.trigger_store import TriggerRow

_READER = "arn:aws:lambda:us-east-1:123456789012:function:scheduler"


class MemoryTriggerSources:
    """``watched``: what was put. ``queues``: ARNs of those that there are."""

    def __init__(self, rights: QueueRights | None = None, queues: Collection[str] = ()) -> None:
        self.watched: dict[str, TriggerRow] = {}
        self._rights = rights or QueueRights(_READER)
        self._queues = queues

    def whole(self, row: TriggerRow) -> TriggerRow:
        if not isinstance(row.source, SqsSource):
            return row
        return replace(row, source=replace(row.source, queue=self._rights.arn(row.source.queue)))

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        return self._rights.refusal(row.source.queue) if isinstance(row.source, SqsSource) else None

    def put(self, row: TriggerRow, before: TriggerRow | None = None) -> None:
        if isinstance(row.source, SqsSource) and row.source.queue not in self._queues:
            raise InvalidInputError(f"there is no queue {row.source.queue}", code="trigger_source_missing")
        self.watched[row.name] = row

    def delete(self, row: TriggerRow) -> None:
        self.watched.pop(row.name, None)
