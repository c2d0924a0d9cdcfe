"""Port of the watchers of trigger sources.

Adapters: rules of EventBridge and event source mappings of queues, this machine, memory.
"""

from __future__ import annotations

from typing import Protocol

from noetl.ports.automations.trigger_store import TriggerRow


class TriggerSources(Protocol):
    """Sources of triggers that watch for happenings: queues, buckets, buses.

    Raises InfrastructureError when the watching service cannot be reached, or still applies the last change (repeat the call then).
    """

    def whole(self, row: TriggerRow) -> TriggerRow:
        """With the full name of what it watches, where that has one: a queue's ARN."""

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        """Return why no service here can watch for this, and what to do instead; None: one can."""

    def put(self, row: TriggerRow, before: TriggerRow | None = None) -> None:
        """Watch (or, when it is disabled, do not).

        Only for what is whole and not refused. Repeating it repairs. ``before``: what it was, so that what it watched then is watched no
        more. Raises InvalidInputError for what the service does not take.
        """

    def delete(self, row: TriggerRow) -> None:
        """Stop watching. No effect when nothing watched."""
