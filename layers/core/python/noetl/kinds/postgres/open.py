"""A session on a task's database: that of its credential, or the scratch database."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential, TaskContext
from noetl.kinds.postgres.connect import CONNECTIONS, connection_string
from noetl.kinds.postgres.run import Session

Auth = str | Mapping[str, Any] | None
"""A credential's name, the settings of a connection, or nothing: the scratch database."""


@contextmanager
def opened(auth: Auth, context: TaskContext) -> Iterator[Session]:
    """Open a session until the task's time is up; its connection is kept for the next one.

    No transaction is begun. What is open at the end is undone. Raises TaskError.
    """
    conninfo = conninfo_of(auth, context)
    deadline = time.monotonic() + context.timeout
    connection = CONNECTIONS.take(conninfo, context.timeout)
    session = Session(connection, deadline, context.settings.output_max_bytes, context.cancelled)
    try:
        yield session
    finally:
        # Whatever happened is decided: a connection that cannot be cleaned is closed and changes nothing.
        if session.clean():
            CONNECTIONS.give_back(conninfo, connection)
        else:
            connection.close()


def conninfo_of(auth: Auth, context: TaskContext) -> str:
    """libpq's connection string. Raises TaskError(kind="auth")."""
    if auth is None:
        return _scratch(context)
    if isinstance(auth, str):
        return connection_string(context.credential(auth))
    name = auth.get("credential")
    if isinstance(name, str):
        return connection_string(context.credential(name))
    inline = {key: value for key, value in auth.items() if key != "type"}
    return connection_string(Credential("auth", "postgres", inline))


def _scratch(context: TaskContext) -> str:
    if context.settings.workspace_credential:
        return connection_string(context.credential(context.settings.workspace_credential))
    if context.settings.workspace_dsn is None:
        raise TaskError(
            "postgres has no database to use: the task names no 'auth' and this deployment has no scratch database",
            kind="auth",
            code="auth_missing",
            hint="name a registered credential: auth: warehouse",
        )
    return context.settings.workspace_dsn
