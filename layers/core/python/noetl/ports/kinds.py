"""Port: the tool kinds, as a worker calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import ChildRequest, PollRequest, WaitRequest


class Kinds(Protocol):
    """The registry as a worker uses it (``noetl.kinds.registry.Registry``)."""

    def spec(self, name: str) -> KindSpec:
        """Return the facts of a kind. Raises KeyError."""

    def prepare(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> None:
        """Get ready for a call that may follow.

        It has no effect outside of this machine, and raises nothing.
        """

    def is_unseen(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> bool:
        """Return whether others see no more of this call than its result and its lines."""

    def is_at_hand(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> bool:
        """Return whether an unseen call can be made now, without getting ready for it."""

    def run(
        self, name: str, raw_params: Mapping[str, Any], context: TaskContext
    ) -> TaskResult | ChildRequest | WaitRequest | PollRequest:
        """Call a kind. Raises TaskError, and other NoETL errors."""

    def stop(self, name: str, state: Mapping[str, Any], context: TaskContext) -> None:
        """End the external job that a call began. Raises KeyError, and NoETL errors."""
