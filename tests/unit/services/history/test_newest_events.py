"""History from its end: the same events as from its beginning, without those of items."""

from __future__ import annotations

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.services.history.history_pages import HistoryReader, Position, encode_position
from noetl.services.history.newest_events import NewestPosition, NewestReader, decode_newest, newest_events
from tests.conformance.memory import in_memory
from tests.parts import over

CASE = "loops/large-results-are-references"


@pytest.fixture(scope="module")
def played():
    store = in_memory(CASE)[0].store
    return store, store.executions(limit=1)[0].execution_id


def forwards(played) -> list:
    return [event for event in HistoryReader(*played).read(everything=True) if not event.meta.get("lane")]


def test_the_newest_events_are_those_of_the_main_lane_backwards(played) -> None:
    found = [event for unit in NewestReader(*played).units(page=1) for event in unit]
    assert found == forwards(played)[::-1] and len(found) > 10


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10_000])
def test_the_latest_events_are_given_in_their_order(played, count: int) -> None:
    assert newest_events(*played, "stored", count) == forwards(played)[-count:]


def test_a_reader_continues_from_any_position(played) -> None:
    whole = forwards(played)[::-1]
    found: list = []
    position = NewestPosition()
    while True:
        reader = NewestReader(*played, position=decode_newest(encode_position(position)))
        unit = next(reader.units(page=2), None)
        if unit is None:
            break
        found += unit
        position = reader.position
    assert found == whole


@over("text", ["", "x", encode_position(Position()), encode_position(NewestPosition(-1))])
def test_other_cursors_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        decode_newest(text)
    assert refused.value.code == "invalid_cursor"
