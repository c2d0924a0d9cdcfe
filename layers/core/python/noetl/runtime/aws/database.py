"""The database of a deployed function: where its secret says, found again when the secret changes."""

from __future__ import annotations

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.secrets import database_dsn
from noetl.adapters.postgres.connection import Database
from noetl.runtime.aws.settings import CloudSettings


def database_address(settings: CloudSettings) -> str:
    """The connection string. Raises InfrastructureError when its secret cannot be read."""
    return settings.database_url or database_dsn(
        make_client("secretsmanager"), settings.database_secret, settings.database_host
    )


def cloud_database(settings: CloudSettings) -> Database:
    """Connects to nothing yet."""
    return Database(
        database_address(settings),
        pooled=settings.database_pooled,
        renewed=lambda: database_address(settings),
    )
