"""Pauses and resumes count in the order in which they were accepted, before any of them is applied and in whatever order they come."""

from __future__ import annotations

import itertools

import pytest

from noetl.adapters.memory import MemoryCatalog
from noetl.domain.errors import ConflictError
from noetl.services.executions.bulk_control import BulkDeps, BulkRequest, ManyFilter, steer_many
from noetl.services.executions.change_execution import ChangeRequest, pause, resume
from tests.contract.test_left_loops import HTTP, ME, Engine

_names = itertools.count()
DOORS = {"pause": pause, "resume": resume}


def by() -> ChangeRequest:
    return ChangeRequest("ann", f"request {next(_names)}", ME)


@pytest.fixture
def engine(harness) -> Engine:
    return Engine(harness, f"  - {{ step: start, {HTTP} }}\n")


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "the last first"])
@pytest.mark.parametrize(
    "asked", [("pause", "resume"), ("pause", "resume", "pause"), ("pause", "pause", "resume")], ids="-".join
)
def test_what_was_accepted_last_holds_in_whatever_order_it_is_applied(engine, asked, turned):
    events = [DOORS[one](engine.store, engine.id, by()) for one in asked]
    for event in reversed(events) if turned else events:
        engine.handle(event)
    assert engine.status() == ("paused" if asked[-1] == "pause" else "running")
    assert engine.store.steering((engine.id,)) == {}
    if asked[-1] == "resume":
        with pytest.raises(ConflictError) as refused:
            resume(engine.store, engine.id, by())
        assert refused.value.code == "execution_not_paused"


def test_a_repeat_of_a_resume_is_the_same_event_and_another_one_is_refused(engine):
    pause(engine.store, engine.id, by())
    asked = by()
    assert resume(engine.store, engine.id, asked) == resume(engine.store, engine.id, asked)
    with pytest.raises(ConflictError, match="being resumed already"):
        resume(engine.store, engine.id, by())


@pytest.mark.parametrize("named", ["by id", "by path"])
def test_many_are_resumed_while_their_pause_is_on_its_way(engine, named):
    pause(engine.store, engine.id, by())
    sent: list = []
    deps = BulkDeps(engine.store, MemoryCatalog(), engine.deps.programs, sent.extend, lambda: 1_800_000_000.0)
    wanted = ManyFilter(ids=[str(engine.id)]) if named == "by id" else ManyFilter(path="t")
    (told,) = steer_many("resume", BulkRequest(wanted), by(), deps).executions
    assert told.outcome == "done"
    engine.handle(*sent)
    assert engine.status() == "running" and engine.store.steering((engine.id,)) == {}
