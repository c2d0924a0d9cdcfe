"""A filtered history on both stores: what a filter over the whole of it leaves, also where rows are passed over in the store."""

from __future__ import annotations

import pytest

from noetl.domain import codec, ids
from noetl.domain.facts import facts as f
from noetl.domain.facts.facts import encode_facts
from noetl.services.history import history_pages
from noetl.services.history.event_filter import make_filter
from noetl.services.history.history_pages import history
from noetl.services.history.newest_events import newest_events
from tests.contract.builders import EID

OK, BAD = {"status": "ok"}, {"status": "error", "error": {"message": "no", "kind": "x"}}


@pytest.fixture
def filled(store, make):
    """Two loops, each with items that failed; their starts and ends."""
    rows = []
    for run, step in ((2, "load"), (3, "save")):
        rows.append(make.row(facts=encode_facts([f.LoopStarted(run, step, 0, 9, "parallel", 9)])))
        for place in range(9):
            bad = place % run == 0
            kind = "call.error" if bad else "call.done"
            rows.append(
                make.row(
                    ids.item_event(run, 0, place),
                    seq=place,
                    lane=run,
                    type=kind,
                    facts=codec.encode(BAD if bad else OK),
                )
            )
        ended = [f.LoopFinished(run, step, 0, 9, 9, 0), f.StepExited(run, step)]
        rows.append(make.row(ids.loop_done_event(run, 0), seq=100 * run, facts=encode_facts(ended)))
    store.commit([make.change(events=tuple(rows))])
    return store


@pytest.mark.parametrize(
    ("types", "step", "count"),
    [
        (("call.error",), "", 8),
        (("call.error", "step.exit"), "save", 4),
        (("call.done",), "load", 4),
        (("loop.done",), "", 2),
        ((), "save", 39),
        ((), "other", 0),
    ],
)
def test_a_filter_finds_what_it_would_find_in_the_whole(filled, monkeypatch, types, step, count):
    wanted = make_filter("stored", types, step)
    whole = list(history(filled, EID))
    monkeypatch.setattr(history_pages, "PAGE", 2)
    found = list(history(filled, EID, "stored", wanted))
    assert found == [event for event in whole if wanted.fits(event)] and len(found) == count
    main = [event for event in found if not event.meta["lane"]]
    assert newest_events(filled, EID, "stored", 100, wanted) == main
