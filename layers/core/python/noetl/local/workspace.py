"""The scratch database of the local stack.

`postgres` tasks without a credential use it, as in a run without a deployment.
"""

from __future__ import annotations

import json
import secrets

import psycopg
from psycopg import sql

from noetl.domain.errors import InfrastructureError
from noetl.local import aws, database
from noetl.local.layout import Layout

NAME = "workspace"
"""Of the role, the database, and the credential (``NOETL_WORKSPACE`` of the workers)."""


def open_workspace(layout: Layout, endpoint: str, environment: str, port: int) -> None:
    """Make the database and its secret, when they are missing. Raises InfrastructureError."""
    from botocore.exceptions import BotoCoreError, ClientError

    store = aws.client("secretsmanager", endpoint)
    secret = f"noetl/{environment}/credentials/{NAME}"
    password = secrets.token_urlsafe(24)
    data = {"host": database.HOST, "port": port, "user": NAME, "password": password, "dbname": NAME}
    text = json.dumps({"type": "postgres", "data": data})
    try:
        _make(database.dsn_file(layout).read_text(), password)
        try:
            store.create_secret(Name=secret, SecretString=text)
        except store.exceptions.ResourceExistsException:
            store.put_secret_value(SecretId=secret, SecretString=text)
    except (psycopg.Error, BotoCoreError, ClientError) as error:
        raise InfrastructureError(
            f"the scratch database cannot be made: {error}", code="local_workspace"
        ) from error


def _make(dsn: str, password: str) -> None:
    """A role that owns its database and may do nothing else."""
    name = sql.Identifier(NAME)
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as connection:
        known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (NAME,)).fetchone()
        verb = sql.SQL("ALTER" if known else "CREATE")
        connection.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, name, sql.Literal(password)))
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (NAME,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))
