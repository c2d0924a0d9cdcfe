"""What each method costs the database: one round trip, one transaction, no table read from end to end."""

from __future__ import annotations

import os
import re
import tempfile
from itertools import pairwise

import psycopg
import pytest

from noetl.adapters.postgres import PostgresExecutionStore
from noetl.adapters.postgres.queries import query
from noetl.domain import ids
from noetl.domain.limits import Admission
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.variables import VariableWrite
from noetl.domain.workers.lease_owners import lease
from noetl.ports.executions.execution_store import GateChange, LoadRequest, TimerChange, Wake
from noetl.services.queries.read_execution import list_executions
from tests.contract.builders import Make

pytestmark = pytest.mark.postgres

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
ME = "me"


def exercise(store, make, base=EID):
    """Calls by name, in an order in which each of them has something to do."""
    kids = [base + number for number in range(20)]
    first = [
        make.change(
            execution_id=eid,
            issue=(make.command("1", eid), make.command("2", eid)),
            loops=(make.loop(9, 4, run=7), make.loop(6, 1, run=8, mode="sequential")),
            slots={("ctx", "a"): 1},
            timers=(TimerChange("t", 1, 0.0),),
            outbox=(make.start(eid + 1000),),
        )
        for eid in kids
    ]
    given = store.commit(first, ME).commands
    yield "commit"
    store.load([LoadRequest(eid, ("a",), ("ctx",), ("1",), ("start",)) for eid in kids])
    yield "load"
    chunks = [command for command in given if command.loop is not None and command.loop.mode == "parallel"]
    store.commit_items([make.items(command, command.loop.start, chunk=2) for command in chunks], ME)
    yield "commit_items"
    store.commit(
        [
            make.change(
                1,
                eid,
                close=(("1", 1, 0), ("2", 1, 0)),
                issue=(make.command("1", eid, turn=1),),
                waiting=(make.command("3", eid, turn=1),),
                slots={("ctx", "a"): 2},
                unset=(("ctx", "b"),),
                gates=(GateChange(7, 0),),
                drop_runs=(8,),
                events=(make.row(f"timer:t:1:{eid}"),),
                handled=("x",),
                variables=(VariableWrite("v", 1, "step_result", "s"),),
            )
            for eid in kids
        ],
        ME,
    )
    yield "commit of rare parts"
    store.commit([make.change(2, eid, wakes=(Wake("3", 1, Outcome("ok")),)) for eid in kids], ME)
    yield "commit of wakes"
    store.create(make.start(base + 500), make.created(), ME)
    yield "create"
    store.record_superseded([(base, make.row(f"late:{base}"))], [(base, "start")])
    yield "record_superseded"
    store.heartbeat("other", 60)
    yield "heartbeat"
    store.claim("other", 5)
    yield "claim"
    store.undelivered("other", 5)
    yield "undelivered"
    store.due_timers("other", 5)
    yield "due_timers"
    store.release("other")
    yield "release"
    for name in ("info", "slots", "open_work", "loop_progress", "events"):
        getattr(store, name)(base)
        yield name
    store.loop_items(base, 7, 0, 0, 10)
    yield "loop_items"
    store.item_events(base, 7)
    yield "item_events"
    list(store.every_item(base))
    yield "every_item"
    store.executions(limit=5)
    yield "executions"
    store.commit([make.change(3, eid, status="failed", end=True, cancel_children=True) for eid in kids], ME)
    yield "end"


def syncs(session, run):
    """How often ``run`` waited for the server, as libpq tells it."""
    with tempfile.TemporaryFile() as trace:
        session.pgconn.trace(trace.fileno())
        run()
        session.pgconn.untrace()
        os.lseek(trace.fileno(), 0, os.SEEK_SET)
        return len(re.findall(rb"^(?:[\d :.-]+\t)?F\t\d+\t(?:Sync|Query)", trace.read(), re.MULTILINE))


def test_every_method_is_one_round_trip(store, make):
    for _ in exercise(store, make):
        pass  # statements are prepared now
    with store.database._session() as session:
        pass
    steps = exercise(store, make, EID + 10_000)
    counts = {}
    while True:
        found = []
        count = syncs(session, lambda found=found: found.append(next(steps, None)))
        if found[0] is None:
            break
        counts[found[0]] = count
    assert counts == dict.fromkeys(counts, 1)
    assert len(counts) == 22


WRITTEN = """
    SELECT xmin::text FROM noetl.execution UNION SELECT xmin::text FROM noetl.event UNION SELECT xmin::text FROM noetl.slot
    UNION SELECT xmin::text FROM noetl.command UNION SELECT xmin::text FROM noetl.loop UNION SELECT xmin::text FROM noetl.timer
    UNION SELECT xmin::text FROM noetl.outbox"""
"""Transactions that rows were written by."""


def test_a_list_takes_two_statements_however_many_wait_to_begin(store, make):
    store.heartbeat(ME, 60)
    ids = range(EID, EID + 12)
    for one in ids:
        store.admit(make.start(one), make.created(), Admission("execution:demo", 1, "queue", 0), ME)
    before = store.database.round_trips
    found = list_executions(store, limit=20, now=0.0)
    assert store.database.round_trips - before == 2
    assert sorted(one.status for one in found) == ["queued"] * 11 + ["running"]


def test_a_command_with_a_new_lease_changes_no_index(store, admin, make):
    """A worker that is answered with the next command has it under a lease of its own."""
    count = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'noetl.command'::regclass"
    names = [str(number) for number in range(1, 12)]
    store.commit([make.change(issue=(make.command("1"),))], lease(9e9, "direct", "0" * 32))
    flush_statistics(store)
    before = admin.execute(count).fetchone()
    for place, (done, following) in enumerate(pairwise(names), 1):
        change = make.change(place, close=((done, 1, 0),), issue=(make.command(following),))
        assert store.commit([change], lease(9e9 + place, "direct", f"{place:032x}")).commands
    flush_statistics(store)
    after = admin.execute(count).fetchone()
    assert [now - then for now, then in zip(after, before, strict=True)] == [10, 10]


def flush_statistics(store):
    with store.database._session() as session:
        session.pgconn.exec_(b"SELECT pg_stat_force_next_flush()")
        # The server flushes before it says that it is ready, so what was counted can be read.
        session.pgconn.exec_(b"SELECT 1")


@pytest.mark.parametrize("pooled", [False, True])
def test_every_write_is_one_transaction(database, admin, make, pooled):
    store = PostgresExecutionStore(database, pooled=pooled)
    seen = set()
    for name in exercise(store, make):
        new = {row[0] for row in admin.execute(WRITTEN)} - seen
        seen |= new
        assert len(new) <= 1, name
        assert new or not name.startswith("commit"), name
    store.close()


def test_nothing_is_read_from_end_to_end(store, admin, make):
    """Also while the tables are so small, and without statistics, that a scan would look cheap."""
    scans = "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'noetl' AND relname <> 'migration'"
    with store.database._session() as session:
        session.pgconn.exec_(b"SELECT 1")
    before = dict(admin.execute(scans).fetchall())
    for _ in exercise(store, make):
        pass
    flush_statistics(store)
    after = dict(admin.execute(scans).fetchall())
    assert {name for name, count in after.items() if count > before[name]} == set()


@pytest.fixture(scope="module")
def full_tables(module_database):
    """A session of a database that has rows in all tables, and statistics."""
    store = PostgresExecutionStore(module_database)
    for base in range(3):
        for _ in zip(range(4), exercise(store, Make(), EID + base * 10_000), strict=False):
            pass
    store.close()
    with psycopg.connect(module_database, autocommit=True) as connection:
        connection.execute("ANALYZE")
        yield connection


@pytest.mark.parametrize(
    "name",
    [
        "load_executions",
        "claim_commands",
        "claim_outbox",
        "due_timers",
        "main_events",
        "lane_events",
        "every_item",
        "loop_items",
        "list_executions",
        "queued_starts",
        "record_superseded",
        "list_playbooks",
        "remove_events",
        "remove_executions",
        "remove_variables",
        "remove_schedule_moments",
    ],
)
def test_plans_of_hot_queries_use_indexes_on_full_tables(full_tables, name):
    assert_uses_indexes(full_tables, query(name).text)


@pytest.mark.parametrize("name", ["old_roots", "children_after", "tree_is_old", "told_of", "any_lives"])
def test_plans_of_what_retention_asks_use_indexes(full_tables, name):
    (body,) = full_tables.execute("SELECT prosrc FROM pg_proc WHERE proname = %s", (name,)).fetchone()
    for parameter, value in {
        "p_before": "now()",
        "p_limit": "10",
        "p_parent": f"{EID}::bigint",
        "p_after": "0::bigint",
        "p_roots": f"ARRAY[{EID}]",
        "= root": f"= {EID}",
        "before)": "now())",
        ">= before": ">= now()",
    }.items():
        body = body.replace(parameter, value)
    assert_uses_indexes(full_tables, body.encode())


def assert_uses_indexes(admin, text):
    admin.execute("SET plan_cache_mode = force_generic_plan")
    admin.execute("SET enable_seqscan = off")
    plan = "\n".join(row[0] for row in admin.execute(b"EXPLAIN (GENERIC_PLAN) " + text).fetchall())
    assert "Seq Scan on" not in plan, plan
    assert "Index" in plan, plan


def test_a_pooled_connection_carries_no_session_state(database, admin, make):
    store = PostgresExecutionStore(database, pooled=True)
    for _ in exercise(store, make):
        pass
    with store.database._session() as session:
        prepared = session.pgconn.exec_(b"SELECT count(*) FROM pg_prepared_statements").get_value(0, 0)
        mode = session.pgconn.exec_(b"SHOW plan_cache_mode").get_value(0, 0)
    assert (prepared, mode) == (b"0", b"auto")
    store.close()
