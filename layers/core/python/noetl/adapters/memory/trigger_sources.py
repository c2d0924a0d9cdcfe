"""Everything but queues can be watched; nothing is."""

from __future__ import annotations

from noetl.domain.triggers import Kind
from noetl.ports.trigger_store import TriggerRow


class MemoryTriggerSources:
    """``watched``: what was put."""

    def __init__(self) -> None:
        self.watched: dict[str, TriggerRow] = {}

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        return ("nobody watches queues here", "watch something else") if row.kind == "sqs" else None

    def put(self, row: TriggerRow) -> None:
        self.watched[row.name] = row

    def delete(self, name: str, kind: Kind) -> None:
        self.watched.pop(name, None)
