"""The retention rules, with the settings of this process."""

from __future__ import annotations

import time
from collections.abc import Callable

from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.executions.execution_store import PostgresExecutionStore
from noetl.adapters.postgres.executions.retention import PostgresRetention
from noetl.domain.errors import InfrastructureError
from noetl.ports.credential_store import CredentialStore
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.results import ResultStore
from noetl.ports.task_logs import TaskLogs
from noetl.services.credentials.credentials import forget_old
from noetl.services.results.prune import KEY_SECONDS, PruneDeps, RetentionDays, keep_to
from noetl.services.support.store_time import store_clock

ROUND_SECONDS = 5.0
"""Longest that one look of the keeper removes: what is left goes at the next."""


def prune_deps(database: Database, results: ResultStore, logs: TaskLogs, days: RetentionDays) -> PruneDeps:
    clock = store_clock(PostgresExecutionStore(database).load)
    return PruneDeps(PostgresRetention(database), results, logs, clock, days)


def for_seconds(seconds: float) -> Callable[[], bool]:
    """Return a function that is true for so many seconds."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until


def tidy(
    store: ExecutionStore, credentials: CredentialStore, deps: PruneDeps, log: Callable[[str], None]
) -> None:
    """Remove what is past its retention, as a chore of a local process's keeper.

    Raises InfrastructureError.
    """
    forget_old(credentials)
    store.forget_keys(KEY_SECONDS)
    removed = keep_to(deps, for_seconds(ROUND_SECONDS), log)
    if removed.executions:
        days = deps.days.executions
        # Executions are kept without end, but a removal that a person began was interrupted.
        why = "their removal had begun" if days is None else f"they ended more than {days:g} days ago"
        log(f"{removed.executions} executions are gone: {why}")


def tidy_deployment(
    credentials: CredentialStore,
    deps: PruneDeps,
    more_time: Callable[[], bool],
    log: Callable[[str], None],
) -> int:
    """Remove what is past its retention, at the end of a tick of maintenance.

    Return how many executions were removed. What fails now is left to the next tick.
    """
    try:
        forget_old(credentials)
        return keep_to(deps, more_time, log).executions
    except InfrastructureError as outage:
        log(f"what has served its time is removed later: {outage}")
        return 0
