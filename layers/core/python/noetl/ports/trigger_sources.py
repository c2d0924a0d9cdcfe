"""Port of the watchers of trigger sources.

Adapters: rules of EventBridge and event source mappings of queues, this machine, memory.
"""

from __future__ import annotations

from typing import Protocol

from noetl.ports.trigger_store import TriggerRow


class TriggerSources(Protocol):
    """Raises InfrastructureError when whoever watches cannot be reached, or is still at the last change (tell it again)."""

    def whole(self, row: TriggerRow) -> TriggerRow:
        """With the full name of what it watches, where that has one: a queue's ARN."""

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        """Why nobody here can be made to watch for this, and what to do instead; None: somebody can."""

    def put(self, row: TriggerRow, before: TriggerRow | None = None) -> None:
        """Watch (or, when it is disabled, do not). Only for what is whole and not refused. Repeating it repairs. ``before``: what it was,
        so that what it watched then is watched no more. Raises InvalidInputError for what the service does not take."""

    def delete(self, row: TriggerRow) -> None:
        """Stop watching. No effect when nothing watched."""
