"""load, commit and create: what the main lane is promised."""

from __future__ import annotations

import msgspec
import pytest

from noetl.domain import ids
from noetl.domain.events import Cancel, ContextPatched, Parent, Start, TimerFired
from noetl.domain.outcomes.outcomes import Outcome, Patch
from noetl.ports.executions.execution_store import (
    Creation,
    Fence,
    LoadRequest,
    TimerChange,
    VersionConflictError,
    Wake,
)

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
OTHER = EID + 1
ME = "owner-1"
AWKWARD = {
    "nul": "a\x00b",
    "lone surrogate": "\ud800x",
    "pair": "\U0001f600",
    "23 digits": 12345678901234567890123,
    "float": 1e-7,
    "quote": 'it\'s "{a,b}" \\ NULL',
    "deep": [[[[[{"k": None}]]]]],
}


def test_create_makes_version_zero_and_delivers_its_start_once(store, make):
    assert store.create(make.start(payload={"a": 1}), make.created(), ME).fresh
    assert store.create(make.start(payload={"a": 2}), make.created(), ME) == Creation(
        EID, fresh=False, taken=True
    )
    snapshot = store.load([LoadRequest(EID)]).executions[EID]
    assert (snapshot.version, snapshot.state, snapshot.program, snapshot.status) == (
        0,
        b"",
        "prog",
        "running",
    )
    assert [event.payload for event in store.undelivered("another", 10)] == [{"a": 1}]
    assert store.open_work(EID) == {"commands": 0, "timers": 0, "outbox": 1, "lost": 0}


def test_first_commit_takes_over_the_created_row_or_makes_it(store, make):
    store.create(make.start(), make.created(path="given/first"))
    store.commit([make.change(), make.change(execution_id=OTHER)])
    assert [store.info(eid).version for eid in (EID, OTHER)] == [1, 1]
    assert [store.info(eid).path for eid in (EID, OTHER)] == ["given/first", "demo/hello"]


def test_load_lacks_unknown_executions_and_tells_the_time(harness, make):
    harness.store.commit([make.change()])
    loaded = harness.store.load([LoadRequest(EID), LoadRequest(99)])
    assert set(loaded.executions) == {EID}
    harness.sleep(0.05)
    assert harness.store.load([]).now >= loaded.now + 0.049


def test_load_gives_each_execution_what_was_asked_for_it(store, make):
    slots = {("ctx", "a"): 1, ("vars", "a"): 2, ("args", "7"): 3, ("step", "b"): 4}
    for eid in (EID, OTHER):
        store.commit([make.change(execution_id=eid, slots=slots, issue=(make.command("1", eid),))])
    loaded = store.load(
        [
            LoadRequest(EID, names=("a",), commands=("1", "2"), events=("cmd:1:0", "cmd:9:9")),
            LoadRequest(OTHER, names=("b",), scopes=("args", "vars"), commands=("5",), events=("cmd:1:0",)),
        ]
    ).executions
    assert loaded[EID].slots == {("ctx", "a"): 1, ("vars", "a"): 2}
    assert loaded[EID].fences == {"1": Fence(1, 0)}
    assert loaded[EID].applied == {"cmd:1:0"}
    assert loaded[OTHER].slots == {("vars", "a"): 2, ("args", "7"): 3, ("step", "b"): 4}
    assert loaded[OTHER].fences == {} and loaded[OTHER].applied == frozenset()


@pytest.mark.parametrize("name", AWKWARD)
def test_json_survives_exactly(store, make, name):
    value = {"v": AWKWARD[name]}
    from noetl.domain import codec

    state, facts = codec.encode(value), codec.encode([value])
    store.commit(
        [make.change(state=state, events=(make.row("e", seq=1, facts=facts),), slots={("ctx", "v"): value})]
    )
    snapshot = store.load([LoadRequest(EID, names=("v",))]).executions[EID]
    assert snapshot.state == state
    assert snapshot.slots == {("ctx", "v"): value}
    assert store.events(EID)[0].facts == facts


@pytest.mark.parametrize("name", ["a\x00b", "\udfff", "back\\slash", "b\\u0000", "ключ", "", '{a,"b"}'])
def test_slot_names_may_be_any_text(store, make, name):
    store.commit([make.change(slots={("ctx", name): 1, ("step", "other"): 2})])
    assert store.load([LoadRequest(EID, names=(name,))]).executions[EID].slots == {("ctx", name): 1}
    assert store.slots(EID) == {("ctx", name): 1, ("step", "other"): 2}


def test_slots_are_replaced_deleted_and_can_hold_null(store, make):
    store.commit([make.change(slots={("ctx", "a"): 1, ("ctx", "b"): [1], ("ctx", "n"): None})])
    store.commit([make.change(1, slots={("ctx", "b"): {"x": 2}}, unset=(("ctx", "a"), ("ctx", "gone")))])
    assert store.slots(EID) == {("ctx", "b"): {"x": 2}, ("ctx", "n"): None}


def test_what_the_caller_changes_afterwards_stays_outside(store, make):
    value = {"list": [1]}
    store.commit([make.change(slots={("ctx", "a"): value})])
    value["list"].append(2)
    store.slots(EID)["ctx", "a"]["list"].append(3)
    assert store.slots(EID) == {("ctx", "a"): {"list": [1]}}


def _refused(store, make, *, execution_ids=(EID,), **change):
    before = (store.events(EID), store.slots(EID), store.open_work(EID), store.info(EID))
    with pytest.raises(VersionConflictError) as caught:
        store.commit(
            [make.change(execution_id=OTHER), make.change(**{"slots": {("ctx", "x"): 1}, **change})], ME
        )
    assert set(caught.value.execution_ids) == set(execution_ids)
    assert (store.events(EID), store.slots(EID), store.open_work(EID), store.info(EID)) == before
    assert store.info(OTHER) is None


def test_a_conflict_writes_nothing_at_all(store, make):
    store.commit([make.change(issue=(make.command("1"),), events=(make.row("seen"),))])
    _refused(store, make, expected=0)
    _refused(store, make, expected=2)
    _refused(store, make, expected=1, events=(make.row("seen"),))
    _refused(store, make, expected=1, events=(make.row("twice"), make.row("twice")))
    _refused(store, make, expected=1, close=(("1", 2, 0),))
    _refused(store, make, expected=1, close=(("1", 1, 1),))
    _refused(store, make, expected=1, close=(("other", 1, 0),))
    _refused(store, make, expected=1, issue=(make.command("1"),))
    _refused(store, make, expected=1, close=(("1", 2, 0),), issue=(make.command("1", turn=1),))


@pytest.mark.parametrize("branches", [2, 20])
def test_commands_of_few_and_of_many_branches_follow_each_other(store, make, branches):
    """Commands that were issued alone, and those that were issued together, are closed, replaced and followed by others."""
    store.commit([make.change(issue=(make.command("1"),))], ME)
    wave = [str(number) for number in range(2, 2 + branches)]
    store.commit([make.change(1, close=(("1", 1, 0),), issue=tuple(map(make.command, wave)))], ME)
    for version, command in enumerate(wave, 2):
        after = str(int(command) + 100)
        store.commit([make.change(version, close=((command, 1, 0),), issue=(make.command(after),))], ME)
        wave[version - 2] = after
    found = store.load([LoadRequest(EID, commands=("1", "2", *wave))]).executions[EID]
    assert found.fences == dict.fromkeys(wave, Fence(1, 0)) and found.version == 2 + branches
    first, *_, last = wave
    for close, issue in (((first, 1, 0), last), ((last, 1, 0), first)):
        _refused(store, make, expected=found.version, close=(close,), issue=(make.command(issue),))
    store.commit([make.change(found.version, close=((last, 1, 0),), issue=(make.command(last, turn=1),))], ME)
    store.release(ME)
    claimed = store.claim("another", 100)
    assert sorted(command.command_id for command in claimed) == sorted(wave)
    assert {command.turn for command in claimed if command.command_id == last} == {1}
    version = found.version + 1
    ends = tuple((command, 2, 1 if command == last else 0) for command in wave)
    store.commit([make.change(version, close=ends)], ME)
    assert store.open_work(EID)["commands"] == 0


def test_unknown_execution_without_created_conflicts(store, make):
    with pytest.raises(VersionConflictError):
        store.commit([make.change(created=None)])
    assert store.info(EID) is None


def test_two_changes_of_one_execution_are_refused(store, make):
    with pytest.raises(ValueError, match="two changes"):
        store.commit([make.change(), make.change(1)])


def test_commands_are_given_to_their_owner_in_issue_order(store, make):
    issue = tuple(make.command(str(run), delay=float(run == 2)) for run in (3, 1, 2))
    committed = store.commit([make.change(issue=issue)], ME)
    assert committed.commands == issue
    assert store.open_work(EID)["commands"] == 3


def test_without_an_owner_everything_waits_to_be_claimed(store, make):
    event = ContextPatched(EID, "patch", "prog", [])
    committed = store.commit([make.change(issue=(make.command("1"),), outbox=(event,))])
    assert committed.commands == () and committed.events == ()
    store.heartbeat(ME, 60)
    assert [command.command_id for command in store.claim(ME, 10)] == ["1"]
    assert store.undelivered(ME, 10) == [event]


def test_closing_and_issuing_the_next_turn_keeps_the_attempt_count(store, make):
    store.commit([make.change(issue=(make.command("1"),))], "dead")
    store.heartbeat(ME, 60)
    assert store.claim(ME, 1)[0].attempt == 2
    again = make.command("1", turn=1, machine={"pc": 3})
    committed = store.commit([make.change(1, close=(("1", 2, 0),), issue=(again,))], ME)
    assert committed.commands == (msgspec.structs.replace(again, attempt=2),)
    assert store.load([LoadRequest(EID, commands=("1",))]).executions[EID].fences == {"1": Fence(2, 1)}
    unfenced = make.command("1", turn=2)
    assert store.commit([make.change(2, issue=(unfenced,))], ME).commands[0].attempt == 2


def test_waiting_commands_are_woken_with_their_outcome(store, make):
    waits = make.command("1", turn=1, machine={"pc": 1})
    store.commit([make.change(issue=(make.command("1"),))], ME)
    assert store.commit([make.change(1, close=(("1", 1, 0),), waiting=(waits,))], ME).commands == ()
    store.heartbeat("x", 60)
    assert store.claim("x", 10) == []
    outcome = Outcome("ok", result={"n": 12345678901234567890123, "t": "\x00"})
    assert store.commit([make.change(2, wakes=(Wake("1", 0, outcome),))], ME).commands == ()
    woken = store.commit([make.change(3, wakes=(Wake("1", 1, outcome),))], ME).commands
    assert woken == (msgspec.structs.replace(waits, child=outcome),)
    assert store.commit([make.change(4, wakes=(Wake("1", 1, outcome),))], ME).commands == ()


def test_outbox_holds_events_until_they_are_handled(store, make):
    store.create(make.start(OTHER), make.created())
    mine = ContextPatched(EID, "p1", "prog", [Patch("ctx", "a", "\x00\ud800")])
    child = Start(EID + 5, "start", "other")
    committed = store.commit([make.change(outbox=(mine, child))], ME)
    assert committed.events == (mine, child)
    assert store.commit([make.change(1, outbox=(mine,))], ME).events == (), "it is on its way already"
    store.commit([make.change(2, handled=("p1",), events=(make.row("p1"),))], ME)
    store.heartbeat("x", 60)
    assert {event.execution_id for event in store.undelivered("x", 10)} == {OTHER, EID + 5}
    assert store.undelivered("x", 10) == []


def test_dropping_runs_removes_their_commands_and_ends_their_loops(store, make):
    store.commit([make.change(issue=(make.command("2"), make.command("3")), loops=(make.loop(3, 2),))], ME)
    store.commit([make.change(1, drop_runs=(1, 2))], ME)
    assert store.open_work(EID)["commands"] == 1
    assert [(one.run, one.gate) for one in store.loop_progress(EID)] == [(1, "closed")]
    assert set(store.load([LoadRequest(EID, commands=("2", "3"))]).executions[EID].fences) == {"3"}


def test_runs_that_are_over_leave_no_callbacks_and_no_timers_of_them(store, make):
    places = ["3", "3.r1.i0", "3.case.0.step.exit", "30", "30.r1.i3", "2.r3.i3"]
    slots = {("callback", place): {"over": 1} for place in places} | {("ctx", "3.x"): 1, ("args", "3"): {}}
    timers = tuple(TimerChange(f"callback:{place}:0", 0, 60.0) for place in places)
    store.commit([make.change(slots=slots, timers=(*timers, TimerChange("step:3", 1, 60.0)))], ME)
    store.commit([make.change(1, over_runs=(3, 4))], ME)
    assert set(store.slots(EID)) == {
        ("callback", "30"),
        ("callback", "30.r1.i3"),
        ("callback", "2.r3.i3"),
        ("ctx", "3.x"),
        ("args", "3"),
    }
    assert store.open_work(EID)["timers"] == 4


def test_the_end_leaves_nothing_outstanding_and_starts_nothing(store, make):
    store.commit(
        [
            make.change(
                issue=(make.command("2"),), loops=(make.loop(3, 2),), timers=(TimerChange("t", 1, 0.0),)
            )
        ],
        ME,
    )
    done = make.change(
        1,
        status="completed",
        end=True,
        issue=(make.command("9"),),
        loops=(make.loop(3, 2, run=8),),
        timers=(TimerChange("u", 1, 0.0),),
    )
    committed = store.commit([done], ME)
    assert committed.commands == () and committed.events == ()
    assert store.open_work(EID) == {"commands": 0, "timers": 0, "outbox": 0, "lost": 0}
    loops = store.loop_progress(EID)
    assert [(loop.run, loop.gate, loop.issued) for loop in loops] == [(1, "closed", 2), (8, "closed", 0)]
    info = store.info(EID)
    assert info.status == "completed" and info.ended_at >= info.started_at


def test_cancelling_children_reaches_every_live_one(store, make):
    kids = [EID + number for number in (1, 2, 3)]
    for kid in kids[:2]:
        store.commit([make.change(execution_id=kid, created=make.created(parent_execution_id=EID))])
    store.commit([make.change(1, execution_id=kids[1], status="failed", end=True)])
    store.commit([make.change(outbox=(Start(kids[2], "start", "kid"),))], ME)
    committed = store.commit(
        [make.change(1, status="cancelled", end=True, cancel_children=True, cancel_reason="enough \x00")], ME
    )
    assert all(isinstance(event, Cancel) and event.cascade for event in committed.events)
    assert [(event.execution_id, event.program) for event in committed.events] == [
        (kids[0], "prog"),
        (kids[2], "kid"),
    ]
    assert {event.reason for event in committed.events} == {"enough \x00"}
    assert len({event.event_id for event in committed.events}) == 1


def test_children_that_start_after_the_request_are_spared(store, make):
    """Last tasks and compensations start children in the commit that cancels those of the workflow."""
    before, with_it, after = (EID + number for number in (1, 2, 3))
    store.commit([make.change(outbox=(Start(before, "start", "kid"),))], ME)
    starts = tuple(Start(kid, "start", "kid") for kid in (with_it, after))
    change = make.change(1, cancel_children=True, spared=(after,), drop_runs=(9,), outbox=starts)
    events = store.commit([change], ME).events
    assert {event.execution_id for event in events if isinstance(event, Cancel)} == {before, with_it}
    assert {event.execution_id for event in events if isinstance(event, Start)} == {with_it, after}


def test_a_redriven_child_is_cancelled_again(store, make):
    """A child applied the first cascade, was redriven, and its parent is given up a second time."""
    kid = EID + 1
    store.commit([make.change()])
    store.commit([make.change(execution_id=kid, created=make.created(parent_execution_id=EID))])
    gone = {"status": "cancelled", "end": True, "cancel_children": True}
    (first,) = store.commit([make.change(1, **gone)], ME).events
    rows, over = (make.row(first.event_id),), {"handled": (first.event_id,), "end": True}
    store.commit([make.change(1, execution_id=kid, events=rows, status="cancelled", **over)])
    store.commit([make.change(2), make.change(2, execution_id=kid)])
    (second,) = store.commit([make.change(3, **gone)], ME).events
    assert (second.execution_id, second.cascade) == (kid, True)
    assert second.event_id != first.event_id
    assert store.undelivered("x", 9) == [second], "a row whose event was applied goes instead"


def test_dropping_a_run_cancels_the_children_that_it_waits_for(store, make):
    """Those that exist, and those whose Start is on its way; not what nobody waits for, and not what another run waits for."""
    store.commit([make.change()])
    parents = {
        EID + 1: Parent(EID, "2", 1, run=2),
        EID + 2: Parent(EID, "3", 1, run=3),
        EID + 3: Parent(EID, "2", 0, run=2, wait=False),
        EID + 4: Parent(EID, "2.r0.i1", 1, run=2, round=0, index=1),
    }
    for kid, parent in parents.items():
        born = make.created(parent_execution_id=EID, awaited_by=parent.waiting_run)
        store.commit([make.change(execution_id=kid, created=born)])
    on_their_way = (
        Start(EID + 5, "start", "kid", parent=Parent(EID, "2", 2, run=2)),
        Start(EID + 6, "start", "kid", parent=Parent(EID, "3", 2, run=3)),
        Start(EID + 7, "start", "kid", parent=Parent(EID, "2", 2, run=2, wait=False)),
    )
    committed = store.commit(
        [make.change(1, outbox=on_their_way, drop_runs=(2, 2), cancel_reason="given up")], ME
    )
    cancels = [event for event in committed.events if isinstance(event, Cancel)]
    assert [event.execution_id for event in cancels] == [EID + 1, EID + 4, EID + 5]
    assert {(event.reason, event.cascade) for event in cancels} == {("given up", True)}
    assert {ids.cascade_parent(event.event_id) for event in cancels} == {EID}
    again = store.commit([make.change(2, status="failed", end=True, cancel_children=True)], ME)
    assert [event.execution_id for event in again.events] == [EID + number for number in range(1, 8)], (
        "those that were told, too: what is on its way may come too late for them"
    )
    assert not {event.event_id for event in again.events} & {event.event_id for event in cancels}


def test_timers_fire_by_generation_until_applied(harness, make):
    store = harness.store
    store.commit(
        [
            make.change(
                timers=(TimerChange("a", 1, 0.0), TimerChange("b:c", 1, 0.0), TimerChange("late", 1, 900.0))
            )
        ]
    )
    store.commit([make.change(1, timers=(TimerChange("a", 2, 0.0),))])
    store.heartbeat(ME, 60)
    harness.sleep(0.02)
    fired, soonest = store.due_timers(ME, 10)
    assert sorted((event.timer, event.generation) for event in fired) == [("a", 2), ("b:c", 1)]
    assert all(isinstance(event, TimerFired) and event.program == "prog" for event in fired)
    assert soonest == pytest.approx(900, abs=60)
    assert store.due_timers(ME, 10)[0] == []
    store.commit([make.change(2, events=(make.row("timer:b:c:1"),), timers=(TimerChange("late", 2, None),))])
    assert store.open_work(EID)["timers"] == 1
    store.commit([make.change(3, events=(make.row("timer:a:1"),))])
    assert store.open_work(EID)["timers"] == 1, "an older generation does not clear a newer timer"
    store.release(ME)
    fired, soonest = store.due_timers("x", 10)
    assert [event.event_id for event in fired] == ["timer:a:2"] and soonest is None


@pytest.mark.parametrize("dropped", [False, True])
def test_a_command_has_nothing_of_the_one_before_it(make, store, dropped):
    """Commands that follow another one in its commit may take over its row: its child, its dead workers and its priority are not theirs."""
    store.heartbeat(ME, 600)
    first = make.change(waiting=(make.command("1", priority=7),), priority=7)
    store.commit([first], ME)
    (woken,) = store.commit(
        [make.change(1, wakes=(Wake("1", 0, Outcome("ok", "from the child")),))], ME
    ).commands
    assert woken.child is not None
    store.record_lost([(EID, "1", 0)])
    store.release(ME)
    (again,) = store.claim("you", 10)
    assert (again.attempt, again.lost) == (2, 1)

    over = {"drop_runs": (1,)} if dropped else {}
    issue = tuple(make.command(str(run), step=f"step {run}") for run in (2, 3))
    _refused(store, make, expected=2, close=(("1", 1, 0),), issue=(make.command("4"),))
    given = store.commit([make.change(2, close=(("1", 2, 0),), issue=issue, **over)], ME).commands
    other = make.command("1", OTHER)
    assert given == issue and store.commit([make.change(0, OTHER, issue=(other,))], ME).commands == (other,)
    store.release(ME)
    found = store.claim("them", 10)
    expected = [(EID, "2", "step 2"), (EID, "3", "step 3"), (OTHER, "1", "fetch")]
    assert [(one.execution_id, one.command_id, one.step) for one in found] == expected
    assert all((one.attempt, one.lost, one.child, one.priority) == (2, 0, None, 0) for one in found)
    done = [
        make.change(3, close=tuple((one.command_id, 2, 0) for one in found[:2])),
        make.change(1, OTHER, close=(("1", 2, 0),)),
    ]
    store.commit(done, ME)
    assert store.open_work(EID)["commands"] == store.open_work(OTHER)["commands"] == 0
