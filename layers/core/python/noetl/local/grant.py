"""Creation of what RDS creates: a master user and its database.

They are in the Postgres of the local stack.

Run as a program by the emulator: ``python -m noetl.local.grant DSN-FILE`` with ``{"user", "password", "database"}`` on stdin.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psycopg
from psycopg import sql


def grant(dsn: str, user: str, password: str, database: str) -> None:
    """Make the role (or set its password) and its database.

    It may make roles and databases of its own, like RDS's master user.
    """
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as connection:
        role = sql.Identifier(user)
        known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (user,)).fetchone()
        verb = sql.SQL("ALTER" if known else "CREATE")
        connection.execute(
            sql.SQL("{} ROLE {} LOGIN CREATEROLE CREATEDB PASSWORD {}").format(
                verb, role, sql.Literal(password)
            )
        )
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(database), role))


def main() -> int:
    """Do what stdin asks for; the reason of a refusal goes to stderr."""
    request = json.load(sys.stdin)
    try:
        grant(
            Path(sys.argv[1]).read_text(),
            str(request["user"]),
            str(request["password"]),
            str(request["database"]),
        )
    except psycopg.Error as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
