"""Which playbooks start by themselves, as the database knows it.

Adapters: ``adapters/postgres`` and ``adapters/memory``; one contract suite holds both to this text.

Every method is one round trip. Moments are epoch seconds; ``anchor`` is a whole number of them. The clock is the caller's: it decides
when something is looked at, never whether it happens once (that is the idempotency key of the start).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from noetl.domain.automations.missed_run_policy import MOST_CAUGHT_UP, CatchUp, Overlap, SchedulePolicy

SkipCause = Literal["catch_up", "overlap", "refused"]
"""Why a moment started nothing: it was missed, an execution was in the way, or the start was refused."""


class Skipped(NamedTuple):
    """A moment that started nothing, the newest of those that did not."""

    at: float
    reason: str


class ScheduleRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule as it is stored.

    ``version`` None: the latest when it fires. ``declared``: its playbook declares it; otherwise a person made it by hand.
    ``enabled``: what its maker says; ``paused``: what an operator says. ``anchor``: when its timing was set; rates count from it.
    ``next_at`` None: it never fires again. ``last_*``: of its last firing; ``last_error`` states why that started nothing.
    ``latest_execution``: the newest that a firing started. ``skipped_at``: the newest moment that started nothing, which later firings do
    not forget; ``skipped_reason`` states why, and since when if others did before it. ``skips``: the same for each cause. ``catch_up``,
    ``catch_up_max``, ``overlap``: see ``domain/automations/missed_run_policy.py``.
    """

    name: str
    path: str
    anchor: float
    cron: str | None = None
    rate: str | None = None
    timezone: str = "UTC"
    version: int | None = None
    payload: dict[str, Any] = {}
    enabled: bool = True
    paused: bool = False
    declared: bool = False
    next_at: float | None = None
    last_at: float | None = None
    last_execution: int | None = None
    last_error: str = ""
    catch_up: CatchUp = "once"
    catch_up_max: int = MOST_CAUGHT_UP
    overlap: Overlap = "allow"
    latest_execution: int | None = None
    skipped_at: float | None = None
    skipped_reason: str = ""
    skips: Mapping[SkipCause, Skipped] = {}
    unreadable: str = ""
    """Why its row cannot be read: it is shown, and never fires."""

    @property
    def conduct(self) -> SchedulePolicy:
        return SchedulePolicy(self.catch_up, self.catch_up_max, self.overlap)

    @property
    def active(self) -> bool:
        return self.enabled and not self.paused and not self.unreadable


NONE_SKIPPED: Mapping[SkipCause, Skipped] = MappingProxyType({})


class ScheduleStore(Protocol):
    """Raises InfrastructureError when the store cannot be reached (the caller may try again)."""

    def put(self, row: ScheduleRow) -> bool:
        """Make the schedule, or replace the one of this name.

        It replaces its definition and ``next_at``; ``paused``, ``last_*``, ``latest_execution``, ``skipped_*``, ``skips`` and what it started
        stay as they are.

        False, and nothing is changed, when the name belongs to the schedule of another path.
        """

    def get(self, name: str) -> ScheduleRow | None: ...

    def entries(self, *, limit: int, after: str = "") -> Sequence[ScheduleRow]:
        """By name, strictly after ``after``."""

    def of_path(self, path: str, *, limit: int) -> Sequence[ScheduleRow]:
        """Those that start this playbook, by name."""

    def due(self, now: float, limit: int) -> Sequence[ScheduleRow]:
        """Active schedules whose ``next_at`` has come, longest overdue first."""

    def fired(
        self,
        row: ScheduleRow,
        at: float,
        *,
        next_at: float | None,
        execution_id: int | None,
        error: str = "",
        skipped: Mapping[SkipCause, Skipped] = NONE_SKIPPED,
    ) -> bool:
        """Record that ``row`` fired for the moment ``at``, and when it fires next.

        ``skipped``: what replaces ``skips`` of these causes; the newest of them replaces ``skipped_at`` and ``skipped_reason``.

        False, and nothing is changed, when its timing is another by now (``anchor``), or when it fired for this or a later moment
        already: of several processes that fire one moment, one gets True. In any case ``moments`` then knows what was started for it (the
        first record stays), and ``latest_execution`` stays when nothing was.
        """

    def pass_over(self, row: ScheduleRow, next_at: float | None) -> bool:
        """Move the next time of ``row`` to ``next_at`` without a firing.

        The moment that was due is settled already.

        False, and nothing is changed, when its timing (``anchor``) or its next time is another by now.
        """

    def keep_moment(self, name: str, at: float, execution_id: int) -> None:
        """Record what was started for a moment, without a firing.

        The first record of a moment stays. Does nothing when there is no such schedule.
        """

    def moments(self, name: str, since: float, until: float) -> Mapping[float, int]:
        """Return what was started for the moments of ``since`` ≤ at ≤ ``until``, ascending.

        The answer maps moments to executions. It is removed with the schedule.
        """

    def set_paused(self, name: str, paused: bool, next_at: float | None) -> ScheduleRow | None:
        """As it is afterwards; None when there is none."""

    def delete(self, name: str) -> bool:
        """False when there was none."""

    def delete_declared(self, path: str, keep: str = "") -> Sequence[str]:
        """Delete the schedules that the playbook of this path declared, except ``keep``.

        Returns their names.
        """
