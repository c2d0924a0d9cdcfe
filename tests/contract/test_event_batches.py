"""Batches of events: kept once, handled by one at a time, told about afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from noetl.ports.event_batches import EventBatches, ReportedEvent
from noetl.ports.new_ids import IdTakenError
from noetl.services.orchestrator.ingest_worker_events import EventBatchRequest, EventReport, accept_batch

ODD = '{"v":1,"note":"nul \\u0000 and \\ud800"}'


@pytest.fixture
def batches(harness: Any, request: pytest.FixtureRequest) -> EventBatches:
    if harness.kind == "memory":
        from tests.doubles.event_batches import MemoryEventBatches

        with harness.store.tables() as tables:
            return MemoryEventBatches(tables.clock)
    from noetl.adapters.postgres.event_batches import PostgresEventBatches

    return PostgresEventBatches(harness.store.database)


def kept(batches: EventBatches, number: int, key: str = "", fingerprint: str = "f") -> Any:
    return batches.accept(number, [ODD, "{}"], key=key, fingerprint=fingerprint, principal="me")


def test_a_batch_is_kept_once_under_its_id_and_its_key(batches):
    first, fresh = kept(batches, 7, "k")
    assert fresh and (first.status, first.total, first.messages, first.outcomes) == (
        "accepted",
        2,
        [ODD, "{}"],
        [],
    )
    assert kept(batches, 7, "k") == (first, False)
    again, fresh = kept(batches, 8, "k", "other")
    assert (again.batch_id, again.fingerprint, fresh) == (7, "f", False)
    assert kept(batches, 9)[1] and kept(batches, 10)[1], "without a key each is its own"
    assert batches.get(7) == first and batches.get(8) is None


def test_a_batch_never_stands_for_another_that_drew_its_id(batches):
    kept(batches, 7)
    kept(batches, 8, "k")
    assert not kept(batches, 7)[1], "the same again"
    for number, key, fingerprint, principal in (
        (7, "", "other", "me"),
        (7, "", "f", "somebody else"),
        (7, "mine", "f", "me"),
        (8, "", "f", "me"),
        (8, "mine", "f", "me"),
    ):
        with pytest.raises(IdTakenError):
            batches.accept(number, ["{}"], key=key, fingerprint=fingerprint, principal=principal)
    assert kept(batches, 8, "k", "other")[0].fingerprint == "f", "who has the key is told what it stands for"
    assert kept(batches, 9, "mine")[1], "nothing was kept under the key"


@pytest.mark.parametrize("key", ["", "mine"])
def test_the_next_id_is_asked_for_where_a_batch_has_the_first(batches, key):
    """Also when another client sends the very same body in the same millisecond; a request in doubt finds what it made."""
    deps = SimpleNamespace(batches=batches)
    event = EventReport(token="t", event={"type": "command"})

    def send(key: str, again: bool = False) -> Any:
        return accept_batch(EventBatchRequest(7, [event], key, "me", "f", again), deps)  # type: ignore[arg-type]

    first, fresh = send(key and "other")
    assert fresh and first.batch_id == 7
    second, fresh = send(key)
    assert fresh and second.batch_id == 8
    if not key:
        assert send(key, again=True) == (first, False)
    else:
        assert send(key) == send(key, again=True) == (second, False)


def test_one_at_a_time_handles_it_and_a_dead_one_is_followed(harness, batches):
    kept(batches, 7)
    taken = batches.begin(7, 0.2)
    assert taken is not None and taken.status == "processing" and taken.messages == [ODD, "{}"]
    assert batches.begin(7, 0.2) is None
    harness.sleep(0.05)
    kept(batches, 8)
    harness.sleep(0.3)
    assert batches.unfinished(0.2, 0.2, 9) == [7, 8] and batches.unfinished(0.2, 0.2, 1) == [7]
    assert batches.unfinished(0.2, 9.0, 9) == [8] and batches.unfinished(9.0, 9.0, 9) == []
    assert batches.begin(7, 0.2) is not None
    told = [ReportedEvent("cmd:1:0", "5"), ReportedEvent("cmd:2:0", "5", "event_refused")]
    batches.end(7, "failed", told)
    over = batches.get(7)
    assert over is not None and (over.status, over.messages, over.outcomes) == ("failed", [], told)
    assert over.ended_at is not None and over.ended_at >= over.created_at
    assert batches.begin(7, 0.0) is None and 7 not in batches.unfinished(0.0, 0.0, 9)
    batches.end(7, "completed", [])
    assert batches.get(7) == over


def test_old_ones_are_forgotten(harness, batches):
    kept(batches, 7)
    kept(batches, 8)
    batches.begin(7, 9)
    batches.end(7, "completed", [])
    harness.sleep(0.2)
    batches.forget(60.0)
    assert batches.get(7) is not None
    batches.forget(0.1)
    assert batches.get(7) is None and batches.get(8) is not None
