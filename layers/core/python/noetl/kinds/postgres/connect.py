"""From a credential to a connection, and the connections a worker keeps between calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.kinds.postgres.values import use_json_loaders
from noetl.kinds.support.idle_connections import Idle

IDLE_SECONDS = 60.0
CONNECTIONS_KEPT = 32
"""Of one process, to all servers: by default twice as many as it runs tasks at once."""

_NAMES = {
    "host": ("host", "db_host", "hostname"),
    "port": ("port", "db_port"),
    "user": ("user", "db_user", "username"),
    "password": ("password", "db_password"),
    "dbname": ("dbname", "database", "db_name"),
}
_OPTIONS = frozenset(
    [
        "hostaddr",
        "sslmode",
        "sslnegotiation",
        "channel_binding",
        "target_session_attrs",
        "options",
        "application_name",
    ]
)
_CONNECTION_STRINGS = ("dsn", "connection_string", "uri", "url")
_AUTH_FAILED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|role \".*\" does not exist",
    re.IGNORECASE,
)
_NO_DATABASE = re.compile(r'database ".*" does not exist')


def connection_string(credential: Credential) -> str:
    """Return a credential's libpq connection string.

    Only settings that name a server, a user and their protection pass: none that read files of the worker.
    Nothing is taken from the worker's environment. Raises TaskError(kind="auth", code="auth_invalid").
    """
    data = credential.data
    text = next((data[name] for name in _CONNECTION_STRINGS if data.get(name)), None)
    given = _parsed(credential, str(text)) if text is not None else _collected(credential)
    refused = sorted(given.keys() - _NAMES.keys() - _OPTIONS)
    if refused:
        raise _invalid(credential, f"sets {', '.join(refused)}, which a task may not")
    if not given.get("host") and not given.get("hostaddr"):
        raise _invalid(credential, "has no 'host'")
    if not given.get("user"):
        raise _invalid(credential, "has no 'user'")
    given.setdefault("dbname", given["user"])
    # Empty and missing files keep libpq from PGPASSWORD and ~/.pgpass, which are the worker's own.
    return make_conninfo("", **{"password": "", "passfile": "/nonexistent", "port": "5432", **given})


def _parsed(credential: Credential, text: str) -> dict[str, str]:
    try:
        parts = conninfo_to_dict(text)
    except psycopg.Error:
        raise _invalid(credential, "has a connection string that cannot be read") from None
    return {name: str(value) for name, value in parts.items() if value is not None}


def _collected(credential: Credential) -> dict[str, str]:
    data = credential.data
    given = {name: str(data[name]) for name in _OPTIONS if data.get(name) not in (None, "")}
    for name, spellings in _NAMES.items():
        value = next((data[spelling] for spelling in spellings if data.get(spelling) not in (None, "")), None)
        if value is not None:
            given[name] = str(value)
    return given


def _invalid(credential: Credential, why: str) -> TaskError:
    return TaskError(
        f"the credential {credential.name!r} {why}",
        kind="auth",
        code="auth_invalid",
        hint="a postgres credential has host, port, user, password, dbname (also db_host, db_user …) or dsn",
    )


class Connections:
    """Idle connections by connection string, and so by server, user and password.

    Safe to share between threads.
    """

    def __init__(self, most: int = CONNECTIONS_KEPT, seconds: float = IDLE_SECONDS) -> None:
        self._idle: Idle[str, psycopg.Connection[Any]] = Idle(most, seconds, psycopg.Connection.close)

    def take(self, conninfo: str, timeout: float) -> psycopg.Connection[Any]:
        """Take an idle connection that still answers, or open a new one.

        Raises TaskError (auth, db_connection, db_timeout).
        """
        while (kept := self._idle.take(conninfo)) is not None:
            if _is_alive(kept):
                return kept
            kept.close()
        return _connect(conninfo, timeout)

    def give_back(self, conninfo: str, connection: psycopg.Connection[Any]) -> None:
        """Keep a connection for the next call, or close one that is not idle."""
        if connection.pgconn.transaction_status == TransactionStatus.IDLE and not connection.closed:
            self._idle.keep(conninfo, connection)
        else:
            connection.close()

    def close_idle(self, older_than: float = 0.0) -> None:
        """Close connections that have been idle for ``older_than`` seconds."""
        self._idle.close_idle(older_than)


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    """Report whether the server is still connected.

    An idle connection has nothing to read but its end.
    """
    import select

    if connection.closed:
        return False
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return not poller.poll(0)


def _connect(conninfo: str, timeout: float) -> psycopg.Connection[Any]:
    settings: Mapping[str, Any] = {
        "connect_timeout": max(2, min(10, int(timeout))),
        "client_encoding": "utf8",
        "fallback_application_name": "noetl",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    try:
        connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None, **settings)
    except psycopg.Error as error:
        raise _not_connected(error) from None
    use_json_loaders(connection)
    return connection


def _not_connected(error: psycopg.Error) -> TaskError:
    """Classify a failed connection by libpq's text.

    libpq reports no SQLSTATE for it. The text holds no password.
    """
    text = " ".join(str(error).split())[:300]
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return TaskError(text, kind="db_timeout", code="connect_timeout", retryable=True)
    if _AUTH_FAILED.search(text):
        return TaskError(text, kind="auth", code="28000", details={"sqlstate": "28000"})
    if _NO_DATABASE.search(text):
        return TaskError(text, kind="client_error", code="3D000", details={"sqlstate": "3D000"})
    return TaskError(text, kind="db_connection", code="08001", retryable=True, details={"sqlstate": "08001"})


CONNECTIONS = Connections()
"""Shared by every task of the process."""
