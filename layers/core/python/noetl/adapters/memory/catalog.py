"""Playbooks in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from noetl.ports.catalog import CatalogEntry, PlaybookVersion, version_moved

_WORD = "playbook"
"""What a text that calls a playbook has, in small letters: the kind of the task."""


class MemoryCatalog:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._versions: dict[str, list[CatalogEntry]] = {}
        self._lock = threading.Lock()

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
        with self._lock:
            versions = self._versions.setdefault(path, [])
            if versions and versions[-1].content == content and versions[-1].program == program:
                versions[-1] = msgspec.structs.replace(versions[-1], source_name=source_name)
                return versions[-1]
            if if_version not in (None, len(versions)):
                raise version_moved(path, if_version, len(versions))
            entry = CatalogEntry(
                path=path,
                version=len(versions) + 1,
                name=name,
                program=program,
                content=content,
                source_name=source_name,
                created_at=self._clock(),
                rewritten=rewritten,
            )
            versions.append(entry)
            return entry

    def get(self, path: str, version: int | None = None) -> CatalogEntry | None:
        with self._lock:
            versions = self._versions.get(path, [])
            if version is None:
                return versions[-1] if versions else None
            return versions[version - 1] if 1 <= version <= len(versions) else None

    def find(self, wanted: Sequence[tuple[str, int | None]]) -> Sequence[PlaybookVersion | None]:
        found = [self.get(path, version) for path, version in wanted]
        return [None if one is None else PlaybookVersion(one.path, one.version, one.program) for one in found]

    def by_program(self, program: str) -> CatalogEntry | None:
        with self._lock:
            found = [
                entry
                for path in sorted(self._versions)
                for entry in reversed(self._versions[path])
                if entry.program == program
            ]
        return max(found, key=lambda one: (one.source_name.startswith("/"), one.created_at), default=None)

    def versions(self, path: str, *, limit: int, before: int | None = None) -> Sequence[CatalogEntry]:
        with self._lock:
            known = self._versions.get(path, [])
            past = len(known) if before is None else min(before - 1, len(known))
            return known[:past][::-1][:limit]

    def calling(self, path: str, *, limit: int) -> Sequence[PlaybookVersion]:
        with self._lock:
            latest = [self._versions[one][-1] for one in sorted(self._versions)]
        found = [one for one in latest if _WORD in one.content or _WORD in one.rewritten]
        found.sort(key=lambda one: path not in one.content and path not in one.rewritten)
        return [PlaybookVersion(one.path, one.version, one.program) for one in found[:limit]]

    def entries(self, *, limit: int, after: str = "") -> Sequence[CatalogEntry]:
        with self._lock:
            paths = sorted(path for path in self._versions if path > after)
            return [self._versions[path][-1] for path in paths[:limit]]
