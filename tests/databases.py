"""Databases for tests: each gets an empty one with the current schema, made from a template or emptied after another test.

Making one costs a fifth of a second of processor time, emptying one a hundredth of that. One whose schema a test has changed is thrown away.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import sql

from noetl.adapters.embedded.server import EmbeddedServer
from tests.waiting import wait_until

TEMPLATE = "noetl_template"
VIRTUAL = "noetl_virtual"
"""The template of databases whose time passes when a test says so."""
_SCHEMA = """
    SELECT (SELECT sum(hashtextextended(oid::text || xmin::text, 0)) FROM pg_class WHERE oid >= 16384),
           (SELECT sum(hashtextextended(attrelid::text || attnum::text || xmin::text, 0)) FROM pg_attribute WHERE attrelid >= 16384),
           (SELECT sum(hashtextextended(oid::text || xmin::text, 0)) FROM pg_proc WHERE oid >= 16384),
           (SELECT sum(hashtextextended(oid::text || xmin::text, 0)) FROM pg_constraint),
           (SELECT sum(hashtextextended(oid::text || xmin::text, 0)) FROM pg_trigger),
           (SELECT sum(hashtextextended(oid::text || xmin::text, 0)) FROM pg_namespace WHERE oid >= 16384)
"""
"""What changes with every change of the schema: the transactions that wrote the catalog's rows."""
_TABLES = """
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'noetl' AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1
"""
_SEQUENCES = """
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'noetl' AND c.relkind = 'S' ORDER BY 1
"""
_OTHERS_GO = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


class Databases:
    """Those of one process of the test run, on one server."""

    def __init__(self, server: EmbeddedServer, owner: str, template: str = TEMPLATE) -> None:
        self._server = server
        self._template = template
        self._names = (f"t_{owner}_{template}_{number}" for number in itertools.count(1))
        self._free: list[str] = []
        self._schemas: dict[str, tuple[object, ...]] = {}
        self._cleaning: sql.SQL | None = None
        self._sessions: dict[str, psycopg.Connection[tuple[object, ...]]] = {}
        """Kept for cleaning: to read the catalog into a new one takes five times as long as to clean."""

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """Connection string of a database that holds nothing but the schema."""
        name = self._free.pop() if self._free else self._make()
        yield self._server.dsn(name)
        if self._is_empty_again(name):
            self._free.append(name)
        else:
            self.drop(name)

    @contextmanager
    def new(self) -> Iterator[str]:
        """Connection string of a database that no test has used, for tests that count what is read: rows of others leave blocks behind."""
        name = self._make()
        try:
            yield self._server.dsn(name)
        finally:
            self.drop(name)

    def drop(self, name: str) -> None:
        drop_database(self._server.dsn("postgres"), name)

    def _make(self) -> str:
        name = next(self._names)
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY WAL_LOG")
        self._on_server(make.format(sql.Identifier(name), sql.Identifier(self._template)))
        with psycopg.connect(self._server.dsn(name)) as connection:
            self._schemas[name] = _row(connection, _SCHEMA)
            self._cleaning = self._cleaning or _cleaning(connection)
        return name

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()

    def _is_empty_again(self, name: str) -> bool:
        """Whether what a test has left could be taken away without a trace."""
        kept = self._sessions.pop(name, None)
        if kept is not None and self._clean(name, kept):
            return True
        try:
            # The test may have ended the session that was kept.
            return self._clean(name, psycopg.connect(self._server.dsn(name), autocommit=True))
        except psycopg.Error:
            return False

    def _clean(self, name: str, session: psycopg.Connection[tuple[object, ...]]) -> bool:
        assert self._cleaning is not None
        try:
            session.execute(_OTHERS_GO)
            if _row(session, _SCHEMA) == self._schemas[name]:
                session.execute(self._cleaning)
                self._sessions[name] = session
                return True
        except psycopg.Error:
            pass
        session.close()
        return False

    def _on_server(self, command: sql.Composed) -> None:
        with psycopg.connect(self._server.dsn("postgres"), autocommit=True) as connection:
            connection.execute(command)


def drop_database(dsn: str, name: str) -> None:
    """Drop a database and end its sessions. ``dsn``: of another one.

    An autovacuum worker belongs to the superuser, and only that one may end it: wait until it is through.
    """

    def dropped() -> bool:
        with (
            psycopg.connect(dsn, autocommit=True) as connection,
            suppress(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
            return True
        return False

    wait_until(dropped, f"the end of database {name}")


def _row(connection: psycopg.Connection[tuple[object, ...]], query: str) -> tuple[object, ...]:
    found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return found


def _cleaning(connection: psycopg.Connection[tuple[object, ...]]) -> sql.SQL:
    """Takes every row away but those that a new database has; identities count from 1 again."""
    parts = ["SET session_replication_role = replica", "SET lock_timeout = '5s'"]
    for (table,) in connection.execute(_TABLES).fetchall():
        kept = connection.execute(f"SELECT EXISTS (SELECT FROM {table})".encode()).fetchone()
        if kept == (False,):
            parts.append(f"DELETE FROM {table}")
    parts += [f"SELECT setval('{name}', 1, false)" for (name,) in connection.execute(_SEQUENCES).fetchall()]
    return sql.SQL("; ".join(parts))
