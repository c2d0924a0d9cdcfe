"""The custom resources of a deployment: schema, role, playbooks."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from noetl.adapters.postgres import PostgresCatalog, PostgresExecutionStore
from noetl.adapters.postgres.executions.retention import PostgresRetention
from noetl.adapters.postgres.migrations import check_current, pending, scripts
from noetl.adapters.postgres.roles import make_app_role
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.adapters.postgres.session_settings import SETTINGS
from noetl.domain import ids
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.ports.executions.retention import Removed
from noetl.runtime.aws.migrate import MIGRATION, PLAYBOOKS, Migration, on_event
from noetl.runtime.aws.settings import CloudSettings
from tests.contract.builders import Make
from tests.doubles.programs import MemoryProgramStore

pytestmark = pytest.mark.postgres
HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: demo/hello}
workflow:
  - step: start
    tool: {kind: noop}
"""


def archive(files: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return buffer.getvalue()


def event(kind: str, request: str = "Create", **properties: str) -> dict:
    return {"ResourceType": kind, "RequestType": request, "ResourceProperties": properties}


@pytest.fixture
def empty(postgres, database):
    """The database without its schema."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("DROP SCHEMA noetl CASCADE")
    return database


@pytest.fixture
def role(database):
    """Name of a role that does not exist yet, and will not any more."""
    with psycopg.connect(database, autocommit=True) as admin:
        name = "app_" + str(admin.execute("SELECT current_database()").fetchone()[0])
        yield name
        if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone():
            for verb in ("DROP OWNED BY", "DROP ROLE"):
                admin.execute(sql.SQL(verb + " {}").format(sql.Identifier(name)))


def work(dsn: str, files: dict[str, str | bytes] | None = None, **fields) -> Migration:
    data = archive(files or {})
    return Migration(dsn, MemoryProgramStore(), lambda bucket, key: data, patience=0.0, **fields)


def test_a_deployment_migrates_and_makes_the_role_of_the_functions(empty, role):
    deploy = work(empty, role=(role, "s3cret-from-the-vault"))
    first = on_event(event(MIGRATION, Digest="a"), lambda: deploy)
    assert first["PhysicalResourceId"] == "NoetlMigration"
    assert first["Data"]["Applied"].split(", ") == list(scripts())
    assert pending(empty) == []
    again = on_event({**event(MIGRATION, "Update"), "PhysicalResourceId": "kept"}, lambda: deploy)
    assert again == {"PhysicalResourceId": "kept", "Data": {"Applied": ""}}


def test_an_update_that_finds_an_empty_database_changes_nothing(empty):
    """A changed name of the cluster made another one: going on there would leave every execution behind, without a word."""
    deploy = work(empty)
    with pytest.raises(RuntimeError, match=r"database_replaced.*A database that was replaced"):
        on_event({**event(MIGRATION, "Update"), "PhysicalResourceId": "kept"}, lambda: deploy)
    assert pending(empty) == list(scripts())
    on_event(event(MIGRATION), lambda: deploy)
    on_event({**event(MIGRATION, "Update"), "PhysicalResourceId": "kept"}, lambda: deploy)


def test_the_role_does_the_work_and_nothing_else(database, role):
    make = Make()
    make_app_role(database, role, "one")
    make_app_role(database, role, "two")
    as_app = make_conninfo(database, options=f"-c role={role}")
    store = PostgresExecutionStore(as_app)
    assert store.create(make.start(), make.created(), "me").fresh
    store.commit([make.change()], "me")
    assert store.events(make.start().execution_id)
    store.close()
    with psycopg.connect(as_app, autocommit=True) as app:
        for forbidden in (
            "CREATE TABLE noetl.mine (a int)",
            "DROP TABLE noetl.outbox",
            "ALTER TABLE noetl.event ADD COLUMN x int",
            "DELETE FROM noetl.migration",
            "CREATE ROLE another",
            "SELECT rolpassword FROM pg_authid",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(forbidden)
    with psycopg.connect(database, autocommit=True) as admin:
        stored = admin.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (role,)).fetchone()[0]
        assert stored.startswith("SCRAM-SHA-256$")
        admin.execute("CREATE TABLE noetl.later (a int)")
    with psycopg.connect(as_app, autocommit=True) as app:
        app.execute("INSERT INTO noetl.later VALUES (1)")


def test_the_role_cuts_and_drops_partitions_of_history_that_nobody_needs(database, role):
    make, now, day = Make(), 2_000_000_000.0, 86_400.0
    make_app_role(database, role, "one")
    as_app = make_conninfo(database, options=f"-c role={role}")
    store = PostgresExecutionStore(as_app)
    retention = PostgresRetention(store.database)
    retention.partition_history(now, 6 * day)
    gone = ids.first_id(now)
    store.commit([make.change(execution_id=gone, status="completed", end=True)])
    store.commit([make.change(execution_id=gone + 1)])
    left = retention.partition_history(now + 6.5 * day, 6 * day).deferred
    assert gone in left and retention.claim(now, 10) == [gone]
    assert retention.remove([gone], left) == Removed(1, 0, 0)
    assert len(store.events(gone)) == len(store.events(gone + 1)) == 1
    retention.partition_history(now + 7.5 * day, 6 * day)
    assert retention.drop_history(now + 2.5 * day, 0.0)
    assert len(store.events(gone)) == 0 and len(store.events(gone + 1)) == 1
    assert retention.drop_history(now, now + 2.5 * day), "what is kept is looked through once"
    assert not retention.drop_history(now, now + 2.5 * day)
    store.close()


def test_the_role_has_the_settings_that_a_proxy_drops_from_connections(database, role):
    """``pooled`` sends no connection options: planner settings and the statement timeout have to come with the role."""
    make_app_role(database, role, "one")
    with psycopg.connect(database) as admin:
        (found,) = admin.execute(
            "SELECT setconfig FROM pg_db_role_setting JOIN pg_roles r ON r.oid = setrole WHERE rolname = %s",
            (role,),
        ).fetchone()
    assert dict(one.split("=") for one in found) == SETTINGS
    assert SETTINGS["plan_cache_mode"] == "force_generic_plan" and int(SETTINGS["statement_timeout"]) > 0


def test_the_owner_is_not_made_the_functions_role(database):
    with psycopg.connect(database) as connection, pytest.raises(InvalidInputError):
        make_app_role(database, connection.info.user, "x")


def test_playbooks_of_the_deployment_are_registered(database):
    files = {
        "a/hello.yaml": HELLO,
        "a/other.yml": HELLO.replace("demo/hello", "demo/other"),
        "a/values.yaml": "city: Seattle\n",
        "a/notes.txt": HELLO.replace("demo/hello", "demo/notes"),
        "b/elsewhere.yaml": HELLO.replace("demo/hello", "demo/elsewhere"),
    }
    deploy = work(database, files)
    answer = on_event(event(PLAYBOOKS, Bucket="b", Key="k", Prefix="a/"), lambda: deploy)
    assert answer["Data"] == {"Registered": "2"}
    catalog = PostgresCatalog(database)
    found = catalog.entries(limit=10)
    assert [(one.path, one.version, one.source_name) for one in found] == [
        ("demo/hello", 1, "a/hello.yaml"),
        ("demo/other", 1, "a/other.yml"),
    ]
    assert all(deploy.programs.get(one.program) for one in found)
    on_event(event(PLAYBOOKS, "Update", Bucket="b", Key="k"), lambda: deploy)
    assert catalog.get("demo/hello").version == 1 and catalog.get("demo/elsewhere").version == 1
    catalog.close()


def test_an_invalid_playbook_stops_the_deployment_and_says_why(database):
    deploy = work(database, {"bad.yaml": HELLO.replace("noop", "noopp")})
    with pytest.raises(RuntimeError, match=r"invalid_playbook: bad.yaml:6:18: unknown-kind"):
        on_event(event(PLAYBOOKS), lambda: deploy)


@pytest.mark.parametrize(("kind", "request_type"), [(MIGRATION, "Delete"), (PLAYBOOKS, "Delete")])
def test_deleting_a_stack_touches_nothing(kind, request_type):
    def never() -> Migration:
        raise AssertionError("nothing is opened")

    assert on_event({**event(kind, request_type), "PhysicalResourceId": "x"}, never) == {
        "PhysicalResourceId": "x"
    }


def test_what_is_refused(database):
    with pytest.raises(RuntimeError, match="none of"):
        on_event(event("Custom::Other"), lambda: work(database))
    broken = replace(work(database), fetch=lambda bucket, key: b"not a zip")
    with pytest.raises(RuntimeError, match="not a zip"):
        on_event(event(PLAYBOOKS), lambda: broken)
    gone = replace(work(database), dsn=make_conninfo(database, host="/nowhere"))
    with pytest.raises(RuntimeError, match="database_unreachable"):
        on_event(event(MIGRATION), lambda: gone)


def test_a_database_says_whether_it_is_migrated(database):
    check_current(database)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(
            "UPDATE noetl.migration SET checksum = 'of a later version' WHERE name LIKE 'functions/%'"
        )
    check_current(database)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("DELETE FROM noetl.migration WHERE name LIKE 'migrations/%'")
    with pytest.raises(InfrastructureError, match="not migrated"):
        check_current(database)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("DROP SCHEMA noetl CASCADE")
    with pytest.raises(InfrastructureError, match="not migrated"):
        check_current(database)
    with pytest.raises(InfrastructureError, match="cannot be reached"):
        check_current(make_conninfo(database, host="/nowhere"))


def test_a_database_that_takes_no_writes_is_not_ready(database):
    """After a failover a server may be left with a replica, which reads as before."""
    with pytest.raises(InfrastructureError, match="takes no writes") as refused:
        check_current(make_conninfo(database, options="-c default_transaction_read_only=on"))
    assert refused.value.code == "database_read_only"


def test_schedules_of_the_deployment_are_kept(database):
    text = HELLO.replace("path: demo/hello", "path: demo/hello, schedule: {cron: '0 6 * * 1-5'}")
    settings = CloudSettings("local", "results")
    deploy = work(database, {"a.yaml": text}, settings=settings)
    on_event(event(PLAYBOOKS), lambda: deploy)
    store = PostgresScheduleStore(database)
    (row,) = store.entries(limit=5)
    assert (row.path, row.cron, row.declared) == ("demo/hello", "0 6 * * 1-5", True)
    unscheduled = replace(deploy, fetch=lambda bucket, key: archive({"a.yaml": HELLO}))
    on_event(event(PLAYBOOKS, "Update"), lambda: unscheduled)
    assert not store.entries(limit=5)
    store.close()
