"""The role that runs queries of people.

It signs in by itself, and can read the views of history and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import LiteralString

import psycopg
from psycopg import Connection, sql

from noetl.adapters.postgres.roles import Role, make_role

VIEWS_SCHEMA = "noetl_history"
CONNECTIONS: LiteralString = "4"
"""Queries at the same moment, of all processes together."""
SETTINGS = {
    "default_transaction_read_only": "on",
    "search_path": VIEWS_SCHEMA,
    "statement_timeout": "10s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "30s",
    "work_mem": "16MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}
"""Of its sessions. None of them is what keeps it in its place: it has no right to anything but the views."""
TEMPORARY_FILES = "1GB"
"""Of one query, where the owner may say so: a superuser may, or who has the right SET on ``temp_file_limit``."""
_RIGHTS: tuple[LiteralString, ...] = (
    "REVOKE ALL ON ALL TABLES IN SCHEMA noetl FROM {name}",
    "REVOKE ALL ON SCHEMA noetl FROM {name}",
    "GRANT CONNECT ON DATABASE {database} TO {name}",
    "GRANT USAGE ON SCHEMA {schema} TO {name}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}",
)


def reader_password(password: str) -> str:
    """Derive the reader's password from the engine's.

    So the embedded server keeps one secret.
    """
    return hmac.new(password.encode(), b"noetl reader of history", hashlib.sha256).hexdigest()


def make_reader_role(dsn: str, name: str, password: str) -> None:
    """Make the role, or bring it up to date: password, settings, rights.

    ``dsn``: of the schema's owner, who needs CREATEROLE.

    Raises InfrastructureError.
    """
    make_role(dsn, Role(name, password, "NOINHERIT CONNECTION LIMIT " + CONNECTIONS, SETTINGS, _grant_views))


def _grant_views(connection: Connection, name: str) -> None:
    """Let the role read the views, and limit its temporary files."""
    try:
        with connection.transaction():
            connection.execute(
                sql.SQL("ALTER ROLE {} SET temp_file_limit = {}").format(
                    sql.Identifier(name), sql.Literal(TEMPORARY_FILES)
                )
            )
    except psycopg.errors.InsufficientPrivilege:
        pass  # time alone limits them then
    for statement in _RIGHTS:
        connection.execute(
            sql.SQL(statement).format(
                database=sql.Identifier(connection.info.dbname),
                schema=sql.Identifier(VIEWS_SCHEMA),
                name=sql.Identifier(name),
            )
        )
