"""Reports of items that come again: those that were counted leave no record of being late, and those that were not do."""

from __future__ import annotations

import msgspec
import pytest

from noetl.domain.events import CommandDone, ItemsDone
from noetl.domain.outcomes.outcomes import Outcome
from tests.contract.test_left_loops import LOOP, START, Engine
from tests.contract.test_sums_of_loops import answered


def late(engine: Engine) -> list[str]:
    return [row.type for row in engine.store.item_events(engine.id, -1)]


def reported(harness, mode: str) -> tuple[Engine, list[ItemsDone]]:
    """A loop that is over, and what its worker reported."""
    engine = Engine(harness, START + LOOP.replace("MODE", mode))
    commands = engine.handle(CommandDone.of(engine.first, Outcome("ok", {"v": 1})))
    events = []
    while commands:
        command = commands.pop(0)
        assert command.loop is not None
        indexes = list(range(command.loop.start, command.loop.stop))
        event = answered(command, indexes, indexes, undone=0)
        commands += engine.handle(event)
        events.append(event)
    assert engine.status() == "completed"
    return engine, events


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_report_that_was_counted_and_comes_again_is_not_late(harness, mode: str) -> None:
    engine, events = reported(harness, mode)
    assert engine.handle(*events) == []
    assert late(engine) == []


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_report_of_something_else_is_late(harness, mode: str) -> None:
    engine, events = reported(harness, mode)
    other = answered_otherwise(events[0])
    assert engine.handle(other) == []
    assert late(engine) == ["command.superseded"]


def answered_otherwise(event: ItemsDone) -> ItemsDone:
    """The same report with another result for its first item."""
    first = msgspec.structs.replace(event.items[0], outcome=Outcome("ok", {"v": "another"}))
    return msgspec.structs.replace(event, items=[first, *event.items[1:]])
