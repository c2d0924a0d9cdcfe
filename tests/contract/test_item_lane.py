"""commit_items: items count once, windows refill, loops end once."""

from __future__ import annotations

import itertools
import threading

import msgspec
import pytest

from noetl.domain import ids
from noetl.domain.commands import ChunkRest, FrozenScope, LoopSlice
from noetl.domain.events import ContextPatched, ItemAwaits, LoopAlert, LoopDone, Parent, Start
from noetl.domain.loop_resume import LoopResume
from noetl.domain.outcomes.outcomes import CallbackRequest, Outcome, Patch, Suspend
from noetl.ports.executions.execution_store import GateChange, Wake
from tests.parts import parted

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
ME = "owner-1"


def begin(store, make, total, window, **over):
    return store.commit([make.change(loops=(make.loop(total, window, **over),))], ME).commands


def progress(store):
    (found,) = store.loop_progress(EID)
    return found


def ranges(commands):
    return [(command.loop.start, command.loop.stop) for command in commands]


def test_a_new_loop_gets_its_first_chunks(store, make):
    commands = begin(store, make, 10, 3)
    assert ranges(commands) == [(0, 1), (1, 2), (2, 3)]
    first = commands[1]
    assert first.command_id == ids.chunk_id(1, 0, 1)
    assert first.scope == FrozenScope(ctx={"factor": 3})
    assert first.loop == LoopSlice(0, 1, 2, 10, "item", "parallel", items=[{"n": 1}])
    assert progress(store).issued == 3 and progress(store).gate == "open"


def test_a_sequential_loop_is_one_command(store, make):
    (command,) = begin(store, make, 5, 1, mode="sequential")
    assert ranges([command]) == [(0, 5)] and len(command.loop.items) == 5


def test_an_empty_loop_is_done_at_once(store, make):
    committed = store.commit([make.change(loops=(make.loop(0, 4),))], ME)
    assert committed.commands == ()
    assert committed.events == (LoopDone(EID, "loop:1:0", "prog", 1, 0, "each"),)
    assert progress(store).gate == "closed"


def test_items_refill_the_window_in_chunks_and_end_the_loop(store, make):
    commands = list(begin(store, make, 11, 7, first=2))
    answers, committed = store.commit_items([make.items(c, c.loop.start, chunk=3) for c in commands], ME)
    assert [answer.counted for answer in answers] == [1, 1]
    assert (answers[-1].done, answers[-1].total, answers[-1].superseded) == (2, 11, False)
    assert ranges(committed.commands) == [(2, 5), (5, 8)]
    assert committed.commands[0].loop.items == [{"n": 2}, {"n": 3}, {"n": 4}]
    two, five = committed.commands
    _, committed = store.commit_items([make.items(two, 2, 3, 4, failed=(4,), chunk=9)], ME)
    assert ranges(committed.commands) == [(8, 11)]
    (eight,) = committed.commands
    _, committed = store.commit_items([make.items(eight, 8, 9, 10), make.items(five, 5, 6, 7)], ME)
    assert committed.events == (LoopDone(EID, "loop:1:0", "prog", 1, 0, "each"),)
    row = progress(store)
    assert (row.done, row.failed, row.issued, row.total, row.gate, row.size) == (10, 1, 11, 11, "closed", 110)
    assert store.open_work(EID) == {"commands": 0, "timers": 0, "outbox": 1, "lost": 0}
    items = store.loop_items(EID, 1, 0, 3, 4)
    assert [item.index for item in items] == [3, 4, 5, 6]
    assert msgspec.json.decode(items[0].outcome, type=Outcome).result == 9
    assert store.loop_items(EID, 1, 1, 0, 4) == []


@pytest.mark.parametrize("chunk", [1, 2, 50])
def test_a_window_stays_full_of_commands_whichever_of_them_end_together(store, make, chunk):
    """Of one command, items run one after the other: with one of four items, nothing else would run."""
    begun = begin(store, make, 40, 4)
    _, committed = store.commit_items([make.items(c, c.loop.start, chunk=chunk) for c in begun], ME)
    assert ranges(committed.commands) == [(4, 5), (5, 6), (6, 7), (7, 8)]
    _, committed = store.commit_items(
        [make.items(c, c.loop.start, chunk=chunk) for c in committed.commands[:3]], ME
    )
    assert ranges(committed.commands) == [(8, 9), (9, 10), (10, 11)]


def test_what_is_left_of_a_loop_is_divided_among_all_commands_that_end(store, make):
    begun = begin(store, make, 11, 100, first=4)
    _, committed = store.commit_items([make.items(c, c.loop.start, chunk=50) for c in begun], ME)
    assert ranges(committed.commands) == [(4, 6), (6, 8), (8, 10), (10, 11)]


def test_a_loop_that_goes_on_gives_out_the_items_it_picked_by_their_own_names(store, make):
    over = {"again": LoopResume(1, 0), "picked": ((2, 4), (6, 7)), "whole": 9, "run": 7, "round": 1}
    kept = [Patch("ctx", "sum", 3)]
    items = [{"n": index} for index in range(9)]
    begin(store, make, 9, 9, mode="sequential")
    row = make.loop(3, 3, mode="sequential", items=items, overlay=kept, **over)
    (command,) = store.commit([make.change(1, loops=(row,))], ME).commands
    assert (command.loop.indexes, command.loop.whole, command.overlay) == ((2, 3, 6), 9, kept)
    assert command.loop.items == [{"n": 2}, {"n": 3}, {"n": 6}]
    assert store.loop_run(EID, 7, 1) == row and store.loop_run(EID, 7, 2) is None
    store.release(ME)
    store.heartbeat("other", 60)
    again = next(one for one in store.claim("other", 9) if one.run == 7)
    assert (again.loop, again.overlay, again.attempt) == (command.loop, kept, 2)
    answers, committed = store.commit_items([make.items(again, 0, 1, 2)], ME)
    assert answers[0].done == 3 and [event.run for event in committed.events] == [7]
    assert [item.index for item in store.loop_items(EID, 7, 1, 0, 9)] == [0, 1, 2]


def test_repeats_count_once_within_and_across_batches(store, make):
    (command,) = begin(store, make, 6, 1, mode="sequential")
    flush = make.items(command, 0, 1, 1, closed=False)
    flush = msgspec.structs.replace(flush, size=300)
    answers, _ = store.commit_items([flush, make.items(command, 1, 2, closed=False)], ME)
    assert [answer.counted for answer in answers] == [2, 1]
    answers, _ = store.commit_items([make.items(command, 0, 1, 2, 3, failed=(0, 3), closed=False)], ME)
    assert (answers[0].counted, answers[0].done, answers[0].failed) == (1, 3, 1)
    assert 200 <= progress(store).size <= 350
    assert len(store.item_events(EID, 1)) == 4


def test_a_closed_or_outdated_command_is_superseded_as_a_whole(store, make):
    first, second = begin(store, make, 9, 2)
    patch = ContextPatched(EID, "x", "prog", [])
    store.commit_items([make.items(first, 0)], ME)
    late = [
        make.items(first, 0, outbox=(patch,), alert="failed", alert_index=0),
        make.items(msgspec.structs.replace(second, attempt=2), 1, outbox=(patch,)),
        make.items(msgspec.structs.replace(second, turn=1), 1, outbox=(patch,)),
        make.items(msgspec.structs.replace(second, execution_id=EID + 1), 1, outbox=(patch,)),
    ]
    answers, committed = store.commit_items(late, ME)
    assert all(answer.superseded and answer.counted == 0 for answer in answers)
    assert committed.commands == () and committed.events == ()
    assert progress(store).done == 1
    answers, _ = store.commit_items([make.items(second, 1), make.items(second, 1)], ME)
    assert [answer.superseded for answer in answers] == [False, True]


def test_only_the_first_alert_counts_and_stops_the_refill(store, make):
    commands = begin(store, make, 9, 3)
    batches = [
        make.items(commands[0], 0, failed=(0,), alert="failed", alert_index=0),
        make.items(commands[1], 1, alert="next", alert_index=1),
    ]
    _, committed = store.commit_items(batches, ME)
    assert committed.events == (LoopAlert(EID, "alert:1:0", "prog", 1, 0, "each", 0, "failed"),)
    assert committed.commands == ()
    committed = store.commit([make.change(1, gates=(GateChange(1, 0),), handled=("alert:1:0",))], ME)
    assert committed.events == () and progress(store).gate == "closing"
    _, committed = store.commit_items([make.items(commands[2], 2)], ME)
    assert [type(event) for event in committed.events] == [LoopDone]
    row = progress(store)
    assert (row.done, row.failed, row.issued, row.gate) == (2, 1, 3, "closed")


def test_a_gate_with_nothing_in_flight_ends_the_loop_at_once(store, make):
    (command,) = begin(store, make, 5, 1)
    store.commit_items([make.items(command, 0, alert="next", alert_index=0)], ME)
    committed = store.commit([make.change(1, gates=(GateChange(1, 0), GateChange(77, 0)))], ME)
    assert [type(event) for event in committed.events] == [LoopDone]
    assert store.commit([make.change(2, gates=(GateChange(1, 0),))], ME).events == ()


def test_a_chunk_that_stops_early_hands_its_rest_back(store, make):
    (command,) = begin(store, make, 5, 1, mode="sequential")
    batch = make.items(command, 0, 1, failed=(1,), undone=3, alert="failed", alert_index=1)
    _, committed = store.commit_items([batch], ME)
    assert [type(event) for event in committed.events] == [LoopAlert]
    committed = store.commit([make.change(1, gates=(GateChange(1, 0),))], ME)
    assert [type(event) for event in committed.events] == [LoopDone]
    row = progress(store)
    assert (row.issued, row.done, row.failed) == (2, 1, 1)


@pytest.mark.parametrize("continues", [False, True])
def test_the_last_message_of_a_chunk_waits_for_the_first(store, make, continues):
    """Messages of one command may overtake each other: what would end it early changes nothing and has to come again."""
    (command,) = begin(store, make, 5, 1, mode="sequential")
    slice_ = LoopSlice(0, 3, 5, 5, "item", "sequential")
    rest = make.command(command.command_id, run=1, turn=1, loop=slice_)
    over = (
        {"closed": False, "rest": ChunkRest(3), "undone": 2, "resumed": (rest,)}
        if continues
        else {"undone": 2}
    )
    last = make.items(command, 2, alert="" if continues else "next", alert_index=2, **over)
    (answer,), committed = store.commit_items([last], ME)
    assert answer.early and not answer.superseded and committed.events == committed.commands == ()
    assert progress(store).done == 0 and store.open_work(EID)["commands"] == 1
    store.commit_items([make.items(command, 0, 1, closed=False)], ME)
    (answer,), committed = store.commit_items([last], ME)
    assert not answer.early and answer.done == 3
    assert [again.loop.items for again in committed.commands] == ([[{"n": 3}, {"n": 4}]] if continues else [])
    assert store.open_work(EID)["commands"] == (1 if continues else 0)


@pytest.mark.parametrize("overtaken", [False, True])
def test_messages_of_one_command_in_one_call_see_each_other(store, make, overtaken):
    (command,) = begin(store, make, 3, 1, mode="sequential")
    batches = [make.items(command, 0, 1, closed=False, undone=1), make.items(command, 2, undone=0)]
    if overtaken:
        batches.reverse()
    answers, committed = store.commit_items(batches, ME)
    assert [answer.early for answer in answers] == [overtaken, False]
    assert [type(event) for event in committed.events] == ([] if overtaken else [LoopDone])
    if overtaken:
        answers, committed = store.commit_items(batches, ME)
        assert [answer.counted for answer in answers] == [1, 0] and answers[1].superseded
        assert [type(event) for event in committed.events] == [LoopDone]


def test_the_rest_of_a_sequential_chunk_goes_on_as_its_next_turn(store, make):
    (command,) = begin(store, make, 5, 1, mode="sequential")
    overlay = [Patch("ctx", "sum", 1, "add")]
    rest = make.command(
        command.command_id,
        run=1,
        turn=1,
        overlay=overlay,
        machine={"pc": 1},
        delay=0.0,
        loop=LoopSlice(0, 2, 5, 5, "item", "sequential"),
    )
    _, committed = store.commit_items([make.items(command, 0, 1, closed=False, resumed=(rest,))], ME)
    (again,) = committed.commands
    assert (again.command_id, again.turn, again.attempt, again.overlay) == ("1.r0.0", 1, 1, overlay)
    assert again.loop.items == [{"n": 2}, {"n": 3}, {"n": 4}] and again.scope == command.scope
    assert store.open_work(EID)["commands"] == 1
    answers, committed = store.commit_items([make.items(command, 2)], ME)
    assert answers[0].superseded
    answers, committed = store.commit_items([make.items(again, 2, 3, 4)], ME)
    assert answers[0].done == 5 and [type(event) for event in committed.events] == [LoopDone]


def _suspended(make, command, index, **over):
    """Item ``index`` of a parallel chunk goes on alone."""
    run = command.run
    alone = make.command(
        ids.item_command_id(run, 0, index), command.execution_id, run=run, turn=1, machine={"pc": index},
        loop=LoopSlice(0, index, index + 1, 0, "", "parallel"),
    )  # fmt: skip
    outcome = Outcome("suspended", suspend=Suspend({"pc": index}, delay=1.0))
    batch = make.items(command, index, outcomes={index: outcome}, **over)
    row = make.row(
        ids.item_turn_event(run, 0, index, 0), seq=index, lane=run, facts=b'{"status":"suspended"}'
    )
    return alone, msgspec.structs.replace(batch, rows=(*batch.rows, row))


def test_a_suspended_item_stays_in_flight_and_finishes_alone(store, make):
    commands = begin(store, make, 3, 2)
    alone, batch = _suspended(make, commands[0], 0)
    answers, committed = store.commit_items([msgspec.structs.replace(batch, resumed=(alone,))], ME)
    assert (answers[0].counted, answers[0].done) == (0, 0)
    (again,) = committed.commands
    assert again.loop.items == [{"n": 0}] and again.machine == {"pc": 0} and again.loop.total == 3
    assert progress(store).issued == 2, "a suspended item keeps its place in the window"
    _, committed = store.commit_items([make.items(again, 0), make.items(commands[1], 1)], ME)
    (last,) = committed.commands
    _, committed = store.commit_items([make.items(last, 2)], ME)
    assert [type(event) for event in committed.events] == [LoopDone]
    assert len(store.loop_items(EID, 1, 0, 0, 10)) == 3


def test_a_repeated_flush_does_not_revive_an_item_that_went_on(store, make):
    (command,) = begin(store, make, 3, 1, mode="parallel")
    alone, batch = _suspended(make, command, 0, closed=False)
    batch = msgspec.structs.replace(batch, resumed=(alone,))
    _, committed = store.commit_items([batch], ME)
    store.commit_items([make.items(committed.commands[0], 0)], ME)
    before = store.open_work(EID)
    answers, committed = store.commit_items([batch], ME)
    assert not answers[0].superseded and committed.commands == ()
    assert store.open_work(EID) == before


@pytest.mark.parametrize("first", ["done", "goes on alone"])
@pytest.mark.parametrize("together", [False, True])
def test_the_first_of_two_runs_of_a_chunk_decides_what_became_of_an_item(store, make, first, together):
    """Two runs of one command need not agree: an item that asks a service is done in one and waits in the other."""
    (command,) = store.commit([make.change(loops=(make.loop(2, 2),))], ME).commands[:1]
    command = msgspec.structs.replace(command, loop=msgspec.structs.replace(command.loop, stop=2))
    alone, continues = _suspended(make, command, 0, closed=False)
    continues = msgspec.structs.replace(continues, resumed=(alone,))
    done = make.items(command, 0, closed=False)
    batches = [done, continues] if first == "done" else [continues, done]
    if together:
        answers, committed = store.commit_items(batches, ME)
        given = list(committed.commands)
    else:
        answers, given = [], []
        for batch in batches:
            answer, committed = store.commit_items([batch], ME)
            answers += answer
            given += committed.commands
    assert not any(answer.superseded or answer.early for answer in answers)
    finals = [row.event_id for row in store.item_events(EID, 1) if row.event_id == ids.item_event(1, 0, 0)]
    if first == "done":
        assert given == [] and progress(store).done == 1 and len(finals) == 1
    else:
        (again,) = given
        assert progress(store).done == 0 and not finals
        store.commit_items([make.items(again, 0)], ME)
        assert progress(store).done == 1


class _TwoRuns:
    """Two runs of one turn of a command: in one its first item is done, in the other that item goes on as the command's next turn."""

    def __init__(self, store, make, kind, waits):
        self.store, self.make = store, make
        store.heartbeat(ME, 3600)
        if kind == "item":
            commands = begin(store, make, 1, 1)
            alone, batch = _suspended(make, commands[0], 0)
            _, committed = store.commit_items([msgspec.structs.replace(batch, resumed=(alone,))], ME)
            (self.command,) = committed.commands
        else:
            (self.command,) = begin(store, make, int(kind), 1, mode="sequential")
        self.total = self.command.loop.stop
        turn = self.command.turn + 1
        first = make.items(self.command, 0, closed=False, undone=self.total - 1)
        last = make.items(self.command, *range(1, self.total), undone=0)
        again = make.command(
            self.command.command_id, run=1, turn=turn, machine={"pc": 7}, loop=msgspec.structs.replace(self.command.loop, items=[])
        )  # fmt: skip
        row = make.row(ids.item_turn_event(1, 0, 0, turn), seq=0, lane=1)
        over = (
            {"outbox": (self._asked(waits, turn),), "waiting": (again,)} if waits else {"resumed": (again,)}
        )
        continues = make.items(
            self.command, closed=False, rest=ChunkRest(0), undone=self.total, rows=(row,), **over
        )
        self.messages = {"first": first, "last": last, "goes on": continues}
        self.asked = over.get("outbox", ())
        self.turn = turn
        self.given, self.made = [], []

    def _asked(self, waits, turn):
        name = self.command.command_id
        if waits == "callback":
            place = ids.item_command_id(1, 0, 0)
            request = CallbackRequest(0, "ask")
            return ItemAwaits(
                EID, ids.item_awaits_event(place, 0), "prog", "each", place, name, turn, request
            )
        event_id = ids.start_event(f"{EID}/{ids.child_origin(name, turn, 0)}")
        return Start(EID + 9, event_id, "", parent=Parent(EID, name, turn, 1, 0, 0))

    def deliver(self, names, together):
        """Messages in this order; those that are early come again after the others."""
        left = [self.messages[name] for name in names]
        while left:
            sent, left = (left, []) if together else (left[:1], left[1:])
            answers, committed = self.store.commit_items(sent, ME)
            self.given += committed.commands
            self.made += committed.events
            early = [one for one, answer in zip(sent, answers, strict=True) if answer.early]
            assert left or len(early) < len(sent), "early for ever"
            left += early

    def finish(self):
        """Whoever is given the command, or finds it, does what is left."""
        if self.asked and self.went_on:
            outcome = Outcome("ok", result=[1])
            wakes = (Wake(self.command.command_id, self.turn, outcome),)
            self.given += self.store.commit([self.make.change(1, wakes=wakes)], ME).commands
        self.store.heartbeat("other", 60)
        for command in [*self.given, *self.store.claim("other", 9)]:
            piece = command.loop
            indexes = [index for index in range(piece.start, piece.stop) if index not in piece.skip]
            assert self.went_on or 0 not in indexes, "the first item is run again"
            _, committed = self.store.commit_items([self.make.items(command, *indexes, undone=0)], "other")
            self.made += committed.events

    @property
    def went_on(self):
        turn_row = ids.item_turn_event(1, 0, 0, self.turn)
        return any(row.event_id == turn_row for row in self.store.item_events(EID, 1))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("waits", ["", "child", "callback"])
@pytest.mark.parametrize("kind", ["1", "3", "item"])
def test_an_item_that_is_done_is_not_the_next_turn_of_its_command(store, make, kind, waits, together):
    """A command goes on at an item of which its other run has said nothing; else it is the other run's, or its next attempt's."""
    runs = _TwoRuns(store, make, kind, waits)
    names = ("first", "goes on")
    runs.deliver(names, together)
    assert not runs.went_on and runs.given == []
    assert not [event for event in runs.made if event in runs.asked], (
        "nothing is asked for an item that is done"
    )
    assert progress(store).done == 1
    assert store.open_work(EID)["commands"] == (1 if kind == "3" else 0)


ORDERS = [
    *itertools.permutations(("first", "last", "goes on")),
    *itertools.permutations(("first", "goes on")),
]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("waits", ["", "child"])
@pytest.mark.parametrize("kind", ["1", "3", "item"])
@pytest.mark.parametrize(
    "order",
    parted(
        [(order,) for order in ORDERS], [(order,) for order in ORDERS[1::4]], ids=list(map(", ".join, ORDERS))
    ),
)
def test_a_loop_ends_in_whatever_order_two_runs_tell_of_it(store, make, kind, waits, order, together):
    """Without "last", the run that has done the item dies before it says more."""
    runs = _TwoRuns(store, make, kind, waits)
    runs.deliver(order, together)
    runs.finish()
    row = progress(store)
    assert (row.done, row.gate) == (runs.total, "closed")
    assert [type(event) for event in runs.made].count(LoopDone) == 1
    assert store.open_work(EID)["commands"] == 0
    told = [row.event_id for row in store.item_events(EID, 1)]
    assert sorted(one for one in told if ":t" not in one) == [
        ids.item_event(1, 0, i) for i in range(runs.total)
    ]
    assert runs.went_on == (order.index("goes on") < order.index("first"))


@pytest.mark.parametrize("continues", ["alone", "alone, twice", "as the rest of its chunk", "woken"])
def test_what_goes_on_keeps_the_priority_of_its_execution(store, make, continues):
    urgent = EID + 1
    before = [make.command(f"{number}", run=number) for number in (1, 2, 3)]
    store.commit([make.change(issue=tuple(before))])
    mode = "sequential" if continues == "as the rest of its chunk" else "parallel"
    loop = make.loop(2, 1, mode=mode, priority=7)
    (command,) = store.commit([make.change(0, urgent, loops=(loop,), priority=7)], ME).commands
    if mode == "sequential":
        rest = make.command(command.command_id, urgent, run=1, turn=1, loop=LoopSlice(0, 1, 2, 2, "", mode))
        batch = make.items(command, 0, closed=False, resumed=(rest,))
        (going_on,) = store.commit_items([batch], ME)[1].commands
    else:
        alone, batch = _suspended(make, command, 0)
        if continues == "woken":
            store.commit_items([msgspec.structs.replace(batch, waiting=(alone,))], ME)
            # Not a commit with a priority: that would give it to every command of the execution.
            wake = Wake(alone.command_id, 1, Outcome("ok"))
            (going_on,) = store.commit([make.change(1, urgent, wakes=(wake,))], ME).commands
        else:
            (going_on,) = store.commit_items([msgspec.structs.replace(batch, resumed=(alone,))], ME)[
                1
            ].commands
    if continues == "alone, twice":
        again = msgspec.structs.replace(going_on, turn=2)
        row = make.row(ids.item_turn_event(1, 0, 0, 1), seq=0, lane=1)
        batch = make.items(going_on, closed=False, resumed=(again,), rows=(row,))
        (going_on,) = store.commit_items([batch], ME)[1].commands
        assert going_on.turn == 2
    assert going_on.priority == 7
    store.release(ME)
    (claimed,) = store.claim("other", 1)
    assert (claimed.execution_id, claimed.command_id) == (urgent, going_on.command_id)
    assert (claimed.priority, claimed.turn, claimed.attempt) == (7, going_on.turn, 2)


def test_a_waiting_item_is_woken_with_its_whole_scope(store, make):
    (command,) = begin(store, make, 1, 1)
    alone, batch = _suspended(make, command, 0)
    start = make.start(EID + 9)
    _, committed = store.commit_items([msgspec.structs.replace(batch, waiting=(alone,), outbox=(start,))], ME)
    assert committed.commands == () and committed.events == (start,)
    outcome = Outcome("ok", result=[1])
    (woken,) = store.commit([make.change(1, wakes=(Wake(alone.command_id, 1, outcome),))], ME).commands
    assert woken.child == outcome and woken.loop.items == [{"n": 0}] and woken.scope == command.scope


def test_items_of_several_loops_that_are_woken_together_are_each_whole(store, make):
    loops = tuple(make.loop(3, 3, run=run, items=[f"{run}/{index}" for index in range(3)]) for run in (1, 2))
    commands = store.commit([make.change(loops=loops)], ME).commands
    alone = {}
    for command in commands:
        waiting, batch = _suspended(make, command, command.loop.start)
        store.commit_items([msgspec.structs.replace(batch, waiting=(waiting,))], ME)
        alone[waiting.command_id] = f"{command.run}/{command.loop.start}"
    wakes = tuple(Wake(command_id, 1, Outcome("ok", result=item)) for command_id, item in alone.items())
    woken = store.commit([make.change(1, wakes=wakes)], ME).commands
    assert {one.command_id: (*one.loop.items, one.child.result) for one in woken} == {
        command_id: (item, item) for command_id, item in alone.items()
    }
    assert all(one.scope == commands[0].scope for one in woken)


def test_of_a_collection_in_the_result_store_commands_carry_where_it_is(store, make):
    reference = {"ref": f"noetl://execution/{EID}/result/each/0", "sha256": "a" * 64, "store": "memory"}
    told = {**reference, "kind": "result_ref", "preview": {"sample": "x" * 500}}
    commands = begin(store, make, 6, 4, items=None, items_ref=told, first=2)
    assert [command.loop.source for command in commands] == [reference, reference]
    assert [command.loop.items for command in commands] == [[], []]
    _, committed = store.commit_items([make.items(c, c.loop.start, chunk=2) for c in commands], ME)
    following, _ = committed.commands
    assert following.loop.source == reference and (following.loop.start, following.loop.stop) == (2, 4)


def test_items_of_a_stored_collection_that_run_again_keep_what_they_are_called(store, make):
    again, picked = LoopResume(1, 0), ((2, 4), (6, 7), (9, 12))
    loop = make.loop(6, 9, items=None, items_ref={"ref": "noetl://x"}, again=again, picked=picked, whole=12)
    commands = list(store.commit([make.change(loops=(loop,))], ME).commands)
    assert [command.loop.called for command in commands] == [((i, i + 1),) for i in (2, 3, 6, 9, 10, 11)]
    one = make.loop(6, 9, mode="sequential", run=2, items=None, items_ref={"ref": "noetl://x"}, again=again)
    one = msgspec.structs.replace(one, picked=picked, whole=12)
    (whole,) = store.commit([make.change(1, loops=(one,))], ME).commands
    assert (
        whole.loop.called == picked and whole.loop.indexes == () and whole.loop.source == {"ref": "noetl://x"}
    )


def test_rounds_and_loops_are_apart(store, make):
    loops = (make.loop(2, 2), make.loop(2, 2, round=1), make.loop(3, 1, run=5, step="inner"))
    commands = store.commit([make.change(loops=loops)], ME).commands
    assert [command.command_id for command in commands] == ["1.r0.0", "1.r0.1", "1.r1.0", "1.r1.1", "5.r0.0"]
    _, committed = store.commit_items([make.items(command, command.loop.start) for command in commands], ME)
    assert ranges(committed.commands) == [(1, 2)] and committed.commands[0].step == "inner"
    assert sorted(event.event_id for event in committed.events) == ["loop:1:0", "loop:1:1"]
    assert len(store.loop_items(EID, 1, 0, 0, 9)) == 2 and len(store.loop_items(EID, 1, 1, 0, 9)) == 2
    assert [(loop.run, loop.round, loop.done) for loop in store.loop_progress(EID)] == [
        (1, 0, 2),
        (1, 1, 2),
        (5, 0, 1),
    ]
    assert [(loop.run, loop.round) for loop in store.loop_progress(EID, [1, 9])] == [(1, 0), (1, 1)]
    assert store.loop_progress(EID, []) == []


@pytest.mark.parametrize("loops", [700])
def test_a_call_about_more_loops_than_are_remembered_gives_out_every_command(store, make, loops):
    """What a store remembers of loops saves reading them. It never decides which commands are given out."""
    rows = tuple(
        make.loop(3, 1, run=run, items=[f"{run}/{index}" for index in range(3)])
        for run in range(1, loops + 1)
    )
    first = store.commit([make.change(loops=rows)], ME).commands
    assert len(first) == loops

    _, committed = store.commit_items([make.items(command, 0) for command in first], ME)
    assert {command.run: command.loop.items for command in committed.commands} == {
        run: [f"{run}/1"] for run in range(1, loops + 1)
    }

    batches = []
    for command in committed.commands:
        alone, batch = _suspended(make, command, 1)
        batches.append(msgspec.structs.replace(batch, resumed=(alone,)))
    _, committed = store.commit_items(batches, ME)
    going_on = [command for command in committed.commands if command.machine is not None]
    assert {command.run: command.loop.items for command in going_on} == {
        run: [f"{run}/1"] for run in range(1, loops + 1)
    }
    assert store.open_work(EID)["commands"] == len(committed.commands) == loops


def test_patches_are_counted(store, make):
    (command,) = begin(store, make, 3, 1, mode="sequential")
    patched = Outcome("ok", patches=[Patch("ctx", "a", 1, "add")])
    store.commit_items([make.items(command, 0, 1, 2, outcomes={1: patched})], ME)
    assert progress(store).patched == 1


@pytest.mark.parametrize("total", [40])
def test_a_loop_ends_once_when_everything_arrives_at_once_and_twice(store, make, total):
    """Every command is reported by two threads at the same time."""
    queue = list(begin(store, make, total, 8))
    ended, counted, errors = [], [], []
    lock = threading.Lock()

    def work():
        try:
            while True:
                with lock:
                    if not queue:
                        return
                    command = queue[0]
                    if (EID, command.command_id, threading.get_ident()) in seen:
                        queue.append(queue.pop(0))
                        if all((EID, c.command_id, threading.get_ident()) in seen for c in queue):
                            return
                        continue
                    seen.add((EID, command.command_id, threading.get_ident()))
                    times[command.command_id] = times.get(command.command_id, 0) + 1
                    if times[command.command_id] == 2:
                        queue.remove(command)
                indexes = range(command.loop.start, command.loop.stop)
                answers, committed = store.commit_items([make.items(command, *indexes, chunk=2)], ME)
                with lock:
                    counted.extend(answer.counted for answer in answers)
                    ended.extend(event for event in committed.events if isinstance(event, LoopDone))
                    queue.extend(committed.commands)
        except Exception as error:
            errors.append(error)

    seen: set[tuple[int, str, int]] = set()
    times: dict[str, int] = {}
    while not ended and not errors:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    assert len(ended) == 1 and sum(counted) == total
    row = progress(store)
    assert (row.done, row.issued, row.gate) == (total, total, "closed")
    assert store.open_work(EID)["commands"] == 0
