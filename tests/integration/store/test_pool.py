"""Connections to the database: as many as are allowed and no more, kept while they are needed, made again after they broke."""

from __future__ import annotations

import os
import resource
import threading
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import pq

from noetl.adapters.postgres import connection
from noetl.adapters.postgres.connection import Database, Session
from noetl.adapters.postgres.literals import number
from noetl.adapters.postgres.queries import Query
from noetl.domain.errors import InfrastructureError
from noetl.kinds.sandbox.in_flight import raise_limit
from noetl.runtime.local.event_inbox import DATABASE
from noetl.runtime.local.lease_keeper import DOUBTFUL
from noetl.system_calls.deferred_work import defer, deferring
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres


def sessions(dsn: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as watcher:
        found = watcher.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'noetl'"
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_whoever_finds_every_session_in_use_waits_and_is_refused_at_last(database):
    pool = Database(database, most=2, patience=0.2)
    with pool._session(), pool._session():
        with pytest.raises(InfrastructureError, match=r"in use for 0\.2 s") as refused:
            pool.run("open_work", {"execution_id": number(1)})
        assert refused.value.code == "database_busy" and refused.value.retryable
        assert sessions(database) == 2
    seen: list[object] = []
    with pool._session():
        waiting = [
            threading.Thread(target=lambda: seen.append(pool.run("open_work", {"execution_id": number(1)})))
            for _ in range(8)
        ]
        for one in waiting:
            one.start()
    for one in waiting:
        one.join()
    assert len(seen) == 8 and sessions(database) == 2
    pool.close()


def test_deferred_work_is_done_while_the_server_is_at_a_statement(database):
    pool = Database(database)
    expected = pool.run("open_work", {"execution_id": number(1)})
    ((session, _),) = pool._idle
    seen = []
    with deferring():
        defer(lambda: seen.append(session.pgconn.transaction_status))
        assert pool.run("open_work", {"execution_id": number(1)}) == expected
        assert seen == [pq.TransactionStatus.ACTIVE]
        defer(lambda: seen.append(session.pgconn.transaction_status))
        with pytest.raises(psycopg.DataError):
            pool.run("open_work", {"execution_id": b"no number"})
        assert seen[1:] == [pq.TransactionStatus.ACTIVE]
    assert pool.run("open_work", {"execution_id": number(1)}) == expected and len(pool._idle) == 1
    pool.close()


def test_a_connection_that_breaks_during_deferred_work_leaves_the_outcome_unknown(database):
    pool = Database(database)
    with deferring(), pool._session() as session:

        def end() -> None:
            with psycopg.connect(database, autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s)", (session.pid,))

        defer(end)
        with pytest.raises(InfrastructureError) as lost:
            session.run(Query("sleeps", b"SELECT pg_sleep(%d)" % (10 * PATIENCE), (), ""), [])
        assert lost.value.code in DOUBTFUL and session.lost
    assert len(pool.run("open_work", {"execution_id": number(1)})) == 1, "by another connection"
    pool.close()


def test_a_database_that_does_not_fit_is_told_from_data_that_it_refuses(database):
    """The one passes when the operator mends it; the other is the end of one execution (services/orchestrator/failed_events.py)."""
    pool = Database(database)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("ALTER FUNCTION noetl.is_alive(text) RENAME TO is_gone")
        with pytest.raises(InfrastructureError, match="is_alive") as refused:
            pool.run("claim_outbox", {"owner": b"me", "limit": number(1)})
        assert refused.value.code == "database_unfit" and refused.value.retryable
        admin.execute("ALTER FUNCTION noetl.is_gone(text) RENAME TO is_alive")
    with pytest.raises(psycopg.errors.CheckViolation):
        pool.run("heartbeat", {"owner": b"", "seconds": number(1)})
    pool.close()


def test_a_statement_that_waits_for_a_lock_is_told_from_a_database_that_is_away(database, monkeypatch):
    """The engine would keep every execution waiting for the one whose row is locked (runtime/local/event_inbox.py)."""
    monkeypatch.setattr(connection, "OPTIONS", "-c statement_timeout=100")
    pool = Database(database)
    beat = {"owner": b"me", "seconds": number(60)}
    pool.run("heartbeat", beat)
    with psycopg.connect(database) as admin:
        admin.execute("SELECT FROM noetl.runtime FOR UPDATE")
        with pytest.raises(InfrastructureError) as refused:
            pool.run("heartbeat", beat)
        assert refused.value.code not in DATABASE | DOUBTFUL and refused.value.retryable
    pool.run("heartbeat", beat)
    pool.close()


FD_SETSIZE = 1024
"""Descriptors that ``select`` takes are below it."""


def test_a_connection_serves_again_however_many_files_are_open(database):
    """A worker takes more open files than most systems give at first."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * FD_SETSIZE:
        pytest.skip("this user may not have so many files open")
    raise_limit()
    pool = Database(database)
    with ExitStack() as stack:
        for _ in range(FD_SETSIZE):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        for _ in range(2):
            pool.run("open_work", {"execution_id": number(1)})
        assert [session.handle >= FD_SETSIZE for session, *_ in pool._idle] == [True]
        pool.close()


def test_sessions_that_broke_or_that_nobody_needs_are_closed(database, monkeypatch):
    pool = Database(database, most=8)
    held = [pool._session() for _ in range(6)]
    for one in held:
        one.__enter__()
    for one in held:
        one.__exit__(None, None, None)
    assert sessions(database) == 6
    with psycopg.connect(database, autocommit=True) as killer:
        killer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'noetl'"
        )
    wait_until(lambda: not sessions(database), "the end of all sessions")
    pool.run("open_work", {"execution_id": number(1)})
    assert sessions(database) == 1, "broken ones are thrown away together"
    held = [pool._session() for _ in range(6)]
    for one in held:
        one.__enter__()
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.0)
    for one in held:
        one.__exit__(None, None, None)
    assert sessions(database) <= connection.KEPT + 1
    pool.close()


def test_what_is_in_use_when_all_is_closed_goes_when_it_is_given_back(database):
    pool = Database(database, most=2)
    with pool._session():
        pool.close()
        assert sessions(database) == 1
    wait_until(lambda: not sessions(database), "the end of all sessions")
    pool.run("open_work", {"execution_id": number(1)})
    assert sessions(database) == 1, "it may be used again"
    pool.close()


@pytest.mark.parametrize(
    ("dsn", "hint"),
    [
        (None, "df -h"),
        ("host=db.example.com", "on the machine of the database (db.example.com), not on this one"),
    ],
)
def test_a_server_whose_disk_is_full_is_named(database, dsn, hint):
    """The complaint of the server has a state, and no word of its severity."""
    session = Session(database, pooled=False)
    session.dsn = dsn or session.dsn
    full = "DO $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
    with pytest.raises(InfrastructureError, match="because the disk is full: could not extend") as caught:
        session.run(Query("full", full.encode(), (), ""), [])
    session.close()
    assert hint in (caught.value.hint or "")
