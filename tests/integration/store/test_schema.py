"""Migrations: repeatable, safe to run at once, and refused where they do not fit."""

from __future__ import annotations

import threading

import psycopg
import pytest

from noetl.adapters.postgres import migrations
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.domain.errors import InfrastructureError
from noetl.ports.automations.schedule_store import ScheduleRow
from tests.databases import drop_database
from tests.parts import parted
from tests.waiting import wait_until

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


def earlier(dsn, *names):
    """Make the journal of a database that is up to date that of one which earlier migrations made."""
    migrations.migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "DELETE FROM noetl.migration WHERE name = 'complete' OR name = ANY(%s)",
            [list(migrations.BASELINE)],
        )
        for name in ("0001_init", *names):
            migrations._record(connection, f"migrations/{name}", "of that time")


def test_a_database_that_earlier_migrations_made_goes_on_with_its_tables(empty):
    earlier(empty, "0042_task_cache", "0046_rewritten_playbooks", "0047_callback_slots")
    before = facts(empty)
    assert migrations.pending(empty) == [] == migrations.migrate(empty)
    migrations.check_current(empty)
    assert facts(empty) == before


def test_a_database_older_than_the_baseline_is_refused(empty):
    earlier(empty, "0042_task_cache")
    for look in (migrations.migrate, migrations.pending):
        with pytest.raises(InfrastructureError, match="0042_task_cache") as caught:
            look(empty)
        assert caught.value.code == "database_older" and not caught.value.retryable


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
            "UPDATE noetl.migration SET checksum = 'old' WHERE name IN ('complete', 'migrations/0048_tables')"
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
        connection.execute("UPDATE noetl.migration SET checksum = 'x' WHERE name = 'migrations/0048_tables'")
    with pytest.raises(InfrastructureError, match="0048_tables") as caught:
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


def test_absolute_names_of_earlier_rows_open_no_folder_and_their_playbooks_stay(empty):
    migrations.migrate(empty)
    names = {"a": "/etc/x.yaml", "b": "/etc/", "c": "in/x.yaml", "d": "/new\n/of two.yaml"}
    with psycopg.connect(empty, autocommit=True) as connection:
        for path, name in names.items():
            connection.execute(
                "INSERT INTO noetl.catalog (path, version, name, program, content, source_name)"
                " VALUES (%s, 1, 'n', 'p', 'text', %s)",
                (path, name),
            )
        connection.execute(
            "DELETE FROM noetl.migration WHERE name IN ('complete', 'migrations/0050_names_of_sources')"
        )
    assert migrations.migrate(empty) == ["migrations/0050_names_of_sources"]
    with psycopg.connect(empty) as connection:
        rows = connection.execute("SELECT path, source_name, content FROM noetl.catalog ORDER BY path")
        assert rows.fetchall() == [
            *(("a", "x.yaml", "text"), ("b", "playbook", "text")),
            *(("c", "in/x.yaml", "text"), ("d", "of two.yaml", "text")),
        ]


def migrate_before(connection, name):
    """Apply the migrations before this one."""
    connection.execute(migrations._JOURNAL)
    for earlier, text in migrations.scripts().items():
        if earlier.startswith(migrations.MIGRATIONS) and earlier < name:
            connection.execute(text)
            migrations._record(connection, earlier, migrations._checksum(text))


@pytest.mark.parametrize("pending", parted(["0057", "0058", "0059"], ["0059"]))
def test_what_the_version_before_commits_during_a_migration_is_not_lost(empty, pending):
    """It takes part in no lock of the migration: executions run on while a version is deployed."""
    row = (1, "7.r0.0", "until:77:http:direct:0a1b", 0, 2, 3, 1, 9, 4, 5, 2, 3, "true", '{"a": 1}', 7, "{}")
    columns = (
        "execution_id, command_id, owner, round, attempt, turn, first, past, remaining, priority, lost, lost_turn,"
        " remote::text, child::text, run, payload::text"
    )
    with psycopg.connect(empty, autocommit=True) as connection, psycopg.connect(empty) as before:
        migrate_before(connection, f"migrations/{pending}")
        before.execute(
            f"INSERT INTO noetl.command ({columns.replace('::text', '')}, not_before)"
            f" VALUES ({', '.join(['%s'] * len(row))}, now())",
            row,
        )
        before.execute(
            "INSERT INTO noetl.command (execution_id, command_id, run, waiting, not_before, payload)"
            " VALUES (2, '8', 8, true, now(), '{}')"
        )
        work = threading.Thread(target=migrations.migrate, args=(empty,))
        work.start()
        wait_until(lambda: connection.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount > 0)
        before.commit()
        work.join()
        found = connection.execute(f"SELECT {columns} FROM noetl.command WHERE NOT waiting").fetchall()
        assert found == [row]
        waiting = connection.execute("SELECT command_id, owner FROM noetl.command WHERE waiting").fetchall()
        assert waiting == [("8", "")]


def test_commands_that_an_earlier_schema_has_are_found_after_it(empty):
    """Few of an execution keep no index up to date; those of loops, and many of one execution, are found by their ids."""
    ids = [(1, "7", -1), (1, "8", -1), (1, "9.r0.0", 0), *((2, str(number), -1) for number in range(1, 10))]
    with psycopg.connect(empty, autocommit=True) as connection:
        migrate_before(connection, "migrations/0057")
        for execution, command, round_ in ids:
            connection.execute(
                "INSERT INTO noetl.command (execution_id, command_id, run, round, owner, not_before, payload, lost)"
                " VALUES (%s, %s, 7, %s, 'me', now(), '{}', 2)",
                (execution, command, round_),
            )
        connection.execute(
            "UPDATE noetl.command SET owner = 'until:77:http:direct:0a1b' WHERE command_id = '8'"
        )
        before = connection.execute(
            "SELECT id, execution_id, command_id FROM noetl.command ORDER BY id"
        ).fetchall()
    assert migrations.migrate(empty)[:3] == [
        "migrations/0057_rows_of_commands",
        "migrations/0058_short_facts",
        "migrations/0059_owner_groups",
    ]
    with psycopg.connect(empty, autocommit=True) as connection:
        columns = "SELECT id, execution_id, command_id FROM noetl.command WHERE lost = 2 ORDER BY id"
        assert connection.execute(columns).fetchall() == before
        groups = "SELECT command_id, owner, owner_group FROM noetl.command WHERE execution_id = 1 ORDER BY id"
        assert connection.execute(groups).fetchall() == [
            ("7", "me", "me"),
            ("8", "until:77:http:direct:0a1b", "until:http:direct"),
            ("9.r0.0", "me", "me"),
        ]
        places = connection.execute("SELECT place FROM noetl.command ORDER BY id").fetchall()
        assert [place for (place,) in places] == ["", "", "9.r0.0", *(str(number) for number in range(1, 10))]
        new = connection.execute(
            "INSERT INTO noetl.command (execution_id, command_id, run, not_before, payload)"
            " VALUES (3, '1', 1, now(), '{}') RETURNING id"
        ).fetchone()
        assert new is not None and new[0] > max(row[0] for row in before)


def test_what_earlier_rows_say_of_a_skipped_moment_is_kept_with_its_cause(empty):
    """A name is the cause that its reason means; the reason is one that `fire_schedule` writes."""
    migrations.migrate(empty)
    reasons = {
        "catch_up": "it was missed: catch_up is once",
        "overlap": "overlap: execution 7 still runs",
        "refused": "playbook_not_found: there is no playbook",
    }
    store = PostgresScheduleStore(empty)
    for name in (*reasons, "none"):
        store.put(ScheduleRow(name, name, 0.0, rate="1 hour"))
    change = (
        "UPDATE noetl.schedule SET skipped_at = to_timestamp(1800003600), skipped_reason = %s WHERE name = %s"
    )
    with psycopg.connect(empty, autocommit=True) as connection:
        for name, reason in reasons.items():
            connection.execute(change, (reason, name))
        connection.execute("DROP TABLE noetl.schedule_skip")
        connection.execute(
            "DELETE FROM noetl.migration WHERE name IN ('complete', 'migrations/0054_skips_by_cause')"
        )
    assert migrations.migrate(empty) == ["migrations/0054_skips_by_cause"]
    found = {row.name: dict(row.skips) for row in store.entries(limit=9)}
    store.close()
    assert found.pop("none") == {}
    assert found == {name: {name: (1_800_003_600.0, reason)} for name, reason in reasons.items()}
