"""Places of cached task results in Postgres: the table ``task_cache``."""

from __future__ import annotations

from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.literals import number, text
from noetl.domain import codec
from noetl.ports.task_cache import CachedResult, stored_entry


class PostgresTaskCache:
    """``database``: shared with other adapters. Each method is one round trip."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, key: str) -> CachedResult | None:
        rows = self._database.run("cached_result", {"key": text(key)})
        return stored_entry(rows[0][0] or b"") if rows else None

    def put(self, entry: CachedResult) -> None:
        self._database.run(
            "keep_cached_result",
            {
                "key": text(entry.key),
                "entry": codec.encode(entry),
                "at": number(entry.at),
                "until": number(entry.until),
            },
        )
