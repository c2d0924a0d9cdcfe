"""Several at once, and connections that break: nothing is lost, nothing happens twice, nothing deadlocks."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from functools import partial

import psycopg
import pytest

from noetl.adapters.postgres import PostgresCatalog, PostgresExecutionStore
from noetl.adapters.postgres.connection import Session
from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Cancel, LoopDone, Pause, Start
from noetl.domain.limits import Admission, Limit
from noetl.domain.workers.lease_owners import HELD, invocation
from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from noetl.ports.executions.execution_store import (
    ChildrenWord,
    ExecutionIdTakenError,
    GateChange,
    LoadRequest,
    Published,
    VersionConflictError,
)
from noetl.services.executions.start_execution import StartRequest, start_execution
from tests.waiting import PATIENCE, wait_until

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


@pytest.mark.parametrize("carried_out", [True, False])
def test_an_event_from_outside_whose_answer_was_lost_is_delivered_once(
    store, make, lose_next_answer, carried_out
):
    """It belongs to this process, which answered its client with an error and never gave it to its engine."""
    store.heartbeat(ME, 60)
    others = range(EID + 1, EID + 3)
    store.commit([make.change(0, one) for one in (EID, *others)], ME)
    alone, *together = (Cancel(one, "ext:1", "prog", "why", "me") for one in (EID, *others))
    for post in (lambda: store.post(alone, ME), lambda: store.post_all(together, ME)):
        lose_next_answer(carried_out)
        with pytest.raises(InfrastructureError):
            post()
        assert store.info(EID), "the next answer that is lost is that of the next post"
    assert sorted(one.execution_id for one in store.undelivered(ME, 10)) == [EID, *others][: 3 * carried_out]
    assert store.undelivered(ME, 10) == []


def test_a_commit_that_outlives_its_connection_strands_nothing(store, admin, make, database, monkeypatch):
    """It waits for a lock when the connection breaks, and the database does not notice. What it issues later is leased to this process."""
    store.heartbeat(ME, 60)
    store.commit([make.change()], ME)
    change = make.change(1, issue=(make.command("1"),))
    original = Session._send

    def others(where):
        return admin.execute(
            f"SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'noetl' AND {where}"
        ).fetchall()

    def send(self, statement, parameters):
        monkeypatch.setattr(Session, "_send", original)
        self.pgconn.send_query_params(statement.text, parameters)
        self.pgconn.flush()
        wait_until(lambda: others("wait_event_type = 'Lock'"), "a commit that waits")
        self.connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with psycopg.connect(database) as holder:
        holder.execute("SELECT FROM noetl.execution FOR UPDATE")
        monkeypatch.setattr(Session, "_send", send)
        with pytest.raises(InfrastructureError):
            store.commit([change], ME)
        assert store.claim(ME, 10) == []
    wait_until(lambda: not others("state = 'active'"), "the end of the commit")
    carried_out = store.info(EID).version == 2
    given = store.claim(ME, 10) if carried_out else store.commit([change], ME).commands
    assert [one.command_id for one in given] == ["1"]


def test_slots_that_a_lost_answer_gave_to_others_are_found_again(store, make, lose_next_answer):
    """The commit frees a slot of a command and one of an execution: who gets them belongs to no execution that the commit is about."""
    store.heartbeat(ME, 60)
    one, ends, other, waits = (Limit("api", 1),), EID, EID + 1, EID + 2
    store.admit(make.start(ends), make.created(), Admission("execution:demo", 1, "queue"), ME)
    change = make.change(0, ends, issue=(make.command("1", limits=one),), limited=True, handled=("start",))
    assert len(store.commit([change], ME).commands) == 1
    issue = (make.command("1", other, limits=one),)
    assert store.commit([make.change(0, other, issue=issue, limited=True)], ME).commands == ()
    start = make.start(waits)
    assert (
        store.admit(start, make.created(), Admission("execution:demo", 1, "queue"), ME)[0].status == "queued"
    )

    lose_next_answer(carried_out=True)
    with pytest.raises(InfrastructureError):
        store.commit([make.change(1, ends, end=True, status="completed", limited=True)], ME)
    found = store.claim(ME, 10)
    assert [(command.execution_id, command.attempt) for command in found] == [(other, 2)]
    assert store.undelivered(ME, 10) == [start]
    assert store.claim(ME, 10) == [] and store.undelivered(ME, 10) == []


WATCH_DISK = """
CREATE TABLE waits (for_disk TEXT);
CREATE FUNCTION see() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO waits VALUES (current_setting('synchronous_commit')); RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER UPDATE OF owner ON noetl.command FOR EACH ROW EXECUTE FUNCTION see();
"""


@pytest.mark.parametrize(
    ("owner", "forgets"), [(ME, False), (HELD, False), (invocation(ids.EPOCH_MS / 1000, "engine"), True)]
)
def test_only_an_invocation_hands_over_what_a_crash_of_the_database_may_forget(
    store, admin, make, owner, forgets
):
    """Its time ends. What a process has given away and has again, it would hold as long as it lives, without knowing of it."""
    store.commit([make.change(issue=(make.command("1"),))], owner)
    admin.execute(WATCH_DISK)
    store.hand_over(owner, Published((make.command("1"),)))
    assert admin.execute("SELECT for_disk FROM waits").fetchall() == [("off" if forgets else "on",)]


KEYS = {"a": 1, "b": 2, "c": 1}
SETS = (("a",), ("b",), ("c",), ("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c"))
WATCH = """
CREATE TABLE passed_over (key TEXT, id BIGINT);
CREATE FUNCTION see() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO passed_over SELECT NEW.key, u.id FROM noetl.limit_use u
    WHERE OLD.queued AND u.key = NEW.key AND u.queued AND u.priority = NEW.priority AND u.id < NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER UPDATE ON noetl.limit_use FOR EACH ROW WHEN (NEW.held AND NOT OLD.held) EXECUTE FUNCTION see();
"""


class Crossing:
    """Workers that share keys: each issues commands of executions, and closes commands that somebody was given. Connections are cut."""

    def __init__(self, store, admin, make) -> None:
        self.store, self.admin, self.make = store, admin, make
        rng = random.Random(5)
        executions = [EID + number for number in range(8)]
        self.commands = {(eid, str(run)): rng.choice(SETS) for eid in executions for run in range(1, 9)}
        self.versions = dict.fromkeys(executions, 0)
        self.turns = {eid: threading.Lock() for eid in executions}
        self.lock = threading.Lock()
        self.ready: dict[tuple[int, str], Command] = {}
        self.holding: set[tuple[int, str]] = set()
        self.closed: set[tuple[int, str]] = set()
        self.commits = 0

    def take(self, given) -> None:
        with self.lock:
            for command in given:
                key = (command.execution_id, command.command_id)
                self.ready[key] = command
                self.holding.add(key)
            for key, most in KEYS.items():
                assert sum(key in self.commands[one] for one in self.holding) <= most, key

    def commit(self, execution, **over) -> None:
        """Commit, and again after a cut, until it is done. Raises VersionConflictError when it cannot be done any more."""
        doubtful = False
        with self.turns[execution]:
            while True:
                self.cut_sometimes()
                change = self.make.change(self.versions[execution], execution, limited=True, **over)
                try:
                    given = self.store.commit([change], ME).commands
                except VersionConflictError:
                    if not doubtful or self.version(execution) == self.versions[execution]:
                        raise
                    given = ()
                except InfrastructureError as error:
                    assert error.code != "database_contention", error
                    doubtful = doubtful or error.code == "outcome_unknown"
                    continue
                self.versions[execution] += 1
                return self.take(given)

    def version(self, execution) -> int:
        while True:
            with suppress(InfrastructureError):
                return self.store.info(execution).version

    def cut_sometimes(self) -> None:
        with self.lock:
            self.commits += 1
            if self.commits % 9 == 0:
                self.admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND application_name = 'noetl' ORDER BY random() LIMIT 1"
                )

    def issue(self, executions) -> None:
        for eid in executions:
            wanted = [
                self.make.command(run, eid, limits=tuple(Limit(key, KEYS[key]) for key in keys))
                for (execution, run), keys in self.commands.items()
                if execution == eid
            ]
            self.commit(eid, issue=tuple(wanted))

    def work(self, number, workers) -> None:
        self.issue(list(self.versions)[number::workers])
        rng = random.Random(number)
        while len(self.closed) < len(self.commands):
            with self.lock:
                key = rng.choice(list(self.ready)) if self.ready else None
                command = self.ready.pop(key) if key else None
                self.holding.discard(key)
            if command is not None:
                self.close(key, command)
                continue
            with suppress(InfrastructureError):
                self.take(self.store.claim(ME, 100))

    def close(self, key, command) -> None:
        # One that is given out again as doubtful has another attempt, which is closed instead of this one.
        with suppress(VersionConflictError):
            self.commit(key[0], close=((command.command_id, command.attempt, command.turn),))
            self.closed.add(key)


def test_keys_that_are_linked_are_given_in_order_whatever_dies(store, admin, make):
    """Nobody waits in a circle, no key has more holders than it may, none passes an older one of its queue, and all get their turn."""
    admin.execute(WATCH)
    store.heartbeat(ME, 600)
    crossing = Crossing(store, admin, make)
    together(*[partial(crossing.work, number, 4) for number in range(4)])
    assert admin.execute("SELECT * FROM passed_over").fetchall() == []
    assert admin.execute("SELECT count(*) FROM noetl.command").fetchone() == (0,)


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
            wish = StartRequest({}, f"p/{key or number}", key=key, identity=[key])
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
