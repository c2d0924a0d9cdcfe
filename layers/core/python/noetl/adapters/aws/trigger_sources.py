"""Trigger sources of a deployment: Lambda watches queues, EventBridge everything else."""

from __future__ import annotations

from noetl.adapters.aws.event_rules import EventRules
from noetl.adapters.aws.queue_mappings import QueueMappings
from noetl.ports.automations.trigger_store import TriggerRow


class AwsTriggerSources:
    def __init__(self, rules: EventRules, queues: QueueMappings) -> None:
        self._rules = rules
        self._queues = queues

    def whole(self, row: TriggerRow) -> TriggerRow:
        return self._queues.whole(row) if row.kind == "sqs" else row

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        return self._queues.refusal(row) if row.kind == "sqs" else self._rules.refusal(row)

    def put(self, row: TriggerRow, before: TriggerRow | None = None) -> None:
        if row.kind == "sqs":
            self._queues.put(row, before)
        else:
            # A rule goes by its trigger's name: what it was is replaced.
            self._rules.put(row)

    def delete(self, row: TriggerRow) -> None:
        if row.kind == "sqs":
            self._queues.delete(row)
        else:
            self._rules.delete(row)
