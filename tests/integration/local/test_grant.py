"""The master user and database that RDS would have made, in a real Postgres."""

from __future__ import annotations

import io
import json
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from noetl.adapters.embedded import processes
from noetl.local import database, grant
from noetl.local.emulator import free_port
from noetl.local.layout import Layout
from noetl.local.state import runs
from tests.waiting import wait_until

PASSWORD = 'it\'s "odd" \\ %s {x} é'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    layout, port = Layout(tmp_path_factory.mktemp("grant") / "local"), free_port()
    layout.root.mkdir()
    started = database.start(layout, port)
    assert runs(started)
    yield layout, port
    database.stop(layout)
    # Its lock file goes a moment before the process does.
    wait_until(lambda: not runs(started), "the end of the server")


def _connect(port: int, user: str, password: str, name: str):
    return psycopg.connect(
        host=database.HOST, port=port, user=user, password=password, dbname=name, autocommit=True
    )


def test_the_owner_reaches_its_database_by_password(served) -> None:
    layout, port = served
    dsn = database.dsn_file(layout).read_text()
    grant.grant(dsn, "owner", "first", "mine")
    grant.grant(dsn, "owner", PASSWORD, "mine")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        _connect(port, "owner", "first", "mine")
    with _connect(port, "owner", PASSWORD, "mine") as connection:
        connection.execute("CREATE ROLE app LOGIN PASSWORD 'x'")
        connection.execute("CREATE SCHEMA noetl")
        connection.execute("GRANT USAGE ON SCHEMA noetl TO app")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("COPY (SELECT 1) TO '/tmp/noetl-stolen'")


def test_the_program_tells_why_it_was_refused(served, monkeypatch, capsys) -> None:
    layout, _ = served
    request = {"user": "owner", "password": "x", "database": "mine"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))
    monkeypatch.setattr("sys.argv", ["grant", str(database.dsn_file(layout))])
    assert grant.main() == 0
    wrong = layout.root / "wrong.dsn"
    wrong.write_text(conninfo.make_conninfo(database.dsn_file(layout).read_text(), password="no"))
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))
    monkeypatch.setattr("sys.argv", ["grant", str(wrong)])
    assert grant.main() == 1
    assert "password authentication failed" in capsys.readouterr().err


def test_a_server_that_nobody_recorded_is_replaced(served) -> None:
    layout, _ = served
    before = processes.pid_file_line(layout.postgres, 0)
    other = free_port()
    database.start(layout, other)
    assert processes.pid_file_line(layout.postgres, 0) != before
    grant.grant(database.dsn_file(layout).read_text(), "late", "pw", "late")
    with _connect(other, "late", "pw", "late") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert Path(database.dsn_file(layout)).stat().st_mode & 0o077 == 0
