"""Port of figures about many executions: endings over time, failures, questions.

Every figure is made by one statement whose work is bounded, however many executions there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class EndedWindow(msgspec.Struct, frozen=True):
    """Executions that no other one started, which ended in a time.

    From ``since`` on and before ``until``. ``most``: how many of them are looked at, the latest first; ``path``: counts only those
    of this playbook.
    """

    since: float
    until: float
    most: int
    path: str | None = None


class Bucket(msgspec.Struct, frozen=True):
    """Endings of the bucket that begins at ``at``.

    ``p50`` and ``p95``: seconds from start to end.
    """

    at: float
    completed: int
    failed: int
    cancelled: int
    p50: float
    p95: float


class PathBucket(msgspec.Struct, frozen=True):
    """Endings of one playbook in the bucket that begins at ``at``.

    ``failed`` is a part of ``ended``.
    """

    path: str
    at: float
    ended: int
    failed: int


class FailureGroup(msgspec.Struct, frozen=True):
    """Failures of one playbook with one code.

    ``code``: the kind of an error that has none. ``latest``: the execution that failed last.
    """

    path: str
    code: str
    count: int
    first_at: float
    last_at: float
    latest: int


class Looked(msgspec.Struct, frozen=True):
    """How many executions were looked at, and the earliest end among them."""

    count: int = 0
    earliest: float | None = None


class Figures(Protocol):
    """Raises InfrastructureError when the store cannot be reached."""

    def ended_buckets(self, window: EndedWindow, seconds: int) -> tuple[Looked, Sequence[Bucket]]:
        """Count endings by time.

        Buckets begin at multiples of ``seconds``; those without an ending are left out.
        """

    def ended_by_path(
        self, window: EndedWindow, paths: Sequence[str], seconds: int
    ) -> tuple[Looked, Sequence[PathBucket]]:
        """Count the endings of several playbooks by time, by path and then by time.

        Buckets are as of ``ended_buckets``. ``window.path`` has no effect: ``paths`` choose.
        """

    def failure_groups(self, window: EndedWindow, limit: int) -> tuple[Looked, Sequence[FailureGroup]]:
        """Group failures by playbook and code, at most ``limit`` groups.

        The most frequent come first.
        """

    def asking(self, after: int, limit: int) -> Sequence[int]:
        """Return ids of live executions with slots of the scope ``callback``.

        They ascend, and come after ``after``.
        """

    def callbacks_of_many(self, execution_ids: Sequence[int], limit: int) -> Mapping[int, Mapping[str, Any]]:
        """Return slots of the scope ``callback`` by execution and place.

        At most ``limit`` of each execution.
        """
