"""Several at once, and connections that break: nothing is lost, nothing happens twice, nothing deadlocks."""

from __future__ import annotations

import random
import threading
from contextlib import suppress

import psycopg
import pytest

from noetl.adapters.postgres import PostgresCatalog, PostgresExecutionStore
from noetl.adapters.postgres.connection import Session
from noetl.domain import ids
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import LoopDone, Pause, Start
from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from noetl.ports.execution_store import (
    ChildrenWord,
    ExecutionIdTakenError,
    GateChange,
    LoadRequest,
    VersionConflictError,
)
from noetl.services.start_execution import Wish, start_execution
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
ME = "me"
NOTHING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: nothing, path: demo/nothing }
workflow:
  - step: start
    tool: { kind: noop }
"""


def together(*jobs):
    errors = []

    def run(job):
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads)


def test_versions_of_overlapping_batches_move_one_at_a_time(store, make):
    eids = [EID + number for number in range(6)]
    store.commit([make.change(execution_id=eid) for eid in eids])
    wins = []

    def writer(seed):
        rng = random.Random(seed)
        for turn in range(25):
            chosen = rng.sample(eids, 3)
            versions = store.load([LoadRequest(eid) for eid in chosen]).executions
            changes = [
                make.change(
                    versions[eid].version,
                    eid,
                    events=(make.row(f"w{seed}:{turn}", seq=versions[eid].version + 1),),
                )
                for eid in chosen
            ]
            try:
                store.commit(changes)
            except VersionConflictError as conflict:
                assert conflict.execution_ids and set(conflict.execution_ids) <= set(chosen)
            else:
                wins.extend(chosen)

    together(*(lambda seed=seed: writer(seed) for seed in range(4)))
    for eid in eids:
        assert store.info(eid).version == 1 + wins.count(eid)
        assert len(store.events(eid)) == 1 + wins.count(eid)
    assert wins


def test_only_one_of_many_parents_gets_an_id_for_its_child(store, make):
    """Whether the others' Start still waits, has begun its execution, or is being committed at this moment."""
    parents, children = range(4), [EID + 1000 + number for number in range(30)]
    got, barrier = [], threading.Barrier(len(parents), timeout=PATIENCE)

    def parent(number):
        version, eid = 1, EID + number
        store.commit([make.change(execution_id=eid)])
        for child in children:
            start = Start(child, ids.start_event(f"{eid}/1:1"), "kid")
            barrier.wait()
            try:
                store.commit([make.change(version, eid, outbox=(start,))], ME)
            except ExecutionIdTakenError as refused:
                assert refused.children == {child}
                continue
            version += 1
            got.append(child)
            created = make.created(start=start.event_id, parent_execution_id=eid)
            row = make.row(start.event_id)
            store.commit(
                [make.change(execution_id=child, created=created, events=(row,), handled=(start.event_id,))]
            )

    together(*(lambda number=number: parent(number) for number in parents))
    assert sorted(got) == children


def test_only_one_of_many_first_commits_makes_an_execution(store, make):
    made = []

    def first():
        try:
            store.commit([make.change()])
            made.append(1)
        except VersionConflictError:
            pass

    together(*[first] * 6)
    assert len(made) == 1 and store.info(EID).version == 1


def test_items_and_main_lane_meet_at_a_loop_without_deadlock(store, make):
    """Gates close and runs are dropped while other threads count items of the same loops."""
    runs = range(1, 9)
    commands = list(
        store.commit([make.change(loops=tuple(make.loop(60, 6, run=run) for run in runs))], ME).commands
    )
    lock = threading.Lock()
    ended = []

    def items():
        while True:
            with lock:
                taken = [commands.pop(random.randrange(len(commands))) for _ in range(min(5, len(commands)))]
            if not taken:
                return
            batches = [make.items(c, *range(c.loop.start, c.loop.stop), chunk=2) for c in taken]
            _, committed = store.commit_items(batches, ME)
            with lock:
                commands.extend(committed.commands)
                ended.extend(event for event in committed.events if isinstance(event, LoopDone))

    def main():
        for version, run in enumerate(runs, 1):
            over = {"gates": (GateChange(run, 0),)} if run % 2 else {"drop_runs": (run,)}
            ended.extend(store.commit([make.change(version, **over)], ME).events)

    together(items, items, items, main)
    progress = {loop.run: loop for loop in store.loop_progress(EID)}
    assert set(progress) == set(runs), "what a redrive would read stays"
    assert all(loop.gate == "closed" for loop in progress.values())
    assert all(progress[run].done == progress[run].issued for run in (1, 3, 5, 7))
    assert sorted(event.run for event in ended if event.run % 2) == [1, 3, 5, 7]
    assert store.open_work(EID)["commands"] == 0


def test_each_claimable_command_goes_to_one_claimer(store, make):
    store.commit([make.change(issue=tuple(make.command(str(run)) for run in range(1, 201)))])
    found = []

    def claimer(name):
        store.heartbeat(name, 60)
        while taken := store.claim(name, 7):
            found.extend(command.command_id for command in taken)

    together(*(lambda name=f"c{number}": claimer(name) for number in range(4)))
    assert sorted(map(int, found)) == list(range(1, 201))


def test_playbooks_registered_at_once_get_versions_of_their_own(database):
    catalog = PostgresCatalog(database)

    def register(number):
        catalog.register(path="p", name="n", program=f"h{number}", content=f"c{number}", source_name="f")

    together(*(lambda number=number: register(number) for number in range(6)))
    assert [catalog.get("p", version).version for version in range(1, 7)] == [1, 2, 3, 4, 5, 6]
    assert catalog.get("p", 7) is None
    catalog.close()


def test_a_connection_that_was_cut_while_idle_is_replaced_unnoticed(store, admin, make):
    store.commit([make.change()])
    admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'noetl'"
    )
    assert store.commit([make.change(1)]) is not None
    assert store.info(EID).version == 2


def test_an_unreachable_database_may_be_tried_again():
    store = PostgresExecutionStore("host=/nonexistent dbname=x")
    with pytest.raises(InfrastructureError) as caught:
        store.load([])
    assert caught.value.retryable


@pytest.fixture
def lose_next_answer(monkeypatch):
    """The next statement is carried out (or not), and the connection dies before its answer arrives."""

    def arm(carried_out):
        original = Session._send

        def send(self, statement, parameters):
            monkeypatch.setattr(Session, "_send", original)
            if carried_out:
                original(self, statement, parameters)
            self.connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(Session, "_send", send)

    return arm


def test_what_a_lost_answer_gave_away_is_found_again(store, make, lose_next_answer):
    store.heartbeat(ME, 60)
    start = make.start(EID + 5)
    change = make.change(issue=(make.command("1"),), loops=(make.loop(4, 2, run=6),), outbox=(start,))
    lose_next_answer(carried_out=True)
    with pytest.raises(InfrastructureError):
        store.commit([change], ME)
    with pytest.raises(VersionConflictError):
        store.commit([change], ME)
    claimed = store.claim(ME, 10)
    assert sorted((command.command_id, command.attempt) for command in claimed) == [
        ("1", 2),
        ("6.r0.0", 2),
        ("6.r0.1", 2),
    ]
    assert store.undelivered(ME, 10) == [start]
    assert store.claim(ME, 10) == [] and store.undelivered(ME, 10) == []


def test_a_commit_that_was_not_carried_out_is_simply_repeated(store, make, lose_next_answer):
    store.heartbeat(ME, 60)
    change = make.change(issue=(make.command("1"),))
    lose_next_answer(carried_out=False)
    with pytest.raises(InfrastructureError):
        store.commit([change], ME)
    assert len(store.commit([change], ME).commands) == 1
    assert store.claim(ME, 10) == [], "what was given out is not given out twice"


def test_items_of_a_lost_answer_go_on(store, make, lose_next_answer):
    store.heartbeat(ME, 60)
    (command,) = store.commit([make.change(loops=(make.loop(3, 1),))], ME).commands
    lose_next_answer(carried_out=True)
    with pytest.raises(InfrastructureError):
        store.commit_items([make.items(command, 0)], ME)
    answers, _ = store.commit_items([make.items(command, 0)], ME)
    assert answers[0].superseded
    assert [found.command_id for found in store.claim(ME, 10)] == ["1.r0.1"]


def test_a_loop_that_another_process_started_is_known_from_the_first_answer(store, database, make):
    commands = store.commit([make.change(loops=(make.loop(6, 2),))], ME).commands
    other = PostgresExecutionStore(database)
    _, committed = other.commit_items([make.items(command, command.loop.start) for command in commands], ME)
    assert [found.loop.items for found in committed.commands] == [[{"n": 2}], [{"n": 3}]]
    assert other.database.round_trips == 1
    other.close()


@pytest.mark.parametrize("name", ["event_id", "command_id", "owner"])
def test_ids_that_text_cannot_hold_are_refused_before_anything_is_sent(store, make, name):
    from noetl.domain.errors import InvalidInputError

    bad = "a\x00b"
    change = make.change(events=(make.row(bad),)) if name == "event_id" else make.change()
    if name == "command_id":
        change = make.change(issue=(make.command("1", program=bad), make.command("2")), program=bad)
    with pytest.raises(InvalidInputError):
        store.commit([change], bad if name == "owner" else ME)
    assert store.info(EID) is None


@pytest.mark.parametrize("of", ["step", "item"])
def test_a_child_that_begins_while_its_parent_is_paused_is_told_or_waits(store, make, of):
    """Its Start is committed, or posted by an item, at the same moment: it never runs on, and is never told twice."""
    store.heartbeat(ME, 60)
    told = waits = 0
    for number in range(40):
        parent, child = EID + 10 * number, EID + 10 * number + 1
        start = make.start(child, path="demo/kid")
        loops = (make.loop(2, 1),) if of == "item" else ()
        commands = store.commit([make.change(execution_id=parent, loops=loops)], ME).commands
        if of == "step":
            store.commit([make.change(1, parent, outbox=(start,))], ME)
        version = 2 if of == "step" else 1
        words = (ChildrenWord("pause", "pause:5", 5),)
        ours = make.created(parent_execution_id=parent)
        begin = make.change(execution_id=child, created=ours, events=(make.row("start"),), handled=("start",))
        items = make.items(commands[0], 0, outbox=(start,)) if of == "item" else None
        pausing, ready = make.change(version, parent, status="paused", words=words), threading.Barrier(2)
        events: list[object] = []

        def pause(change=pausing, ready=ready, events=events):
            ready.wait()
            events += store.commit([change], ME).events

        def beginning(items=items, begin=begin, ready=ready):
            ready.wait()
            if items is not None:
                (answer,), _ = store.commit_items([items], ME)
                if answer.paused:
                    return
            with suppress(VersionConflictError):
                store.commit([begin], ME)

        together(pause, beginning)
        info = store.info(child)
        if info is not None and info.version:
            assert events == [Pause(child, "pause:5", "prog", word=5)]
            told += 1
        else:
            assert events == [] and (info is None or info.status == "paused")
            assert info is not None or of == "item", "the item was not counted"
            waits += 1
    assert told + waits == 40


def test_clients_that_draw_one_id_are_each_answered_with_their_own_execution(store, make):
    """With and without keys, some asked for twice at the same moment: whatever two starts do to each other inside the database."""
    program = compile_playbook(NOTHING, kinds=default_registry()).program
    clients, barrier = 4, threading.Barrier(4, timeout=PATIENCE)
    answers = []

    def client(number):
        rng = random.Random(number)
        for turn in range(60):
            # Two clients of a turn may be one that asks twice; the others have a key of their own, or none.
            key = rng.choice(("", f"{turn}:{number}", f"{turn}:{number // 2}"))
            wish = Wish({}, f"p/{key or number}", key=key, asked=[key])
            barrier.wait()
            started = start_execution(
                program, wish, store, owner=ME, now_ms=ids.EPOCH_MS + 1 + turn, random_bits=7
            )
            answers.append((turn, wish.path, key, started))

    together(*(lambda number=number: client(number) for number in range(clients)))
    made = {started.execution_id for *_, started in answers if started.event is not None}
    assert (
        made
        == {started.execution_id for *_, started in answers}
        == {one.execution_id for one in store.executions(limit=999)}
    )
    assert all(store.info(started.execution_id).path == path for _, path, _, started in answers)
    for turn in range(60):
        starts = [(key, started.execution_id) for of, _, key, started in answers if of == turn]
        keyed = {one for one in starts if one[0]}
        own = [one for one in starts if not one[0]]
        assert len({execution for _, execution in starts}) == len(keyed) + len(own), starts
