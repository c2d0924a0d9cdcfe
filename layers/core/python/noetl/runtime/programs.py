"""Compiled programs by hash: an immutable cache in front of the catalog and the compiler."""

from __future__ import annotations

import threading
from pathlib import PurePath

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import NotFoundError
from noetl.domain.kinds import KindLookup
from noetl.domain.sizes.table import PLAYBOOK_BYTES
from noetl.dsl.program import Program
from noetl.ports.catalog import Catalog, CatalogEntry
from noetl.runtime.program_cache import CachedProgram, ProgramCache
from noetl.services.catalog.find_playbook import find_playbook


class Programs:
    """The programs of a process.

    ``programs(hash)`` returns a program, and ``resolve(path, version)`` its hash. ``register`` compiles and stores a playbook.
    """

    def __init__(
        self, catalog: Catalog, kinds: KindLookup, size: int = 256, cache: ProgramCache | None = None
    ) -> None:
        self.catalog = catalog
        self.cache = cache or ProgramCache(None, kinds)
        self.known: LruCache[str, Program] = LruCache(size, PLAYBOOK_BYTES.value)
        """By their size as text; compiled, they take up to a hundred times as much."""
        self.lock = threading.Lock()

    def __call__(self, program: str) -> Program:
        """Return a program. Raises NotFoundError(code="program_not_found")."""
        found = self.known.get(program)
        if found is not None:
            return found
        entry = self.catalog.by_program(program)
        if entry is None:
            raise NotFoundError(f"no playbook with program hash {program[:12]}…", code="program_not_found")
        return self.compile(entry.content, entry.source_name, program, entry.rewritten).program

    def compile(self, text: str, source_name: str, program: str = "", rewritten: str = "") -> CachedProgram:
        """Compile a playbook, as the earlier compilation ``program`` did, if given.

        ``program``: the hash of a program; ``rewritten``: what an older dialect was compiled as then. Raises InvalidPlaybookError with
        every diagnostic.

        A program whose file is on this machine stays known by that file when a client sends the same text: its tasks need its folder.
        """
        compiled = self.cache.compile(text, source_name, program, rewritten)
        with self.lock:
            known = self.known.get(compiled.program.hash)
            if (
                known is None
                or PurePath(source_name).is_absolute()
                or not PurePath(known.source_name).is_absolute()
            ):
                self.known.put(compiled.program.hash, compiled.program, len(text))
        return compiled

    def resolve(self, path: str, version: int | None) -> str:
        """Return the program's hash. Raises NotFoundError(code="playbook_not_found")."""
        entry = find_playbook(self.catalog, path, version)
        self(entry.program)
        return entry.program

    def register(self, text: str, *, source_name: str, path: str | None = None) -> CatalogEntry:
        """Compile and store a playbook. Raises InvalidPlaybookError.

        The same content at the same path keeps its version.
        """
        kept = self.compile(text, source_name)
        program = kept.program
        return self.catalog.register(
            path=path or program.path or program.name,
            name=program.name,
            program=program.hash,
            content=text,
            source_name=source_name,
            rewritten=kept.rewritten,
        )
