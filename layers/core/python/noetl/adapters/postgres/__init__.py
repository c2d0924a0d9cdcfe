"""Executions and playbooks in Postgres."""

from noetl.adapters.postgres.catalog import PostgresCatalog
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.executions.execution_store import PostgresExecutionStore
from noetl.adapters.postgres.migrations import migrate

__all__ = ["Database", "PostgresCatalog", "PostgresExecutionStore", "migrate"]
