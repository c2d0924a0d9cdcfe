"""The database of a deployed function, by its secret, which is read again on a change."""

from __future__ import annotations

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.secrets import database_dsn
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.history_sql import PostgresHistorySql
from noetl.ports.history_sql import HistorySql
from noetl.runtime.aws.settings import CloudSettings


def database_address(settings: CloudSettings) -> str:
    """Return the connection string.

    Raises InfrastructureError when its secret cannot be read.
    """
    return settings.database_url or database_dsn(
        make_client("secretsmanager"), settings.database_secret, settings.database_host
    )


def history_sql(settings: CloudSettings) -> HistorySql | None:
    """Return the reader for SQL queries over history; None when no role may read it.

    Each query reads the role's secret.
    """
    if not settings.reader_secret:
        return None
    secrets = make_client("secretsmanager")
    host = settings.reader_host or settings.database_host
    return PostgresHistorySql(
        lambda: database_dsn(secrets, settings.reader_secret, host), apart=bool(settings.reader_host)
    )


def cloud_database(settings: CloudSettings) -> Database:
    """Make the database of a function, without connecting yet."""
    return Database(
        database_address(settings),
        pooled=settings.database_pooled,
        renewed=lambda: database_address(settings),
    )
