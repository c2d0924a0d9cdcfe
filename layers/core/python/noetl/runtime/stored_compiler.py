"""The compiler for deployments that store compiled programs, loaded by the first call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.domain.kinds import KindLookup
from noetl.dsl.program import Program, encode
from noetl.ports.programs import ProgramStore

if TYPE_CHECKING:
    from noetl.runtime.program_cache import CachedProgram


class Compiler:
    def __init__(self, programs: ProgramStore) -> None:
        self._programs = programs

    def compile(self, text: str, source_name: str, program: str = "", rewritten: str = "") -> CachedProgram:
        """Compile a playbook, as the earlier compilation ``program`` did, if given.

        ``program``: the hash of a program; ``rewritten``: what an older dialect was compiled as then. Raises InvalidPlaybookError.
        """
        from noetl.runtime.program_cache import ProgramCache

        return ProgramCache(None, self.kinds()).compile(text, source_name, program, rewritten)

    @staticmethod
    def kinds() -> KindLookup:
        """Return the kinds that playbooks are compiled with."""
        from noetl.kinds.registry import default_registry

        return default_registry()

    def keep(self, program: Program) -> None:
        """Store a program. Raises InfrastructureError."""
        self._programs.put(program.hash, encode(program))
