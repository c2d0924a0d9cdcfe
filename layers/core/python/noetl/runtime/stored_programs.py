"""Compiled programs by hash from a store, for processes that must not load the compiler."""

from __future__ import annotations

from collections.abc import Callable

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.dsl.program import Program, decode
from noetl.ports.catalog import Catalog
from noetl.ports.programs import ProgramStore
from noetl.runtime.authentic_programs import NOT_AUTHENTIC, digest_of, not_authentic
from noetl.runtime.stored_compiler import Compiler
from noetl.services.catalog.find_playbook import by_program

KEPT = 256
"""Programs that stay in memory: they never change, so none is read twice."""
KEPT_BYTES = 8 * 1024 * 1024
"""Bytes that these may have as they are stored; in memory they take several times as much."""


class StoredPrograms:
    """A reader of stored programs, shared by the threads of a process.

    ``programs(hash)`` returns a Program.
    """

    def __init__(self, store: ProgramStore, size: int = KEPT) -> None:
        self._store = store
        self._known: LruCache[str, tuple[Program, str]] = LruCache(size, KEPT_BYTES)

    def __call__(self, program: str) -> Program:
        """Return a program.

        Raises NotFoundError for a text that is no hash of a program, and InfrastructureError when the program is not
        stored yet or the store is unreachable.
        """
        return self._find(program)[0]

    def digest(self, program: str) -> str:
        """Return the SHA-256 of the program's encoded form. Raises as a call does."""
        return self._find(program)[1]

    def exactly(self, program: str, digest: str) -> Program:
        """Return the program whose encoded form has this digest.

        An empty digest takes any form: a message of an earlier version does not state it. Raises as a call does, and
        InfrastructureError(code="program_not_authentic") for another program.
        """
        found = self._find(program)
        if digest and found[1] != digest:
            # The program may have been replaced since this process read it.
            found = self._read(program)
        if digest and found[1] != digest:
            raise not_authentic(
                program, f"its SHA-256 is {found[1][:12]}…, the command was issued for {digest[:12]}…"
            )
        return found[0]

    def _find(self, program: str) -> tuple[Program, str]:
        found = self._known.get(program)
        return self._read(program) if found is None else found

    def _read(self, program: str) -> tuple[Program, str]:
        try:
            data = self._store.get(program)
        except InvalidInputError as error:
            raise NotFoundError(error.message, code="program_not_found") from error
        if data is None:
            # The engine stores a program before it sends a message about it; an engine of another version may still have to.
            raise InfrastructureError(
                f"the program {program[:12]} is not in the store yet", code="program_not_stored"
            )
        try:
            found = decode(data), digest_of(data)
        except ValueError as error:
            raise InfrastructureError(
                f"the stored program {program[:12]} cannot be read: {error}", code="program_unreadable"
            ) from error
        self._known.put(program, found, len(data))
        return found


class Programs:
    """A reader of stored programs that can compile them.

    ``programs(hash)`` returns a Program from the store, or compiles it: an earlier version may have stored it in a form
    of its own.
    """

    def __init__(
        self,
        stored: StoredPrograms,
        catalog: Catalog,
        compiler: Compiler,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._stored = stored
        self._catalog = catalog
        self._compiler = compiler
        self._log = log

    def __call__(self, program: str) -> Program:
        """Return a program. Raises NotFoundError(code="program_not_found"), InfrastructureError."""
        try:
            return self._stored(program)
        except InfrastructureError as error:
            if error.code not in ("program_not_stored", "program_unreadable", NOT_AUTHENTIC):
                raise
            if error.code == NOT_AUTHENTIC:
                self._log(f"{error.message}; its playbook is compiled again")
        entry = by_program(self._catalog, program)
        compiled = self._compiler.compile(entry.content, entry.source_name, program, entry.rewritten).program
        self._compiler.keep(compiled)
        return compiled

    def digest(self, program: str) -> str:
        """Return the SHA-256 of the stored form; empty if another version compiled it.

        Workers find that form in the store. Raises as a call does.
        """
        self(program)
        try:
            return self._stored.digest(program)
        except InfrastructureError as error:
            if error.code not in ("program_not_stored", "program_unreadable", NOT_AUTHENTIC):
                raise
            return ""
