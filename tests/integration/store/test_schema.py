"""Migrations: complete, repeatable, safe to run at once, and equal to schema.sql."""

from __future__ import annotations

import threading

import psycopg
import pytest

from noetl.adapters.postgres import migrations
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.trigger_store import PostgresTriggerStore
from noetl.domain.automations.schedules import fire_key
from noetl.domain.errors import InfrastructureError
from tests.databases import drop_database

pytestmark = pytest.mark.postgres

CATALOG = {
    "columns": """
        SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default, collation_name, is_identity
        FROM information_schema.columns WHERE table_schema = 'noetl' ORDER BY 1, 3""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'noetl'::regnamespace ORDER BY 1, 2""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'noetl' ORDER BY 1, 2",
    "storage": """
        SELECT relname, relkind, reloptions, pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid) FROM pg_class
        WHERE relnamespace = 'noetl'::regnamespace AND relkind IN ('r', 'p', 'c') ORDER BY 1""",
}


@pytest.fixture
def empty(postgres, request):
    """A database without any of our tables."""
    name = f"e_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres.dsn(name)
    drop_database(postgres.dsn("postgres"), name)


def facts(dsn):
    with psycopg.connect(dsn) as connection:
        return {part: connection.execute(query).fetchall() for part, query in CATALOG.items()}


def migrate_before(dsn, last):
    """Apply the migrations before ``last``, as a version of that time did."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(migrations._JOURNAL)
        for name, text in migrations.scripts().items():
            if name.startswith("migrations/") and name < last:
                connection.execute(text.encode())
                migrations._record(connection, name, migrations._checksum(text))


def test_all_migrations_together_make_schema_sql(database, empty):
    with psycopg.connect(empty) as connection:
        connection.execute((migrations.SQL / "schema.sql").read_text())
    expected, made = facts(empty), facts(database)
    for part in CATALOG:
        assert made[part] == expected[part], part
    assert len(expected["columns"]) > 80


def test_history_of_every_partition_is_kept_when_the_table_becomes_plain(empty):
    migrate_before(empty, "migrations/0021")
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE noetl.event_week PARTITION OF noetl.event FOR VALUES FROM (100) TO (200)"
        )
        connection.execute(
            "INSERT INTO noetl.event SELECT n, 'start', 0, 1, 't', now(), '[]' FROM unnest(ARRAY[1, 150, 300]) AS u (n)"
        )
    migrations.migrate(empty)
    with psycopg.connect(empty) as connection:
        kept = connection.execute("SELECT execution_id FROM noetl.event ORDER BY 1").fetchall()
    assert kept == [(1,), (150,), (300,)]


def test_history_becomes_a_partition_as_it_lies(empty):
    migrate_before(empty, "migrations/0030")
    file = "SELECT pg_relation_filenode('{}'::regclass)"
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO noetl.event SELECT n, 'start', 0, 1, 't', now(), '[]' FROM unnest(ARRAY[1, 150, 9223372036854775807]) AS u (n)"
        )
        before = [
            connection.execute(file.format(f"noetl.{name}")).fetchone()
            for name in ("event", "event_pkey", "event_main", "event_item")
        ]
    migrations.migrate(empty)
    with psycopg.connect(empty, autocommit=True) as connection:
        parts = connection.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relispartition AND c.relkind = 'i'"
        )
        names = [name for (name,) in parts.fetchall()]
        after = [connection.execute(file.format(f"noetl.{name}")).fetchone() for name in ("event_0", *names)]
        assert set(before) <= set(after), "no row was moved, and no index made again"
        assert len(connection.execute("SELECT FROM noetl.event").fetchall()) == 3
        with pytest.raises(psycopg.IntegrityError):
            connection.execute("INSERT INTO noetl.event SELECT 150, 'start', 1, 1, 't', now(), '[]'")


def test_rates_that_are_no_number_do_not_stop_the_migration_that_refuses_them(empty):
    migrate_before(empty, "migrations/0027")
    with psycopg.connect(empty, autocommit=True) as connection:
        for key, rate, per in (("a", "NaN", 1), ("b", 2, "NaN"), ("c", 2, 3), ("d", None, 3)):
            connection.execute(
                "INSERT INTO noetl.limit_key (key, concurrent, rate, per, declared) VALUES (%s, 5, %s, %s, true)",
                (key, rate, per),
            )
        connection.execute(
            "INSERT INTO noetl.limit_use (execution_id, command_id, key, rate, since) VALUES (1, '1', 'a', 'NaN', now())"
        )
    migrations.migrate(empty)
    with psycopg.connect(empty) as connection:
        kept = connection.execute(
            "SELECT key, concurrent, rate, per FROM noetl.limit_key ORDER BY 1"
        ).fetchall()
        used = connection.execute("SELECT rate, per FROM noetl.limit_use").fetchall()
    assert kept == [("a", 5, None, 1), ("b", 5, None, 1), ("c", 5, 2, 3), ("d", 5, None, 3)]
    assert used == [(None, 1)]


def test_what_triggers_and_schedules_started_before_stays_known(empty):
    migrate_before(empty, "migrations/0029")
    moment = fire_key("nightly", 0.0, "reports/daily")
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO noetl.execution (execution_id, path, name, principal, started_at) VALUES"
            " (5, 'reports/daily', 'daily', 'nightly', '2026-03-02'), (6, 'new', 'new', 'orders', '2026-03-02'),"
            " (7, 'old', 'old', 'orders', '2026-02-28')"
        )
        connection.execute(
            "INSERT INTO noetl.trigger (name, kind, path, source, event_key, enabled, generation, created_at)"
            " VALUES ('orders', 'webhook', 'new', '{\"type\":\"webhook\"}', '', true, 1, '2026-03-01 00:00:00.123457Z')"
        )
        for execution, key in (
            (5, moment.removesuffix(":reports/daily")),
            (6, "trigger:new"),
            (7, "trigger:old"),
            (5, "api:me"),
        ):
            connection.execute(
                "INSERT INTO noetl.idempotency (key, fingerprint, execution_id) VALUES (%s, 'f', %s)",
                (key, execution),
            )
    migrations.migrate(empty)
    database = Database(empty)
    made = PostgresTriggerStore(database).get("orders").created_at
    database.close()
    with psycopg.connect(empty) as connection:
        found = connection.execute("SELECT key FROM noetl.idempotency").fetchall()
    new = f"trigger:new:{round(made * 1_000_000)}"
    assert {one for (one,) in found} == {moment, new, "trigger:old", "api:me"} and new.endswith("123457")


def test_migrating_is_done_once_and_then_costs_nothing(empty):
    assert migrations.pending(empty) == list(migrations.scripts())
    assert migrations.migrate(empty) == list(migrations.scripts())
    assert migrations.migrate(empty) == [] and migrations.pending(empty) == []
    with psycopg.connect(empty) as connection:
        kept = dict(connection.execute("SELECT name, checksum FROM noetl.migration").fetchall())
    assert kept["complete"] == migrations.fingerprint()
    assert set(kept) == {"complete", *migrations.scripts()}


def test_two_that_migrate_at_once_do_not_hurt_each_other(empty):
    applied, errors = [], []

    def run():
        try:
            applied.append(len(migrations.migrate(empty)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(applied) == [0, 0, 0, len(migrations.scripts())]


def test_an_edited_migration_is_refused_an_edited_function_is_applied(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "UPDATE noetl.migration SET checksum = 'old' WHERE name IN ('complete', 'functions/10_shared')"
        )
    assert migrations.migrate(database) == ["functions/10_shared"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "UPDATE noetl.migration SET checksum = 'old' WHERE name IN ('complete', 'migrations/0001_init')"
        )
    with pytest.raises(InfrastructureError) as caught:
        migrations.migrate(database)
    assert caught.value.code == "migration_changed"


def test_a_database_of_a_later_version_is_refused_before_anything_is_changed(empty):
    migrations.migrate(empty)
    with psycopg.connect(empty, autocommit=True) as connection:
        add = "INSERT INTO noetl.migration (name, checksum) VALUES ('migrations/9999_later', 'x')"
        connection.execute(add)
        for look in (migrations.migrate, migrations.pending):
            with pytest.raises(InfrastructureError, match="9999_later") as caught:
                look(empty)
            assert caught.value.code == "database_newer" and not caught.value.retryable
        connection.execute("DELETE FROM noetl.migration WHERE name = 'complete'")
        connection.execute("UPDATE noetl.migration SET checksum = 'old' WHERE name LIKE 'functions/%'")
        with pytest.raises(InfrastructureError):
            migrations.migrate(empty)
        left = connection.execute("SELECT count(*) FROM noetl.migration WHERE checksum = 'old'").fetchone()
        assert left is not None and left[0] > 1, "functions of the later version stay"


def test_another_content_is_seen_though_everything_was_applied_once(empty):
    migrations.migrate(empty)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("UPDATE noetl.migration SET checksum = 'x' WHERE name = 'migrations/0001_init'")
    with pytest.raises(InfrastructureError, match="0001_init") as caught:
        migrations.migrate(empty)
    assert caught.value.code == "migration_changed"


def test_an_absent_server_is_an_infrastructure_error():
    with pytest.raises(InfrastructureError):
        migrations.migrate("host=/nonexistent dbname=x")


LAWS = [
    "UPDATE noetl.execution SET status = 'done'",
    "UPDATE noetl.execution SET status = 'failed'",
    "UPDATE noetl.execution SET version = 0",
    "UPDATE noetl.loop SET done = issued + 1",
    "UPDATE noetl.loop SET issued = cursor + 1",
    "UPDATE noetl.loop SET gate = 'ajar'",
    "UPDATE noetl.command SET attempt = 0",
    "UPDATE noetl.command SET remaining = past - first + 1",
    "UPDATE noetl.command SET waiting = true, owner = 'x'",
    "UPDATE noetl.event SET lane = -2",
    "INSERT INTO noetl.event SELECT execution_id, 'other', lane, seq, type, at, facts FROM noetl.event",
    "INSERT INTO noetl.event SELECT * FROM noetl.event",
]


@pytest.mark.parametrize("statement", LAWS)
def test_laws_hold_in_the_database_itself(store, admin, make, statement):
    store.commit([make.change(loops=(make.loop(5, 2),))], "me")
    with pytest.raises(psycopg.IntegrityError):
        admin.execute(statement)
