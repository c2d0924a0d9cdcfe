"""Whose machine is short: hints about what a database lacks name its machine, unless that is this one."""

from __future__ import annotations

import psycopg
import pytest

from noetl.adapters.postgres.connection import unreachable
from noetl.adapters.postgres.server_machine import remote_host
from noetl.cli.commands.database import unusable
from noetl.domain.errors import InfrastructureError
from tests.parts import over

HERE = "host=/home/ada/.noetl/postgres/socket dbname=noetl"
FAR = "postgresql://noetl:secret@db.example.com:5432/noetl"
REFUSED = 'connection failed: connection to server at "10.0.0.9", port 5432 failed: '


@over(
    ("dsn", "host"),
    [
        ("", None),
        ("dbname=noetl", None),
        (HERE, None),
        ("host=@abstract dbname=noetl", None),
        ("postgresql://ada@localhost/noetl", None),
        ("postgresql://ada@127.0.0.1:5433/noetl", None),
        ("postgresql://ada@[::1]/noetl", None),
        ("host=localhost,127.0.0.1", None),
        (FAR, "db.example.com"),
        ("host=localhost,db.example.com", "localhost,db.example.com"),
        ("host=db.example.com hostaddr=127.0.0.1", None),
        ("host=db.example.com hostaddr=10.0.0.9", "db.example.com"),
        ("hostaddr=10.0.0.9", "10.0.0.9"),
        ("host=127.example.com", "127.example.com"),
    ],
)
def test_the_other_machine_of_a_database_is_named(dsn, host, monkeypatch):
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGHOSTADDR", raising=False)
    assert remote_host(dsn) == host


def test_a_machine_that_only_the_environment_names_counts(monkeypatch):
    monkeypatch.setenv("PGHOST", "db.example.com")
    assert remote_host("dbname=noetl") == "db.example.com"
    assert remote_host("host=localhost") is None


SHORTAGES = [
    ("FATAL:  could not write init file: No space left on device", "df -h", "make room on its disk"),
    ("FATAL:  out of memory", "ulimit -v", "give it more memory"),
    ("could not fork new process for connection: Resource temporarily unavailable", "ulimit -u", "limits"),
    ("FATAL:  insufficient file descriptors available to start server process", "ulimit -n", "limits"),
    ("PANIC:  could not write to file: File too large", "ulimit -f", "limits of its Postgres"),
]


@over(("words", "here", "far"), SHORTAGES)
def test_a_shortage_is_that_of_the_machine_of_the_database(words, here, far):
    error = psycopg.OperationalError(REFUSED + words)
    for described in (unreachable(error, HERE), unusable(error, HERE, "check its address")):
        assert here in described.hint and "machine of the database" not in described.hint
    for described in (unreachable(error, FAR), unusable(error, FAR, "check its address")):
        assert described.hint.startswith(
            "that is on the machine of the database (db.example.com), not on this one: "
        )
        assert far in described.hint and "ulimit" not in described.hint and "df -h" not in described.hint
        assert "secret" not in str(described)


@pytest.mark.parametrize(
    ("words", "here"),
    [
        ("connection is bad: could not create socket: Too many open files", "ulimit -n"),
        ("out of memory for query result", "ulimit -v"),
    ],
)
def test_what_the_client_lacks_is_of_this_machine(words, here):
    hint = unreachable(psycopg.OperationalError(words), FAR).hint
    assert hint is not None and here in hint and "db.example.com" not in hint


def test_an_outage_that_was_described_already_keeps_its_hint():
    first = unreachable(psycopg.OperationalError(REFUSED + "FATAL:  out of memory"), FAR)
    again = unreachable(first, FAR, code="other")
    assert isinstance(again, InfrastructureError)
    assert (again.message, again.hint, again.code) == (first.message, first.hint, "other")
