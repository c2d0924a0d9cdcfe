"""Paused executions: what comes for them is kept, and given out when they go on; nothing of them can be claimed."""

from __future__ import annotations

import msgspec
import pytest

from noetl.domain import ids
from noetl.domain.commands import ChunkRest, LoopSlice
from noetl.domain.events import CommandDone, Held, Pause, Redrive, Resume
from noetl.domain.outcomes.outcomes import Outcome, Suspend
from noetl.ports.executions.execution_store import ChildrenWord

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
ME, OTHER = "owner-1", "owner-2"


def outcome(command: str = "1", attempt: int = 1) -> Held:
    done = CommandDone(
        EID, f"cmd:{command}:0", "prog", command, attempt, 0, int(command), "fetch", Outcome("ok", result=3)
    )
    return Held(EID, ids.held_event(done.event_id, attempt), "prog", done)


def test_what_is_held_is_given_out_by_the_commit_that_resumes_and_by_nothing_else(harness, make):
    store = harness.store
    store.heartbeat(ME, 60)
    store.commit([make.change(issue=(make.command("1"), make.command("2")))], ME)
    held = outcome()
    assert store.hold([held]) == [held], "it is not paused"
    store.commit([make.change(1, status="paused")], ME)
    assert store.hold([held]) == [] == store.hold([held])
    store.release(ME)
    store.heartbeat(OTHER, 60)
    assert store.undelivered(OTHER, 10) == [] == store.claim(OTHER, 10)
    committed = store.commit([make.change(2, release=True)], OTHER)
    assert committed.events == (held,)
    assert store.hold([held]) == [held]
    assert [command.command_id for command in store.claim(OTHER, 10)] == ["2"], "the outcome of 1 is known"


def test_items_of_a_paused_execution_are_not_counted(harness, make):
    store = harness.store
    store.heartbeat(ME, 60)
    commands = store.commit([make.change(loops=(make.loop(4, 2),))], ME).commands
    store.commit([make.change(1, status="paused")], ME)
    batch = make.items(commands[0], 0)
    (answer,), committed = store.commit_items([batch], ME)
    assert answer.paused and not answer.superseded and committed.commands == ()
    (progress,) = store.loop_progress(EID)
    assert (progress.done, progress.issued) == (0, 2)
    store.commit([make.change(2)], ME)
    (answer,), committed = store.commit_items([batch], ME)
    assert answer.counted == 1 and len(committed.commands) == 1


@pytest.mark.parametrize(("over", "again"), [({"rest": ChunkRest(1), "undone": 1}, False), ({}, True)])
def test_a_chunk_whose_last_message_is_held_goes_on_from_it_and_is_not_run_again(harness, make, over, again):
    """A chunk that sent only a part of its turn is run again when its process dies."""
    store = harness.store
    store.heartbeat(ME, 60)
    (command,) = store.commit([make.change(loops=(make.loop(2, 1, mode="sequential"),))], ME).commands
    store.commit([make.change(1, status="paused")], ME)
    batch = make.items(command, 0, closed=False, **over)
    held = Held(EID, ids.held_event(batch.event.event_id, 1, "digest"), "prog", batch.event)
    assert store.hold([held]) == []
    store.release(ME)
    store.heartbeat(OTHER, 60)
    assert store.commit([make.change(2, release=True)], OTHER).events == (held,)
    assert [one.command_id for one in store.claim(OTHER, 10)] == [command.command_id] * again
    rest = make.command(
        command.command_id, run=command.run, turn=1, loop=LoopSlice(0, 1, 2, 2, "", "sequential")
    )
    (answer,), committed = store.commit_items(
        [msgspec.structs.replace(batch, resumed=(rest,) * bool(over))], OTHER
    )
    assert answer.superseded == again
    assert [(one.attempt, one.turn) for one in committed.commands] == [(1, 1)] * (not again)


def test_an_item_whose_turn_of_its_own_is_held_goes_on_from_it_and_is_not_run_again(harness, make):
    """An item that goes on alone ends a turn of its own command each time it is suspended: that message is its last."""
    store = harness.store
    store.heartbeat(ME, 60)
    (chunk,) = store.commit([make.change(loops=(make.loop(2, 1),))], ME).commands
    waits = {"outcomes": {0: Outcome("suspended", suspend=Suspend({"pc": 0}, delay=0.0))}}
    own = ids.item_command_id(chunk.run, 0, 0)
    first, second = (
        make.command(own, run=chunk.run, turn=turn, loop=LoopSlice(0, 0, 1, 2, "item", "parallel"))
        for turn in (1, 2)
    )
    row = make.row(ids.item_turn_event(chunk.run, 0, 0, 1), seq=0, type="retry.scheduled", lane=chunk.run)
    batch = make.items(chunk, 0, closed=True, **waits)
    batch = msgspec.structs.replace(batch, rows=(row,), resumed=(first,))
    (alone,) = [one for one in store.commit_items([batch], ME)[1].commands if one.command_id == own]
    store.commit([make.change(1, status="paused")], ME)
    batch = make.items(alone, 0, closed=False, **waits)
    row = make.row(ids.item_turn_event(chunk.run, 0, 0, 2), seq=0, type="retry.scheduled", lane=chunk.run)
    batch = msgspec.structs.replace(batch, rows=(row,), resumed=(second,))
    held = Held(EID, ids.held_event(batch.event.event_id, 1, "digest"), "prog", batch.event)
    assert store.hold([held]) == []
    store.release(ME)
    store.heartbeat(OTHER, 60)
    assert store.commit([make.change(2, release=True)], OTHER).events == (held,)
    assert own not in [one.command_id for one in store.claim(OTHER, 10)]
    (answer,), committed = store.commit_items([batch], OTHER)
    assert not answer.superseded
    assert [(one.command_id, one.attempt, one.turn) for one in committed.commands] == [(own, 1, 2)]


def test_children_that_run_are_told(harness, make):
    store = harness.store
    store.heartbeat(ME, 60)
    live, over = EID + 1, EID + 2
    born = make.created(parent_execution_id=EID)
    store.commit([make.change()], ME)
    store.commit([make.change(execution_id=live, created=born)], ME)
    store.commit([make.change(execution_id=over, created=born, status="completed", end=True)], ME)
    words = (ChildrenWord("pause", "pause:1:5", 5), ChildrenWord("resume", "resume:1:6", 6))
    events = store.commit([make.change(1, words=words)], ME).events
    assert events == (Pause(live, "pause:1:5", "prog", word=5), Resume(live, "resume:1:6", "prog", word=6))


def test_only_an_execution_that_has_ended_takes_a_redrive_and_it_is_live_again(harness, make):
    store = harness.store
    store.heartbeat(ME, 60)
    store.commit([make.change()], ME)
    event = Redrive(EID, "ext:again", "prog")
    assert not store.post(event, ME).posted
    store.commit([make.change(1, status="failed", end=True)], ME)
    assert store.info(EID).ended_at is not None and store.post(event, ME).posted
    store.commit([make.change(2, handled=("ext:again",))], ME)
    info = store.info(EID)
    assert (info.status, info.ended_at) == ("running", None)
    assert store.undelivered(ME, 10) == []
