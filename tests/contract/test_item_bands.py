"""Items of a loop by the time of their end, added up by the store."""

from __future__ import annotations

import msgspec

from noetl.domain.outcomes.outcomes import Outcome, Suspend
from noetl.ports.executions.execution_store import ItemBand
from tests.contract.builders import EID

ME = "owner-1"
BEGAN = 1_800_000_000.0


def begin(store, make, total):
    return list(store.commit([make.change(loops=(make.loop(total, total),))], ME).commands)


def end(store, make, commands, ends, failed=()):
    """Let items end at these seconds after the beginning."""
    batches = []
    for command in commands:
        index = command.loop.start
        batch = make.items(command, index, failed=tuple({index} & set(failed)))
        rows = tuple(msgspec.structs.replace(row, at=BEGAN + ends[index]) for row in batch.rows)
        batches.append(msgspec.structs.replace(batch, rows=rows))
    store.commit_items(batches, ME)


def test_items_count_in_the_span_in_which_they_ended(store, make):
    commands = begin(store, make, 6)
    assert store.item_bands(EID, 1, 4) is None
    end(store, make, commands, [0, 39, 1, 12, 40, 2], failed=(2, 4))
    found = store.item_bands(EID, 1, 4)
    assert (found.low, found.high) == (BEGAN, BEGAN + 40)
    assert found.bands == [ItemBand(0, 2, 1, 0), ItemBand(1, 1, 0, 3), ItemBand(3, 1, 1, 1)]
    assert store.item_bands(EID, 2, 4) is None and store.item_bands(EID, 0, 4) is None
    assert store.item_bands(EID + 1, 1, 4) is None


def test_items_that_ended_at_the_same_time_are_one_band(store, make):
    end(store, make, begin(store, make, 3), [5, 5, 5])
    assert store.item_bands(EID, 1, 50).bands == [ItemBand(0, 3, 0, 0)]


def test_a_turn_after_which_an_item_continues_is_no_end(store, make):
    first, second = begin(store, make, 2)
    waits = {0: Outcome("suspended", suspend=Suspend({}, delay=5.0))}
    batch = make.items(first, 0, outcomes=waits)
    row = make.item_row(first, batch.event.items[0])
    row = msgspec.structs.replace(row, event_id=f"{row.event_id}:0", at=BEGAN)
    store.commit_items([msgspec.structs.replace(batch, rows=(row,))], ME)
    assert store.item_bands(EID, 1, 4) is None
    end(store, make, [second], [0, 7])
    assert store.item_bands(EID, 1, 4).bands == [ItemBand(0, 1, 0, 1)]
