"""How often a worker looks for marks, and what it makes of a store that is away."""

from __future__ import annotations

from noetl.domain.errors import InfrastructureError
from noetl.services.worker.cancellation_marks import EVERY_SECONDS, MOST, RevocationWatch


class Marks:
    def __init__(self) -> None:
        self.marked = False
        self.away = False
        self.looks = 0

    def revoke(self, execution_id, run=None) -> None:
        self.marked = True

    def is_revoked(self, execution_id, run) -> bool:
        self.looks += 1
        if self.away:
            raise InfrastructureError("away")
        return self.marked


def watched():
    marks, time = Marks(), [100.0]
    return marks, RevocationWatch(marks, lambda: time[0]), time


def test_young_work_is_not_looked_up_and_older_work_once_in_a_while():
    marks, watch, time = watched()
    marks.revoke(1)
    assert not watch(1, 1) and not watch(1, 1) and marks.looks == 0
    time[0] += EVERY_SECONDS
    assert watch(1, 1) and marks.looks == 1
    marks.marked = False
    time[0] += 100
    assert watch(1, 1) and marks.looks == 1, "a mark is never taken back"


def test_a_mark_that_is_not_there_is_looked_for_again_after_a_while():
    marks, watch, time = watched()
    assert not watch.now(1, 1) and not watch.now(1, 1) and marks.looks == 1
    marks.revoke(1)
    assert not watch(1, 1)
    time[0] += EVERY_SECONDS
    assert watch(1, 1) and marks.looks == 2


def test_a_store_that_is_away_revokes_nothing_and_is_not_hammered():
    marks, watch, time = watched()
    marks.away = True
    assert not any(watch.now(1, 1) for _ in range(10)) and marks.looks == 1
    marks.away, marks.marked = False, True
    time[0] += EVERY_SECONDS
    assert watch.now(1, 1)


def test_memory_is_bounded():
    _, watch, _ = watched()
    for execution in range(3 * MOST):
        watch(execution, 1)
    assert len(watch._known) == MOST
