"""History and lists."""

from __future__ import annotations

import msgspec
import pytest

from noetl.domain import ids
from noetl.domain.events import Cancel, decode_event
from noetl.ports.executions.answers import ExecutionFilter

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
ME = "owner-1"


def test_main_lane_is_read_by_cursor_in_order(store, make):
    rows = tuple(make.row(f"e{seq}", seq=seq, at=1700000000.25) for seq in (3, 1, 2))
    store.commit([make.change(events=rows)])
    assert [row.seq for row in store.events(EID)] == [1, 2, 3]
    assert [row.event_id for row in store.events(EID, after=1, limit=1)] == ["e2"]
    first = store.events(EID)[0]
    assert (first.lane, first.type, first.at, first.facts) == (0, "step.enter", 1700000000.25, b"[]")


def test_rows_without_a_time_get_the_store_s(harness, make):
    harness.store.commit([make.change()])
    now = harness.store.load([]).now
    assert harness.store.events(EID)[0].at == pytest.approx(now, abs=30)


def test_superseded_rows_are_kept_aside_once(store, make):
    store.commit([make.change()])
    late = make.row("superseded:1:0:1", seq=0)
    store.record_superseded([(EID, late), (EID, make.row("superseded:2:0:1", seq=0)), (99, late)])
    store.record_superseded([(EID, late)])
    assert len(store.events(EID)) == 1
    assert [row.event_id for row in store.item_events(EID, -1)] == ["superseded:1:0:1", "superseded:2:0:1"]
    assert list(store.every_item(EID)) == []
    assert store.info(EID).version == 1


def test_recording_superseded_rows_ends_the_delivery_of_their_events(store, make):
    store.create(make.start(), make.created())
    store.record_superseded([(EID, make.row("late:start"))], handled=[(EID, "start"), (EID, "unknown")])
    assert store.undelivered(ME, 10) == []
    assert store.open_work(EID)["outbox"] == 0
    store.record_superseded([], handled=[(EID, "start")])


def test_item_pages_never_split_a_place(store, make):
    loop = make.loop(3, 3)
    commands = store.commit([make.change(loops=(loop,))], ME).commands
    for command in commands:
        index = command.loop.start
        batch = make.items(command, index)
        extra = make.row(ids.item_turn_event(1, 0, index, 0), seq=index, lane=1)
        import msgspec

        store.commit_items([msgspec.structs.replace(batch, rows=(*batch.rows, extra))], ME)
    page = store.item_events(EID, 1, limit=1)
    assert [row.seq for row in page] == [0, 0]
    assert [row.seq for row in store.item_events(EID, 1, after=0, limit=3)] == [1, 1, 2, 2]
    assert len(list(store.every_item(EID))) == 6


def test_executions_newest_first(store, make):
    for number in range(4):
        store.commit([make.change(execution_id=EID + number)])
    store.commit([make.change(1, execution_id=EID + 2, status="failed", end=True)])
    assert [info.execution_id - EID for info in store.executions(limit=3)] == [3, 2, 1]
    assert [info.execution_id - EID for info in store.executions(limit=3, before=EID + 2)] == [1, 0]
    assert [info.execution_id - EID for info in store.executions(limit=3, status="failed")] == [2]
    ours = ExecutionFilter(path="demo/hello", started_after=store.info(EID).started_at)
    assert [info.execution_id - EID for info in store.executions(limit=2, wanted=ours)] == [3, 2]
    for none in (
        ExecutionFilter(path="demo"),
        ExecutionFilter(parent=EID),
        ExecutionFilter(started_after=4e9),
        ExecutionFilter(started_before=store.info(EID).started_at),
        ExecutionFilter(program="other"),
        ExecutionFilter(ids=(12345,)),
        ExecutionFilter(statuses=("paused", "completed")),
        ExecutionFilter(labels={"team": "data"}),
    ):
        assert not store.executions(limit=3, wanted=none)
    some = ExecutionFilter(program="prog", ids=(EID, EID + 2, EID + 3), statuses=("failed", "paused"))
    assert [info.execution_id - EID for info in store.executions(limit=3, wanted=some)] == [2]
    info = store.info(EID)
    assert (info.path, info.name, info.program, info.state) == (
        "demo/hello",
        "hello",
        "prog",
        b'{"v":1,"seq":1}',
    )
    assert store.info(12345) is None


def test_labels_and_roots_narrow_a_list(store, make):
    labels = {"team": "data", "stage": 'a=b, {c} "d" ä'}
    start = make.start(execution_id=EID)
    store.create(start, msgspec.structs.replace(make.created(), labels=labels))
    store.commit([make.change(execution_id=EID)])
    store.commit([make.change(execution_id=EID + 1)])
    found = store.info(EID)
    assert (found.labels, store.info(EID + 1).labels) == (labels, {})
    for wanted in ({"team": "data"}, {"stage": labels["stage"]}, labels):
        assert [
            one.execution_id for one in store.executions(limit=9, wanted=ExecutionFilter(labels=wanted))
        ] == [EID]
    assert not store.executions(limit=9, wanted=ExecutionFilter(labels={**labels, "more": ""}))
    assert not store.executions(limit=9, wanted=ExecutionFilter(labels={"team": "dat"}))
    assert len(store.executions(limit=9, wanted=ExecutionFilter(roots=True))) == 2


def test_catalog_versions(catalog):
    def put(path, content, program="p"):
        return catalog.register(path=path, name="n", program=program, content=content, source_name="f.yaml")

    first = put("a/b", "one")
    assert put("a/b", "one") == first and first.version == 1
    assert put("a/b", "two", "q").version == 2
    assert put("a/b", "one").version == 3, "going back is a change, too"
    other = put("a/a", 'it\'s {"x"} \\ \U0001f600')
    assert catalog.get("a/b").version == 3
    assert catalog.get("a/b", 2).content == "two"
    assert catalog.get("a/b", 4) is None and catalog.get("nope") is None and catalog.get("a/b", 0) is None
    assert catalog.by_program("q").version == 2 and catalog.by_program("zzz") is None
    assert catalog.get("a/a") == other
    asked = [
        ("a/b", None),
        ("a/b", 2),
        ("nope", None),
        ("a/a", 1),
        ("a/b", 4),
        ("a/b", 0),
        ("a/b", -1),
        ("a/b", 2),
    ]
    found = catalog.find(asked)
    assert [one and (one.path, one.version, one.program) for one in found] == [
        *(("a/b", 3, "p"), ("a/b", 2, "q"), None, ("a/a", 1, "p"), None, None, None, ("a/b", 2, "q"))
    ]
    assert list(catalog.find([])) == []
    assert [(entry.path, entry.version) for entry in catalog.entries(limit=10)] == [("a/a", 1), ("a/b", 3)]
    assert [entry.path for entry in catalog.entries(limit=1, after="a/a")] == ["a/b"]


def test_a_version_keeps_what_it_was_compiled_as(catalog):
    about = {"name": "n", "content": "old", "source_name": "f.yaml"}
    older = catalog.register(path="a/c", program="r", rewritten='["new",[]]', **about)
    assert older.rewritten == '["new",[]]'
    assert older == catalog.get("a/c") == catalog.by_program("r") == catalog.entries(limit=1)[0]
    assert catalog.register(path="a/d", program="s", **about).rewritten == ""


def test_a_playbook_that_moved_keeps_its_version_under_its_new_name(catalog):
    about = {"path": "a/b", "name": "n", "program": "p", "content": "one"}
    catalog.register(**about, source_name="/old/f.yaml")
    moved = catalog.register(**about, source_name="/new/f.yaml")
    assert (moved.version, moved.source_name) == (1, "/new/f.yaml")
    assert catalog.get("a/b") == catalog.by_program("p") == moved
    assert catalog.register(**about, source_name="/new/f.yaml") == moved


def test_the_entry_of_a_program_is_the_one_with_a_file_of_this_machine_and_the_newest(catalog):
    def put(path, source_name):
        about = {"name": "n", "program": "same", "content": "one"}
        return catalog.register(path=path, source_name=source_name, **about)

    put("a/sent", "f.yaml")
    assert catalog.by_program("same").path == "a/sent"
    put("a/local", "/old/f.yaml")
    put("b/local", "/new/f.yaml")
    put("z/sent", "f.yaml")
    local = catalog.get("a/local"), catalog.get("b/local")
    assert catalog.by_program("same") == max(local, key=lambda one: one.created_at)


def test_events_are_found_by_id_applied_or_on_their_way(store, make):
    store.commit([make.change(events=(make.row("callback:1:0", seq=1, at=1700000000.25),))])
    assert store.post(Cancel(EID, "ext:1", "prog", reason="enough"), ME).posted
    store.record_superseded([(EID, make.row("late:x", seq=0))])
    applied, posted = store.find_events(EID, ("ext:1", "callback:1:0", "late:x", "unknown"))
    assert (applied.at, applied.facts, applied.event) == (1700000000.25, b"[]", None)
    assert posted.facts is None and decode_event(posted.event).reason == "enough"
    assert list(store.find_events(EID, ("late:x",))) == [] == list(store.find_events(99, ("ext:1",)))


def test_step_rows_leave_out_callbacks_of_items(store, make):
    ids_ = ("start", "await:1.r1.i0:0", "callback:1.r1.i12:3", "callback:2:0", "cmd:1:0")
    store.commit([make.change(events=tuple(make.row(one, seq=seq) for seq, one in enumerate(ids_, 1)))])
    assert [row.seq for row in store.step_events(EID)] == [1, 4, 5]
    assert [row.seq for row in store.step_events(EID, after=1, limit=1)] == [4]


def test_rows_are_read_from_the_end_as_well(store, make):
    rows = [make.row(f"cmd:{seq}:0", seq=seq) for seq in range(1, 6)]
    store.commit([make.change(events=(*rows, make.row("item:2:0:9", seq=9, lane=2)))])
    assert [row.seq for row in store.events_before(EID, 2**62, 3)] == [5, 4, 3]
    assert [row.seq for row in store.events_before(EID, 3, 3)] == [2, 1]
    assert list(store.events_before(EID, 1, 3)) == []


def test_callback_slots_are_those_of_the_runs_and_bounded_in_each_loop(store, make):
    places = ["1", "1.r1.i0", "1.r1.i1", "1.r1.i2", "10.r1.i0", "2", "3.r1.i0"]
    slots = {("callback", place): {"of": place} for place in places} | {("args", "1"): 1, ("ctx", "1.x"): 2}
    store.commit([make.change(slots=slots)])
    assert sorted(store.callback_slots(EID, [1, 3], 2)) == ["1", "1.r1.i0", "1.r1.i1", "3.r1.i0"]
    assert store.callback_slots(EID, [2], 2) == {"2": {"of": "2"}}
    assert store.callback_slots(EID, [4], 2) == {}


def test_failed_items_and_left_steps_are_found_by_themselves(store, make):
    loop = make.loop(4, 4)
    commands = store.commit(
        [make.change(loops=(loop,), slots={("step", "start"): 1, ("ctx", "x"): 2})], ME
    ).commands
    for command in commands:
        index = command.loop.start
        store.commit_items([make.items(command, index, failed=(1, 3))], ME)
    found = store.failed_items(EID, loop.run, 10)
    assert [row.seq for row in found] == [1, 3] and all(row.type == "call.error" for row in found)
    assert [row.seq for row in store.failed_items(EID, loop.run, 1)] == [1]
    assert [row.seq for row in store.failed_items(EID, loop.run, 10, after=1)] == [3]
    assert not store.failed_items(EID, loop.run, 10, after=3)
    assert not store.failed_items(EID, loop.run + 1, 10)
    assert set(store.left_steps(EID, ["start", "x", "other"])) == {"start"}
    assert store.status_counts(10) == {"running": 1}
