"""Port of retention: removes executions that ended long ago, with all their rows.

Adapters: ``adapters/postgres`` and ``adapters/memory``.

An execution goes with everything it started: a tree of executions is left alone until its last member has ended, since a result of one may
be read by another; and while an execution of another tree lives that received a reference to one of its results.
Every call is one bounded statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Removed(msgspec.Struct, frozen=True):
    """Rows that are gone."""

    executions: int = 0
    events: int = 0
    variables: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.executions + other.executions, self.events + other.events, self.variables + other.variables
        )


Listed = tuple[int, str, str]
"""A result that lives differently from its execution: execution, reference, store."""


class Expired(msgspec.Struct, frozen=True):
    """Results whose time is over.

    ``after``: where the next call continues; None: everything was looked at.
    """

    results: tuple[Listed, ...]
    after: int | None


NOTHING = range(0)


class HistoryLayout(msgspec.Struct, frozen=True):
    """Which history retention drops by partitions, and which it deletes by rows.

    ``deferred``: ids of executions whose history may stay when they are removed: it is dropped with its partition soon. ``overdue``: a
    partition that ended before then was not dropped in time. ``too_large``: the last partition cannot be ended without stopping all commits
    for long, so an operator has to do it.
    """

    deferred: range = NOTHING
    overdue: float = 0.0
    too_large: bool = False


class Retention(Protocol):
    """Times are epoch seconds. Raises InfrastructureError when the store cannot be reached."""

    def claim(self, before: float, limit: int) -> Sequence[int]:
        """Claim trees that ended before ``before`` as a whole, and return their executions.

        Executions that others started come first. A claimed tree is removed as a whole, whichever of its members this names: none of them
        can be redriven any more, and no event moves one. A tree that is being redriven at this moment is left alone. Until a claimed tree
        is gone, each claim names its members again, before other trees and for every value of ``before``.
        """

    def old(self, before: float, limit: int) -> Sequence[int]:
        """What ``claim`` would name, and nothing is changed."""

    def remove_events(self, execution_ids: Sequence[int], limit: int) -> int:
        """Rows of history of claimed executions: how many went.

        Fewer than ``limit``: none is left.
        """

    def remove(self, execution_ids: Sequence[int], deferred: range = NOTHING) -> Removed:
        """Remove everything else of claimed executions.

        It removes rows, keys, cached credentials, and the executions themselves.

        ``deferred``: ids of executions whose history may stay, unseen, until ``drop_history`` removes it.
        """

    def partition_history(self, now: float, kept: float) -> HistoryLayout:
        """Make partitions ahead, for executions that are kept ``kept`` seconds after their end.

        A store without partitions does nothing.
        """

    def drop_history(self, before: float, overdue: float) -> bool:
        """Remove history that ``remove`` deferred; True: call it again.

        It removes partitions that ended before ``before``, and rows of those that ended before ``overdue`` and hold too much that is
        still needed. The work of one call is bounded.
        """

    def claim_expired(self, now: float, after: int, limit: int) -> Expired:
        """Claim results whose own time was over by ``now``, of the next ``limit`` executions.

        The executions are in the order of their ids.

        Only executions count that have results with a time of their own. A tree is over when its last member has ended and no other tree
        can reach its results. What was claimed is named again until it is forgotten. A tree that is being redriven at this moment is left
        for the next time.
        """

    def permanent(self, before: float, limit: int) -> Sequence[Listed]:
        """Results of scope ``permanent`` that were made before then, the oldest first."""

    def forget_results(self, results: Sequence[Listed]) -> int:
        """Their objects are gone."""

    def remove_variables(self, before: float, limit: int) -> int:
        """Variables of executions that ended before then."""

    def remove_moments(self, before: float, limit: int) -> int:
        """What was started for moments of schedules before then."""
