"""History lies in partitions by time: made ahead, dropped when what is in them is over, and never in the way of who writes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.postgres import PostgresExecutionStore
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.executions import retention as adapter
from noetl.adapters.postgres.executions.retention import PostgresRetention
from noetl.cli.commands.doctor import check_database
from noetl.domain import ids
from noetl.ports.executions.execution_store import ExecutionIdTakenError
from noetl.runtime.settings import Settings
from noetl.services.results.prune import (
    TOO_LARGE,
    TOO_LARGE_FIX,
    PruneDeps,
    PruneRequest,
    RetentionDays,
    keep_to,
    prune,
)
from tests.parts import parted, repeated
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

DAY = 86_400.0
NOW = 2_000_000_000.0
"""Later than everything really ends: what counts here is the moment in ids, and ``now`` as it is told."""
KEPT = 6.0
"""Days: a partition holds one day."""
ROOT = Path(__file__).parents[3]


class NoLogs:
    """Task logs of nobody."""

    def delete_execution(self, execution_id: int) -> None:
        """Have nothing to delete."""


@dataclass
class Place:
    """A store, its retention, and somebody who looks into the database. ``now`` passes when a test says so."""

    store: PostgresExecutionStore
    make: Any
    admin: psycopg.Connection
    now: float = NOW
    numbers: int = 0
    told: list[str] = field(default_factory=list)

    @property
    def retention(self) -> PostgresRetention:
        return PostgresRetention(self.store.database)

    @property
    def deps(self) -> PruneDeps:
        return PruneDeps(self.retention, MemoryResultStore(), NoLogs(), lambda: self.now, RetentionDays(KEPT))  # type: ignore[arg-type]

    def run(self, at: float, rows: int = 2, *, status: str = "completed") -> int:
        """Make an execution whose id says ``at``."""
        self.numbers += 1
        execution_id = ids.first_id(at) + self.numbers
        events = tuple(self.make.row(seq=seq) for seq in range(1, rows + 1))
        change = self.make.change(0, execution_id, status=status, end=status != "running", events=events)
        self.store.commit([change])
        return execution_id

    def end(self, execution_id: int) -> None:
        self.store.commit(
            [self.make.change(1, execution_id, status="completed", end=True, events=(self.make.row(seq=99),))]
        )

    def tidy(self) -> None:
        keep_to(self.deps, lambda: True, self.told.append)

    def parts(self) -> list[tuple[int | None, int | None]]:
        return self.admin.execute(
            "SELECT low, past FROM noetl.history_parts() ORDER BY low NULLS FIRST"
        ).fetchall()

    def rows(self, execution_id: int) -> int:
        """Rows of history, whether the execution is there or not."""
        asked = "SELECT count(*) FROM noetl.event WHERE execution_id = %s"
        return int(self.admin.execute(asked, (execution_id,)).fetchone()[0])

    def check(self) -> None:
        """Every id has one place."""
        parts = self.parts()
        assert parts[0][0] is None and parts[-1][1] is None
        assert [past for _, past in parts[:-1]] == [low for low, _ in parts[1:]]


@pytest.fixture
def place(store: PostgresExecutionStore, make: Any, admin: psycopg.Connection) -> Place:
    # Tests before this one deleted their rows; pages of these would make a partition large, and what is large is folded alone.
    admin.execute("TRUNCATE noetl.event")
    return Place(store, make, admin)


@contextmanager
def other(dsn: str) -> Iterator[psycopg.Connection]:
    """A session whose transaction stays open until it is left; what it did is lost then."""
    with psycopg.connect(dsn) as connection:
        yield connection
        connection.rollback()


def days(parts: list[tuple[int | None, int | None]]) -> list[float]:
    """Where partitions begin, in days since ``NOW``."""
    return [round((ids.begun_at(low) - NOW) / DAY, 3) for low, _ in parts if low is not None]


def test_without_a_retention_nothing_is_divided(place):
    keep_to(PruneDeps(place.retention, MemoryResultStore(), NoLogs(), lambda: NOW), lambda: True)
    assert place.parts() == [(None, None)]


def test_partitions_are_made_ahead_and_no_more_than_that(place):
    place.tidy()
    assert days(place.parts()) == [1, 2]
    place.tidy()
    assert days(place.parts()) == [1, 2]
    place.now += 60
    place.tidy()
    assert days(place.parts()) == [1, 2, 3]
    place.now += 10 * DAY
    place.tidy()
    place.check()
    assert days(place.parts())[-1] == pytest.approx(12, 0.1), "maintenance was away: it goes on from now"
    assert place.told == []


def test_history_goes_with_its_partition_and_nothing_else_does(place):
    """Weeks of executions, one of which runs all the time: what retention leaves of the others goes without a DELETE."""
    place.tidy()
    sleeping = place.run(NOW + 100, rows=5, status="running")
    made, most = [], 0
    for hour in range(0, repeated(gate=12, full=60) * 24, 8):
        place.now = NOW + hour * 3600.0
        made.append(place.run(place.now, rows=3))
        with_end = "UPDATE noetl.execution SET ended_at = to_timestamp(%s) WHERE execution_id = %s"
        place.admin.execute(with_end, (place.now + 60, made[-1]))
        place.tidy()
        place.check()
        most = max(most, len(place.parts()))
    assert most <= 12
    alive = [one for one in made if place.store.info(one) is not None]
    assert len(alive) == 19 and alive == made[-19:], "six days, three a day"
    assert all(place.rows(one) == 3 for one in alive)
    left = [one for one in made if one not in alive and place.rows(one)]
    assert len(left) < 3 * 2 and left == made[-19 - len(left) : -19], "those of the partition that is going"
    assert len(place.store.events(sleeping)) == 5
    place.end(sleeping)
    assert len(place.store.events(sleeping)) == 6


def test_history_is_deleted_row_by_row_where_its_partition_ends_too_late(place):
    """The clock jumped, or executions were kept for much longer before."""
    place.retention.partition_history(NOW + 400 * DAY, KEPT * DAY)
    place.tidy()
    one = place.run(NOW)
    place.now += 7 * DAY
    place.tidy()
    assert place.store.info(one) is None and place.rows(one) == 0


def test_what_a_person_prunes_is_deleted_at_once(place):
    place.tidy()
    one = place.run(NOW)
    assert prune(PruneRequest(older_than_days=1), place.deps, lambda: True).events == 2
    assert place.rows(one) == 0


def test_every_id_has_a_place_whatever_clock_made_it(place):
    ancient, future = ids.first_id(0) + 1, ids.first_id(NOW + 3650 * DAY)
    for one in (ancient, future):
        place.store.commit([place.make.change(0, one)])
    place.tidy()
    assert days(place.parts()) == [1, 2], "what comes too early moves on to the last partition"
    for one in (ancient + 1, future + 1, ids.LARGEST_ID):
        place.store.commit([place.make.change(0, one)])
    place.check()
    for one in (ancient, ancient + 1, future, future + 1, ids.LARGEST_ID):
        assert len(place.store.events(one)) == 1
        place.end(one)
    place.now += 8 * DAY
    place.tidy()
    place.tidy()
    assert place.admin.execute("SELECT count(*) FROM noetl.execution").fetchone() == (0,)


def due(place: Place) -> tuple[int, int]:
    """Two partitions that are over: one execution runs, of the other only history is left."""
    place.tidy()
    place.now += 2 * DAY
    place.tidy()
    gone, runs = place.run(NOW + 2.5 * DAY), place.run(NOW + 2.5 * DAY, status="running")
    place.now = NOW + (KEPT + 3.5) * DAY
    layout = place.retention.partition_history(place.now, KEPT * DAY)
    assert gone in layout.deferred
    assert place.retention.claim(place.now, 10) == [gone]
    assert place.retention.remove([gone], layout.deferred).events == 0
    assert place.store.info(gone) is None and place.rows(gone) == 2
    return gone, runs


def drop(place: Place) -> bool:
    return place.retention.drop_history(place.now - KEPT * DAY, 0.0)


LOCKS = ["ROW EXCLUSIVE", "ACCESS SHARE"]


@pytest.mark.parametrize("lock", parted(LOCKS, LOCKS[:1], ids=["writes", "reads"]))
def test_who_writes_or_reads_is_waited_for_and_then_left_alone(place, database, lock):
    gone, runs = due(place)
    before = place.parts()
    with other(database) as busy:
        busy.execute(f"LOCK TABLE ONLY noetl.event IN {lock} MODE".encode())
        assert not drop(place)
        place.retention.partition_history(place.now + 20 * DAY, KEPT * DAY)
        assert place.parts() == before and place.rows(gone) == 2
    assert drop(place)
    place.check()
    assert place.rows(gone) == 0 and len(place.store.events(runs)) == 2


@pytest.mark.parametrize("what", parted(["fold", "cut"], ["cut"]))
def test_what_is_interrupted_leaves_everything_as_it_was(place, database, what):
    gone, runs = due(place)
    before, asked = (
        place.parts(),
        {
            "fold": (f"SELECT noetl.fold_history({ids.first_id(place.now)}, 100)", "folded"),
            "cut": (f"SELECT noetl.cut_history({ids.first_id(place.now + 50 * DAY)}, 1000000)", "cut"),
        },
    )
    with other(database) as dying:
        assert dying.execute(asked[what][0].encode()).fetchone() == (asked[what][1],)
    assert place.parts() == before and place.rows(gone) == 2 and place.rows(runs) == 2
    assert place.admin.execute(asked[what][0].encode()).fetchone() == (asked[what][1],)
    place.check()


def test_two_that_maintain_at_once_do_it_once(place, database):
    _, runs = due(place)
    fold = f"SELECT noetl.fold_history({ids.first_id(place.now)}, 100)".encode()
    with psycopg.connect(database) as first:
        assert first.execute(fold).fetchone() == ("folded",)
        with psycopg.connect(database, autocommit=True) as second:
            second.execute("SET lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                second.execute("SELECT * FROM noetl.event")
            assert second.execute(fold).fetchone() == ("busy",)
        first.commit()
    assert place.admin.execute(fold).fetchone() == ("done",)
    place.check()
    failed: list[BaseException] = []

    def maintain() -> None:
        mine = Database(database)
        try:
            for day in range(20):
                retention = PostgresRetention(mine)
                retention.partition_history(place.now + day * DAY, KEPT * DAY)
                retention.drop_history(place.now + (day - KEPT) * DAY, 0.0)
        except BaseException as error:
            failed.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=maintain) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failed
    place.check()
    assert len(place.store.events(runs)) == 2


def test_commits_go_on_while_partitions_come_and_go(place, database):
    """No commit fails, none waits in a circle, and no row is lost."""
    place.tidy()
    enough, failed = threading.Event(), []
    written: dict[int, int] = {}

    def write(first: int) -> None:
        mine = PostgresExecutionStore(database)
        try:
            number = 0
            while not enough.is_set():
                number += 1
                execution_id = first + number
                mine.commit([place.make.change(0, execution_id, events=(place.make.row(seq=1),))])
                mine.commit([place.make.change(1, execution_id, events=(place.make.row(seq=2),))])
                written[execution_id] = len(mine.events(execution_id))
        except BaseException as error:
            failed.append(error)
        finally:
            mine.close()

    starts = [ids.first_id(NOW + day * DAY) + (number << 30) for number, day in enumerate((-1, 0, 1, 2, 400))]
    threads = [threading.Thread(target=write, args=(start,)) for start in starts]
    for thread in threads:
        thread.start()
    for day in range(25):
        place.now = NOW + day * DAY
        place.retention.partition_history(place.now, KEPT * DAY)
        place.retention.drop_history(place.now, 0.0)
    enough.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failed and len(written) > 20
    assert set(written.values()) == {2}
    assert all(place.rows(one) == 2 for one in written)
    place.check()


def test_a_partition_of_which_much_is_needed_waits_and_is_swept(place, monkeypatch):
    monkeypatch.setattr(adapter, "MOST_MOVED", 4)
    monkeypatch.setattr(adapter, "SWEPT", 3)
    place.tidy()
    place.now += 3 * DAY
    place.tidy()
    gone = [place.run(NOW + 2.5 * DAY, rows=4) for _ in range(5)]
    live = [place.run(NOW + 2.5 * DAY, rows=4, status="running") for _ in range(5)]
    place.now = NOW + (KEPT + 3.5) * DAY
    layout = place.retention.partition_history(place.now, KEPT * DAY)
    place.retention.claim(place.now, 10)
    place.retention.remove(gone, layout.deferred)
    while drop(place):
        pass
    assert all(place.rows(one) == 4 for one in (*gone, *live)), "too much of it is needed"
    place.now += 4 * DAY
    rounds = 0
    while place.retention.drop_history(place.now - KEPT * DAY, place.now - (KEPT + 1) * DAY):
        rounds += 1
        assert rounds < 50
    assert not any(place.rows(one) for one in gone) and all(place.rows(one) == 4 for one in live)
    for one in live:
        place.end(one)
        assert one not in place.retention.partition_history(place.now, KEPT * DAY).deferred, (
            "what is swept is deleted from"
        )
    place.tidy()
    assert not any(place.rows(one) for one in live)
    place.now += DAY
    place.tidy()
    place.check()


def test_there_are_never_many_partitions_however_long_they_wait(place, monkeypatch):
    monkeypatch.setattr(adapter, "MOST_MOVED", 0)
    counts, days = [], repeated(gate=60, full=300)
    for day in range(days):
        place.now = NOW + day * DAY
        place.run(place.now, status="running")
        place.tidy()
        counts.append(len(place.parts()))
    assert counts[days // 2] < 45 and counts[-1] < counts[days // 2] + 8


def test_history_that_is_left_goes_though_executions_are_kept_for_ever_now(place):
    gone, runs = due(place)
    place.now += DAY
    keep_to(PruneDeps(place.retention, MemoryResultStore(), NoLogs(), lambda: place.now), lambda: True)
    assert place.rows(gone) == 0 and place.rows(runs) == 2


def test_a_last_partition_that_is_too_large_is_ended_by_hand(place, monkeypatch, database, tmp_path):
    """The commands of docs/operations.md."""
    one = place.run(place.store.load([]).now, status="running")
    monkeypatch.setattr(adapter, "MOST_READ", 0)
    place.tidy()
    assert place.parts() == [(None, None)] and place.told == [f"{TOO_LARGE}; {TOO_LARGE_FIX}"]
    given = {"NOETL_DATABASE_URL": database, "NOETL_RETENTION_DAYS": "6"}
    told = check_database(Settings.from_env(given, home=tmp_path))
    assert told.status == "warning" and told.detail.endswith(TOO_LARGE) and told.fix == TOO_LARGE_FIX
    page = (ROOT / "docs" / "operations.md").read_text().partition("### Partitions of history")[2]
    look, mend = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(place.admin.execute(look.encode()).fetchall()) == 1
    place.admin.execute(mend.encode())
    assert len(place.admin.execute(look.encode()).fetchall()) == 2
    place.check()
    assert len(place.store.events(one)) == 2
    assert check_database(Settings.from_env(given, home=tmp_path)).status == "ok"
    assert place.admin.execute(
        "SELECT count(*) FROM pg_constraint WHERE conname = 'history_end'"
    ).fetchone() == (0,)


def test_an_id_that_history_is_left_of_is_given_to_nobody_else(place):
    gone, runs = due(place)
    start = msgspec.structs.replace(place.make.start(gone), event_id="start:1/1:0")
    with pytest.raises(ExecutionIdTakenError) as refused:
        place.store.commit([place.make.change(1, runs, outbox=(start,), events=(place.make.row(seq=50),))])
    assert refused.value.children == {gone}
