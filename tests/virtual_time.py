"""Time in a database that passes when a test says so: ``now()`` of every statement is a row.

A connection with ``OPTIONS`` finds the functions of the schema ``virtual`` before those of Postgres; column defaults, which are bound
when they are made, are bound to them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import conninfo

START = 1_800_000_000.0
"""Epoch seconds at which virtual time begins."""
OPTIONS = "-c search_path=virtual,pg_catalog,public"
SCHEMA = f"""
CREATE SCHEMA virtual;
CREATE TABLE virtual.moment (at TIMESTAMPTZ NOT NULL);
INSERT INTO virtual.moment VALUES (to_timestamp({START}));
CREATE FUNCTION virtual.now() RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS 'SELECT at FROM virtual.moment';
CREATE FUNCTION virtual.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE sql VOLATILE AS 'SELECT at FROM virtual.moment';
DO $$
DECLARE found RECORD;
BEGIN
    FOR found IN
        SELECT format('%I.%I', n.nspname, c.relname) AS place, a.attname, pg_get_expr(d.adbin, d.adrelid) AS value
        FROM pg_attrdef d
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        JOIN pg_class c ON c.oid = d.adrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'noetl' AND pg_get_expr(d.adbin, d.adrelid) ~ '(now|clock_timestamp)\\(\\)'
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT virtual.%s', found.place, found.attname, found.value);
    END LOOP;
END $$;
"""
RESET = f"UPDATE virtual.moment SET at = to_timestamp({START})"
PASS = "UPDATE virtual.moment SET at = at + make_interval(secs => %s)"


class DatabaseClock:
    """The time of a database. ``dsn`` is for those who live in it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = conninfo.make_conninfo(dsn, options=OPTIONS)
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._connection.execute(RESET)

    def sleep(self, seconds: float) -> None:
        self._connection.execute(PASS, (seconds,))

    def close(self) -> None:
        self._connection.close()


@contextmanager
def database_clock(dsn: str) -> Iterator[DatabaseClock]:
    """The clock of a database that was made from the template with virtual time."""
    clock = DatabaseClock(dsn)
    try:
        yield clock
    finally:
        clock.close()
