"""Parts of each function with a database: store, catalog, bucket, keys, engine's queue."""

from __future__ import annotations

import time
from dataclasses import dataclass

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.frequent_calls import frequent_sqs
from noetl.adapters.aws.s3 import S3ProgramStore
from noetl.adapters.aws.secrets import SecretsCredentials
from noetl.adapters.aws.sqs import SqsQueue
from noetl.adapters.aws.task_logs import S3TaskLogs
from noetl.adapters.postgres.catalog import PostgresCatalog
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.credential_store import PostgresCredentialStore
from noetl.adapters.postgres.executions.execution_store import PostgresExecutionStore
from noetl.adapters.tiered import TieredResults
from noetl.runtime.authentic_programs import AuthenticPrograms
from noetl.runtime.aws.database import cloud_database
from noetl.runtime.aws.keys import CloudKeys
from noetl.runtime.aws.results import open_results
from noetl.runtime.aws.settings import CloudSettings
from noetl.services.messaging.send_events import EventSender
from noetl.services.worker.worker_credentials import KnownCredentials


@dataclass(frozen=True, slots=True)
class CloudParts:
    """The parts of a function, opened once per process.

    ``stored_programs``: compiled programs in the bucket, authenticated by the token key.
    """

    database: Database
    store: PostgresExecutionStore
    catalog: PostgresCatalog
    results: TieredResults
    stored_programs: AuthenticPrograms
    events: SqsQueue
    keys: CloudKeys

    def credential_names(self, prefix: str) -> KnownCredentials:
        """Return the names of registered credentials and of secrets below ``prefix``."""
        secrets = SecretsCredentials(prefix, make_client("secretsmanager"))
        return KnownCredentials(PostgresCredentialStore(self.database), secrets)

    def sender(self, who: str, limit: int) -> EventSender:
        """Make the sender that publishes as ``who``; ``limit``: bytes of a message."""
        return EventSender(self.store, self.events, self.results, self.keys, who, time.time, limit)


def task_logs(bucket: str) -> S3TaskLogs:
    """What tasks print lies beside the results of their execution."""
    return S3TaskLogs(bucket, make_client("s3"))


def open_parts(settings: CloudSettings) -> CloudParts:
    """Make the parts of a function, without connecting yet.

    Raises InfrastructureError when the database's secret cannot be read.
    """
    s3 = make_client("s3")
    database, keys = cloud_database(settings), CloudKeys(settings.token_secret)
    results = open_results(settings)
    return CloudParts(
        database=database,
        store=PostgresExecutionStore(database),
        catalog=PostgresCatalog(database),
        results=results,
        stored_programs=AuthenticPrograms(S3ProgramStore(settings.results_bucket, s3), keys),
        events=SqsQueue(settings.events_queue, frequent_sqs(), fifo=True, limit=settings.message_limit),
        keys=keys,
    )
