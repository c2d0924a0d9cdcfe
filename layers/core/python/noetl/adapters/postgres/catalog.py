"""Playbooks in Postgres."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.literals import number, numbers, text, texts
from noetl.domain.errors import ConflictError
from noetl.ports.catalog import CatalogEntry, PlaybookVersion, version_moved
from noetl.ports.executions.execution_store import VersionConflictError

ATTEMPTS = 20

MAX_VERSION = 2**31 - 1


class PostgresCatalog:
    """``database``: a connection string, or a Database shared with other adapters."""

    def __init__(self, database: str | Database, *, pooled: bool = False) -> None:
        self._database = Database(database, pooled=pooled) if isinstance(database, str) else database

    def close(self) -> None:
        self._database.close()

    def register(
        self,
        *,
        path: str,
        name: str,
        program: str,
        content: str,
        source_name: str,
        rewritten: str = "",
        if_version: int | None = None,
    ) -> CatalogEntry:
        values: dict[str, bytes | None] = {
            "path": text(path),
            "name": text(name),
            "program": text(program),
            "content": text(content),
            "source_name": text(source_name),
            "rewritten": text(rewritten),
            "if_version": None if if_version is None else number(if_version),
        }
        for _ in range(ATTEMPTS):
            try:
                entry = _first(self._database.run("register_playbook", values))
            except VersionConflictError:
                continue
            if entry is None or (if_version is not None and entry.content != content):
                raise version_moved(path, if_version, 0 if entry is None else entry.version)
            return entry
        raise ConflictError(
            f"{path} is being registered by too many at once", code="catalog_busy", retryable=True
        )

    def get(self, path: str, version: int | None = None) -> CatalogEntry | None:
        if version is not None and version < 1:
            return None
        return _first(self._database.run("playbook", {"path": text(path), "version": number(version or 0)}))

    def find(self, wanted: Sequence[tuple[str, int | None]]) -> Sequence[PlaybookVersion | None]:
        paths = texts([path for path, _ in wanted])
        # Versions begin with 1, and 0 stands for the latest.
        versions = numbers(
            [0 if version is None else (version if version > 0 else -1) for _, version in wanted]
        )
        rows = self._database.run("playbook_programs", {"paths": paths, "versions": versions})
        return [_version(row) for row in rows]

    def by_program(self, program: str) -> CatalogEntry | None:
        return _first(self._database.run("playbook_by_program", {"program": text(program)}))

    def versions(self, path: str, *, limit: int, before: int | None = None) -> Sequence[CatalogEntry]:
        values = {"path": text(path), "before": number(before or MAX_VERSION), "limit": number(limit)}
        return [_entry(row) for row in self._database.run("playbook_versions", values)]

    def calling(self, path: str, *, limit: int) -> Sequence[PlaybookVersion]:
        values = {"path": text(path), "after": text(""), "limit": number(limit)}
        rows = self._database.run("playbooks_calling", values)
        return [found for row in rows if (found := _version(row)) is not None]

    def entries(self, *, limit: int, after: str = "") -> Sequence[CatalogEntry]:
        rows = self._database.run("list_playbooks", {"after": text(after), "limit": number(limit)})
        return [_entry(row) for row in rows]


def _version(row: Row) -> PlaybookVersion | None:
    path, version, program = (column or b"" for column in row)
    return PlaybookVersion(path.decode(), int(version), program.decode()) if version else None


def _first(rows: list[Row]) -> CatalogEntry | None:
    return _entry(rows[0]) if rows else None


def _entry(row: Row) -> CatalogEntry:
    path, version, name, program, content, source_name, created_at, rewritten = (
        column or b"" for column in row
    )
    return CatalogEntry(
        path=path.decode(),
        version=int(version),
        name=name.decode(),
        program=program.decode(),
        content=content.decode(),
        source_name=source_name.decode(),
        created_at=float(created_at),
        rewritten=rewritten.decode(),
    )
