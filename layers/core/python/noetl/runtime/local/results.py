"""The tiers of results of a local process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.results import PostgresResultStore
from noetl.adapters.tiered import TieredResults
from noetl.ports.results import ResultStore
from noetl.runtime.storage import bucket_tier, default_tier, outside_tiers
from noetl.runtime.storage_settings import StorageSettings


def local_results(
    storage: StorageSettings,
    home: Path,
    database: Database,
    *,
    shared: bool,
    allow: tuple[str, ...] = (),
    log: Callable[[str], None] = lambda line: None,
) -> TieredResults:
    """Make the tiers of results of a process on a user's machine.

    ``shared``: other machines use the same database, so a result has to be where they reach it before they hear of it.
    ``allow``: internal hosts that the tier gcs may reach.

    Raises InvalidInputError(code="setting_invalid"), InfrastructureError.
    """
    tiers: dict[str, ResultStore] = {
        "file": FileResultStore(home / "results"),
        "memory": MemoryResultStore(storage.memory_bytes),
        "kv": PostgresResultStore(database, "kv"),
        "db": PostgresResultStore(database, "db"),
        **outside_tiers(storage, allow),
    }
    if storage.s3_bucket:
        tiers["s3"] = bucket_tier(storage.s3_bucket)
    folder = storage.cache_dir or (str(home / "cache" / "results") if storage.cloud_tier else "")
    waits = storage.spill == "sync" or (shared and storage.spill != "async")
    default = default_tier(storage, tiers, "file", folder, waits=waits, log=log)
    return TieredResults(tiers, default, log, auto=storage.kv_auto_bytes)
