"""Roles that sign in, and the one of functions, which reads and writes rows.

It can change nothing about the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict

from noetl.adapters.postgres.migrations import LOCK
from noetl.adapters.postgres.session_settings import SETTINGS
from noetl.domain.errors import InfrastructureError, InvalidInputError

SCHEMA = sql.Identifier("noetl")
_ROWS = sql.SQL("SELECT, INSERT, UPDATE, DELETE")


def make_app_role(dsn: str, name: str, password: str) -> None:
    """Make the role, or bring it up to date.

    It sets the password, the settings of its sessions, and rights on every table there is and will be.

    ``dsn``: of the schema's owner. The password leaves this process only as a SCRAM verifier. Raises InvalidInputError when the name is
    the owner's, and InfrastructureError.
    """
    make_role(dsn, Role(name, password, "INHERIT", SETTINGS, _grant))


@dataclass(frozen=True, slots=True)
class Role:
    """A role that signs in with a password.

    ``attributes``: of CREATE ROLE, beside LOGIN. ``settings``: of its sessions. ``grant``: gives it its rights, in the transaction that
    makes it.
    """

    name: str
    password: str
    attributes: LiteralString
    settings: Mapping[str, str]
    grant: Callable[[Connection, str], None]


def make_role(dsn: str, role: Role) -> None:
    """Make a role, or bring its password, settings and rights up to date.

    ``dsn``: of the schema's owner, who needs CREATEROLE. Raises InvalidInputError when the name is the owner's, and InfrastructureError.
    """
    try:
        with Connection.connect(
            dsn, autocommit=True, prepare_threshold=None, connect_timeout=10
        ) as connection:
            if role.name == connection.info.user:
                raise InvalidInputError(
                    f"the role {role.name} owns the schema: another role has to sign in", code="role_is_owner"
                )
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                _make(connection, role)
                role.grant(connection, role.name)
    except psycopg.OperationalError as error:
        raise InfrastructureError(
            f"the database cannot be reached: {error}", code="database_unreachable"
        ) from error
    except psycopg.Error as error:
        raise InfrastructureError(
            f"the role {role.name} cannot be made in {conninfo_to_dict(dsn).get('dbname')}: {error}",
            code="role_refused",
            hint="the owner of the schema needs CREATEROLE",
            retryable=False,
        ) from error


def _make(connection: Connection, role: Role) -> None:
    verifier = connection.pgconn.encrypt_password(
        role.password.encode(), role.name.encode(), b"scram-sha-256"
    ).decode()
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role.name,))
    connection.execute(
        sql.SQL("{} ROLE {} LOGIN NOCREATEDB NOCREATEROLE {} PASSWORD {}").format(
            sql.SQL("ALTER" if known.fetchone() else "CREATE"),
            sql.Identifier(role.name),
            sql.SQL(role.attributes),
            sql.Literal(verifier),
        )
    )
    for setting, value in role.settings.items():
        connection.execute(
            sql.SQL("ALTER ROLE {} SET {} = {}").format(
                sql.Identifier(role.name), sql.Identifier(setting), sql.Literal(value)
            )
        )


def _grant(connection: Connection, name: str) -> None:
    database = sql.Identifier(connection.info.dbname)
    for statement in (
        "GRANT CONNECT ON DATABASE {database} TO {name}",
        "GRANT USAGE ON SCHEMA {schema} TO {name}",
        "GRANT {rows} ON ALL TABLES IN SCHEMA {schema} TO {name}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {name}",
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {name}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT {rows} ON TABLES TO {name}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE ON SEQUENCES TO {name}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT EXECUTE ON FUNCTIONS TO {name}",
        "REVOKE INSERT, UPDATE, DELETE ON {schema}.migration FROM {name}",
    ):
        connection.execute(
            sql.SQL(statement).format(database=database, schema=SCHEMA, name=sql.Identifier(name), rows=_ROWS)
        )
