"""The filter of events: what it refuses, which step an event names, and items of loops that run."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from noetl.domain.codec import encode
from noetl.domain.errors import InvalidInputError
from noetl.domain.event_names import UNREADABLE, VOCABULARIES, known_types
from noetl.domain.facts import facts as f
from noetl.domain.facts.facts import encode_facts
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.ports.executions.execution_store import StoredEvent
from noetl.services.history.event_filter import EVERYTHING, make_filter, step_of
from noetl.services.history.history_pages import HistoryReader
from noetl.services.history.read_history import row_events
from tests.parts import over

EID = 382_358_247_895_465_985
FAILED = Outcome("error", error=ErrorInfo("no"))


def row(event_id, *facts, seq=1):
    return StoredEvent(event_id, 0, seq, "any", 0.0, encode_facts(list(facts)))


def item(index, outcome=None):
    kind = "call.error" if outcome is FAILED else "call.done"
    return StoredEvent(f"item:2:0:{index}", 2, index, kind, 0.0, encode(outcome or Outcome("ok")))


class Store:
    """A loop under way, and its items."""

    def __init__(self, main, items):
        self.main, self.items, self.looked = main, items, 0

    def events(self, execution_id, *, after=0, limit=1000):
        return [one for one in self.main if one.seq > after][:limit]

    def item_events(self, execution_id, lane, *, after=-1, limit=1000):
        self.looked += 1
        return sorted((one for one in self.items if one.seq > after), key=lambda one: one.seq)[:limit]

    def failed_items(self, execution_id, run, limit, *, after=-1):
        return [one for one in self.item_events(execution_id, run, after=after) if one.type == "call.error"][
            :limit
        ]

    def loop_run(self, execution_id, run, round_):
        return None


START = row("cmd:1:0", f.LoopStarted(2, "each", 0, 4, "parallel", 4), seq=1)
END = row("loop:2:0", f.LoopFinished(2, "each", 0, 4, 3, 1), f.StepExited(2, "each"), seq=2)


@over(
    ("fact", "step"),
    [
        (f.StepEntered(1, "a"), "a"),
        (f.CommandIssued(1, "a", "1", "io"), "a"),
        (f.JoinFired("a", True), "a"),
        (f.FinalFired(f.Arrival(3, "a")), "a"),
        (f.TokenAdded(f.Arrival(3, "a")), "a"),
        (f.NextEvaluated(1, "a", (f.Arrival(3, "b"),)), "a"),
        (f.TimerExpired("execution", 1), ""),
        (f.Failed(ErrorInfo("no"), "a"), ""),
    ],
)
def test_an_event_names_the_step_that_it_is_about(fact, step):
    assert step_of(next(row_events(EID, row("x", fact)))) == step


def test_the_end_names_the_step_that_failed():
    workflow, playbook = row_events(EID, row("x", f.Failed(ErrorInfo("no"), "a")))
    assert (step_of(workflow), step_of(playbook)) == ("", "a")


def test_what_a_worker_did_belongs_to_its_step():
    found = list(row_events(EID, row("cmd:1:0", f.CallDone(1, "a"))))
    assert len(found) == 6 and {step_of(one) for one in found} == {"a"}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_every_name_is_known_with_those_that_it_shows(vocabulary):
    known = known_types(vocabulary)
    assert UNREADABLE in known and all(make_filter(vocabulary, [name]) for name in known)
    assert not make_filter(vocabulary)


def test_a_refusal_names_the_type_and_what_is_near():
    with pytest.raises(InvalidInputError) as refused:
        make_filter("stored", ["call.done", "tasks.done"])
    assert refused.value.code == "invalid_event_type" and "'tasks.done'" in refused.value.message
    assert "'task.done'" in str(refused.value.hint)
    with pytest.raises(InvalidInputError) as refused:
        make_filter("canonical", ["step.finished"])
    assert (
        refused.value.hint
        == "the vocabulary formal has it; canonical calls it step.done or step.failed or step.skipped"
    )


def test_a_row_that_cannot_be_read_is_found_by_its_type_alone():
    broken = msgspec.structs.replace(item(1), facts=b"7")
    store = Store([START, END], [item(0), broken])
    by_type = list(
        HistoryReader(store, EID, wanted=make_filter("stored", [UNREADABLE])).read(everything=True)
    )
    assert [one.entity_id for one in by_type] == ["item:2:0:1"]
    by_step = list(HistoryReader(store, EID, wanted=make_filter("stored", (), "each")).read(everything=True))
    assert UNREADABLE not in {one.event_type for one in by_step} and len(by_step) == 7


@pytest.mark.parametrize(
    ("types", "step"),
    [(("call.error",), ""), (("loop.item", "step.exit"), "each"), (("step.exit",), ""), ((), "other")],
)
def test_following_a_filter_shows_what_following_everything_shows(types, step):
    """Items end in any order: each read has the wanted ones of the same read without a filter."""
    wanted = make_filter("stored", types, step)
    for arrival in itertools.permutations(range(4)):
        store = Store([START], [])
        plain, filtered = HistoryReader(store, EID), HistoryReader(store, EID, wanted=wanted)
        for index in arrival:
            store.items.append(item(index, FAILED if index == 2 else None))
            assert list(filtered.read()) == [one for one in plain.read() if wanted.fits(one)]
        store.main.append(END)
        assert list(filtered.read()) == [one for one in plain.read() if wanted.fits(one)]


def test_items_of_another_step_are_not_read():
    for types, step, looks in (
        ((), "other", 0),
        (["step.exit"], "", 0),
        ([], "each", 1),
        (["call.error"], "", 1),
    ):
        store = Store([START, END], [item(0), item(1, FAILED)])
        reader = HistoryReader(store, EID, wanted=make_filter("stored", types, step))
        list(reader.read(everything=True))
        assert store.looked == looks
        assert reader.rows == 2 + (0 if not looks else 1 if types else 2)
    assert EVERYTHING.fits(next(row_events(EID, START)))
