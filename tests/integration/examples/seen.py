"""What a test of an example asks about the history of a run, wherever it ran."""

from __future__ import annotations

from noetl.services.history.read_history import HistoryEvent


class Seen:
    events: list[HistoryEvent]

    def entered(self, step: str) -> int:
        return sum(event.event_type == "step.enter" and event.entity_id == step for event in self.events)

    def count(self, name: str, step: str | None = None) -> int:
        return sum(
            event.event_type == name and step in (None, event.entity_id, event.meta.get("step"))
            for event in self.events
        )
