"""Rows to events: ids, order, names, and what workers and items add; rows that nobody foresaw."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import msgspec
import pytest

from noetl.domain.codec import encode
from noetl.domain.errors import InvalidInputError
from noetl.domain.event_names import NAMES, TERMINAL_EVENTS, formal_names
from noetl.domain.facts import facts as f
from noetl.domain.facts.facts import encode_facts
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome, Suspend, Trace
from noetl.domain.text.timestamps import rfc3339
from noetl.ports.executions.execution_store import StoredEvent
from noetl.services.history import history_pages as module
from noetl.services.history.history_pages import HistoryReader, decode_position, encode_position
from noetl.services.history.read_history import row_events
from tests.parts import over

EID = 382_358_247_895_465_985
FORMAL = {
    "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "workflow.started", "step.started",
    "step.finished", "tool.started", "tool.processed", "case.started", "case.evaluated", "next.evaluated", "loop.started",
    "loop.iteration.started", "loop.iteration.finished", "loop.finished", "retry.started", "retry.processed", "sink.started",
    "sink.processed", "workflow.finished", "playbook.processed",
}  # fmt: skip


def row(event_id, *facts, seq=1, at=0.0):
    return StoredEvent(event_id, 0, seq, "any", at, encode_facts(list(facts)))


def item(index, outcome=None, run=2, turn=None):
    event_id = f"item:{run}:0:{index}" + ("" if turn is None else f":t{turn}")
    return StoredEvent(event_id, run, index, "call.done", 0.0, encode(outcome or Outcome("ok", result=index)))


def names(row, **kwargs):
    return [event.event_type for event in row_events(EID, row, **kwargs)]


def test_every_formal_name_is_a_view_of_some_stored_name():
    assert {name for stored in NAMES for name, _ in formal_names(stored, "success")} >= FORMAL


def test_a_name_that_is_not_in_the_table_keeps_its_name():
    assert formal_names("quota.exceeded", "error") == [("quota.exceeded", "error")]


def test_a_worker_report_becomes_the_life_of_its_command():
    trace = [
        Trace("task.started", "get", "in_progress"),
        Trace("task.done", "get"),
        Trace("sink.started", "save"),
    ]
    found = list(
        row_events(
            EID, row("cmd:3:1", f.CallDone(3, "fetch", result=1, trace=trace), f.StepExited(3, "fetch"))
        )
    )
    assert [e.event_type for e in found] == [
        "command.claimed",
        "command.started",
        "task.started",
        "task.done",
        "sink.started",
        "call.done",
        "command.completed",
        "step.exit",
    ]
    assert [e.event_id for e in found] == [f"cmd:3:1:{n}" for n in range(8)]
    assert {e.entity_id for e in found if e.event_type.startswith("command.")} == {"3"}
    assert found[0].meta["turn"] == 1
    assert (found[5].source, found[7].source) == ("worker", "server")
    assert found[5].execution_id == str(EID)


WAITED = Trace("retry.scheduled", "get", "in_progress", {"delay": 9.0})
RETRIED = [WAITED, Trace("task.started", "get"), Trace("task.done", "get"), Trace("retry.processed", "get")]


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        ([], ["retry.scheduled"]),
        ([WAITED], ["retry.scheduled"]),
        (RETRIED, [*[entry.name for entry in RETRIED], "retry.scheduled"]),
    ],
    ids=["handed back before its first call", "waits for a retry", "handed back after a retry"],
)
def test_why_a_run_stopped_is_told_once_and_last(trace, told):
    assert names(row("cmd:3:0", f.Suspended(3, "fetch", 1, 0.0, trace)))[2:] == told
    suspended = Outcome("suspended", trace=trace, suspend=Suspend({}, delay=0.0))
    assert names(item(1, suspended, turn=1)) == told


def test_what_the_engine_did_itself_was_no_command():
    """A control step that runs in the same transition as another step's report."""
    found = row("cmd:3:0", f.CallDone(3, "fetch"), f.StepEntered(4, "route"), f.CallDone(4, "route"))
    assert names(found).count("command.completed") == 1
    assert [e.source for e in row_events(EID, found) if e.event_type == "call.done"] == ["worker", "server"]


def test_one_task_that_was_called_once_is_told_although_nothing_was_traced():
    found = list(
        row_events(EID, row("cmd:1:0", f.CallDone(1, "a", meta={"duration_ms": 12.5})), vocabulary="formal")
    )
    told = [(e.event_type, e.status) for e in found if e.event_type.startswith("tool.")]
    assert told == [("tool.started", "in_progress"), ("tool.processed", "success")]


def test_a_failure_keeps_error_and_status():
    found = list(row_events(EID, row("cmd:1:0", f.CallFailed(1, "a", ErrorInfo("no", "timeout")))))
    assert [(e.event_type, e.status) for e in found][-2:] == [
        ("call.error", "error"),
        ("command.failed", "error"),
    ]
    assert found[-2].payload["error"]["message"] == "no"


@pytest.mark.parametrize(
    ("fact", "status"),
    [
        (f.Completed(("a",)), "success"),
        (f.Failed(ErrorInfo("no"), "a"), "error"),
        (f.Cancelled("why", "user:ada"), "error"),
    ],
)
def test_the_end_closes_the_workflow_then_the_playbook(fact, status):
    found = list(row_events(EID, row("cmd:1:0", fact)))
    assert found[0].event_type == "workflow.completed"
    assert found[1].event_type in TERMINAL_EVENTS
    assert {e.status for e in found} == {status}
    assert {e.entity_id for e in found} == {str(EID)}
    formal = [e.event_type for e in row_events(EID, row("cmd:1:0", fact), vocabulary="formal")]
    assert formal == ["workflow.finished", "playbook.processed"]


def test_a_closing_gate_is_not_mistaken_for_an_item():
    assert names(row("alert:2:0", f.LoopItem(2, "each", 7, "failed"))) == ["loop.closing"]


def test_an_item_expands_and_says_where_it_belongs():
    found = list(row_events(EID, item(5), step="each"))
    assert [e.event_type for e in found] == ["task.started", "task.done", "call.done", "loop.item"]
    assert found[2].payload == {"loop_event_id": "loop:2:0", "loop_iteration_index": 5, "result": 5}
    assert {e.meta["loop_iteration_index"] for e in found} == {5}
    assert {e.entity_id for e in found} == {"each"}
    formal = names(item(5, Outcome("error", error=ErrorInfo("no"))), step="each", vocabulary="formal")
    assert formal[-2:] == ["loop.iteration.started", "loop.iteration.finished"]


def test_formal_ids_stay_unique():
    found = list(row_events(EID, row("start", f.Initialized("h", "p", "a", 1)), vocabulary="formal"))
    assert [e.event_id for e in found] == ["start:0:0", "start:0:1", "start:0:2", "start:1"]


def test_rows_of_a_newer_version_are_shown_as_well_as_can_be():
    newer = StoredEvent(
        "x", 0, 1, "quota.exceeded", 1.0, b'[{"name":"quota.exceeded","run":3,"step":"a","limit":9},7]'
    )
    (found,) = row_events(EID, newer)
    assert (found.event_type, found.entity_id, found.payload["limit"]) == ("quota.exceeded", "a", 9)


def test_times_are_rfc_3339():
    assert rfc3339(1_800_000_000.25) == "2027-01-15T08:00:00.250000Z"
    (fired,) = row_events(EID, row("t", f.TimerExpired("step:1", 1), at=1_800_000_000.0))
    assert fired.timestamp == "2027-01-15T08:00:00.000000Z"


class Store:
    """A loop under way: main-lane rows and item rows, read in pages."""

    def __init__(self, main, items, loop=None):
        self.main, self.items, self.loop = main, items, loop

    def events(self, execution_id, *, after=0, limit=1000):
        return [one for one in self.main if one.seq > after][:limit]

    def item_events(self, execution_id, lane, *, after=-1, limit=1000):
        return sorted((one for one in self.items if one.seq > after), key=lambda one: one.seq)[:limit]

    def loop_run(self, execution_id, run, round_):
        return self.loop


START = row("cmd:1:0", f.LoopStarted(2, "each", 0, 6, "parallel", 6), seq=1)
END = row("loop:2:0", f.LoopFinished(2, "each", 0, 6, 6, 0), f.StepExited(2, "each"), seq=2)


def told(events):
    return [
        e.meta.get("loop_iteration_index", e.event_type)
        for e in events
        if e.event_type in ("loop.item", "loop.done")
    ]


def test_items_come_in_index_order_before_the_end_of_their_loop(monkeypatch):
    monkeypatch.setattr(module, "PAGE", 2)
    store = Store([START, END], [item(n) for n in (3, 0, 5, 1, 4, 2)])
    assert told(HistoryReader(store, EID).read(everything=True)) == [0, 1, 2, 3, 4, 5, "loop.done"]


def test_items_of_a_loop_that_goes_on_are_called_what_they_are_in_the_whole_loop():
    loop = SimpleNamespace(picked=((4, 5), (8, 10)))
    store = Store(
        [START, row("a", f.LoopItem(2, "each", 1, "failed"), seq=2)], [item(n) for n in range(3)], loop
    )
    events = list(HistoryReader(store, EID).read(everything=True))
    assert told(events) == [4, 8, 9]
    assert [e.payload["index"] for e in events if e.event_type == "loop.closing"] == [8]


def test_following_tells_each_item_once_and_never_out_of_order():
    for arrival in itertools.permutations(range(4)):
        store = Store([START], [])
        reader = HistoryReader(store, EID)
        seen = []
        for index in arrival:
            store.items.append(item(index))
            seen += told(reader.read())
        store.main.append(END)
        seen += told(reader.read())
        assert seen == [0, 1, 2, 3, "loop.done"], arrival
        assert told(reader.read(everything=True)) == []


def test_a_suspended_item_waits_for_its_end_and_keeps_its_turns_together(monkeypatch):
    monkeypatch.setattr(module, "PAGE", 2)
    suspended = [
        item(1, Outcome("suspended", suspend=Suspend({}, delay=1.0)), turn=turn) for turn in range(3)
    ]
    store = Store([START], [item(0), *suspended, item(2)])
    reader = HistoryReader(store, EID)
    assert told(reader.read()) == [0]
    store.items.append(item(1))
    events = list(reader.read())
    assert told(events) == [1, 2]
    assert [e.event_type for e in events].count("retry.scheduled") == 3


def test_turns_of_an_item_that_were_committed_together_are_told_by_their_numbers():
    turns = {
        turn: Outcome("suspended", trace=[Trace("task.started", f"t{turn}")], suspend=Suspend({}, delay=0.0))
        for turn in (10, 9, 2)
    }
    store = Store([START, END], [item(0), *(item(0, outcome, turn=turn) for turn, outcome in turns.items())])
    events = HistoryReader(store, EID).read()
    assert [e.entity_id for e in events if e.event_type == "task.started"] == ["t2", "t9", "t10", "each"]


def test_items_that_never_came_leave_gaps_when_the_gate_was_closed():
    store = Store([START, END], [item(0), item(2)])
    assert told(HistoryReader(store, EID).read()) == [0, 2, "loop.done"]


@pytest.mark.parametrize("everything", [True, False])
def test_reading_on_from_any_cursor_tells_everything_once(everything):
    main = [
        row("start", f.StepEntered(1, "a"), seq=1),
        msgspec.structs.replace(START, seq=2),
        msgspec.structs.replace(END, seq=3),
        row("cmd:9:0", f.StepEntered(9, "z"), seq=4),
    ]
    store = Store(main, [item(n) for n in range(5)])
    whole = list(HistoryReader(store, EID).read(everything=everything))
    cursor, parts = None, []
    for _ in range(100):
        position = decode_position(cursor) if cursor else None
        reader = HistoryReader(store, EID, position=position)
        unit = next(reader.units(everything=everything, page=1), None)
        cursor = encode_position(reader.position)
        if unit is None:
            break
        parts += unit
    assert parts == whole
    assert told(whole) == [0, 1, 2, 3, 4, "loop.done"]


@over(
    "text",
    ["", "7", "x" * 20_000, "W10x", "WzEsW1sxLDJdXV0", "WzEsW1sxLCJhIiwtNV1dXQ", "[0,[]]", "ÿ", "Wy0xLFtdXQ"],
)
def test_what_is_not_a_cursor_is_refused(text):
    with pytest.raises(InvalidInputError) as caught:
        decode_position(text)
    assert caught.value.code == "invalid_cursor"
