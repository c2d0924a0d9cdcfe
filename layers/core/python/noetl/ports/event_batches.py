"""Port of event batches: durable when accepted, handled later, kept for a limited time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

BatchStatus = Literal["accepted", "processing", "completed", "failed"]


class ReportedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one event of a batch.

    ``code``: why it was refused, empty for one that was accepted. ``wanted``: False in answer to a heartbeat of a command whose outcome
    no execution waits for any more.
    """

    event_id: str
    execution_id: str
    code: str = ""
    wanted: bool = True


class EventBatch(msgspec.Struct, frozen=True):
    """A batch of events that a worker posted.

    ``fingerprint``: of the request. ``messages``: what its events say, as queues carry it; empty once they are handled. ``outcomes``: the
    outcome of each event, then. Times are epoch seconds.
    """

    batch_id: int
    fingerprint: str
    status: BatchStatus
    total: int
    messages: list[str]
    outcomes: list[ReportedEvent]
    created_at: float
    ended_at: float | None


class EventBatches(Protocol):
    """Raises InfrastructureError when the store cannot be reached."""

    def accept(
        self, batch_id: int, messages: Sequence[str], *, key: str, fingerprint: str, principal: str
    ) -> tuple[EventBatch, bool]:
        """Keep a batch.

        Of one that was kept under ``key`` before, or, without a key, with all the same under this id: what it is now, and False. Raises
        IdTakenError when another batch has this id.
        """

    def begin(self, batch_id: int, stale_seconds: float) -> EventBatch | None:
        """Take a batch to handle it.

        None: another process handles it (and gave a sign within ``stale_seconds``), or it is over.
        """

    def end(self, batch_id: int, status: BatchStatus, outcomes: Sequence[ReportedEvent]) -> None:
        """It is handled."""

    def get(self, batch_id: int) -> EventBatch | None: ...

    def unfinished(self, left_seconds: float, stale_seconds: float, limit: int) -> Sequence[int]:
        """Return ids of batches that should have been handled by now, the oldest first.

        Either no process began with one that was accepted ``left_seconds`` ago, or the process that began gave no sign for
        ``stale_seconds``.
        """

    def forget(self, older_than_seconds: float, limit: int = 1000) -> None:
        """Drop batches that ended that long ago."""
