"""Who watches for what triggers wait for. Adapters: rules of EventBridge, this machine, memory."""

from __future__ import annotations

from typing import Protocol

from noetl.domain.triggers import Kind
from noetl.ports.trigger_store import TriggerRow


class TriggerSources(Protocol):
    """Raises InfrastructureError when whoever watches cannot be reached."""

    def refusal(self, row: TriggerRow) -> tuple[str, str] | None:
        """Why nobody here can be made to watch for this, and what to do instead; None: somebody can."""

    def put(self, row: TriggerRow) -> None:
        """Watch (or, when it is disabled, do not). Only for what is not refused. Repeating it repairs. Raises InvalidInputError for what
        the service does not take."""

    def delete(self, name: str, kind: Kind) -> None:
        """Watch no more. Nothing when nobody did."""
