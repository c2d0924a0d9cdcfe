"""Port of the store of triggers created at run time, with the result of their last firing.

Adapters: ``adapters/postgres`` and ``adapters/memory``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from noetl.domain.automations.triggers import Kind, Source


class TriggerRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A trigger as it is stored.

    ``version`` None: the latest when it fires. ``payload``: the workload, with templates over ``event``; None: ``{event}``.
    ``event_key``: a template whose text identifies a happening; empty: the source's own id. ``generation``: of a webhook's address.
    ``fired``: executions it started, ``failed``: happenings that started none; ``last_*``: of the last one (epoch seconds).
    """

    name: str
    kind: Kind
    path: str
    source: Source
    version: int | None = None
    payload: dict[str, Any] | None = None
    event_key: str = ""
    enabled: bool = True
    generation: int = 1
    created_at: float = 0.0
    last_at: float | None = None
    last_execution: int | None = None
    last_error: str = ""
    fired: int = 0
    failed: int = 0
    unreadable: str = ""
    """Why its row cannot be read. It is shown, but ``source`` and ``payload`` say nothing, and nothing is watched."""


class TriggerStore(Protocol):
    """Raises InfrastructureError when the store cannot be reached (the caller may try again)."""

    def put(self, row: TriggerRow) -> TriggerRow:
        """Make or replace the trigger of this name, and return it as it is stored.

        The time it was made and its counters stay.
        """

    def get(self, name: str) -> TriggerRow | None: ...

    def entries(self, *, limit: int, after: str = "", kind: str = "") -> Sequence[TriggerRow]:
        """By name, strictly after ``after``; with a kind, only those of it that are enabled."""

    def of_path(self, path: str, *, limit: int) -> Sequence[TriggerRow]:
        """Those that start this playbook, enabled or not, by name."""

    def of_queue(self, arn: str) -> Sequence[TriggerRow]:
        """Those that read the queue of this ARN, enabled or not, by name."""

    def fired(self, name: str, execution_id: int | None, *, fresh: bool = True, error: str = "") -> None:
        """Record a happening: it started this execution, or nothing (``error``).

        ``fresh`` False: an earlier report of it had started the execution. Does nothing when there is no such trigger.
        """

    def delete(self, name: str) -> bool:
        """False when there was none."""
