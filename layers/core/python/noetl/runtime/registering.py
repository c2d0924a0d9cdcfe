"""Registering playbooks where engine and workers read compiled programs from a store: the only deployed code that has the compiler."""

from __future__ import annotations

from collections.abc import Callable

from noetl.dsl.program import Program, encode
from noetl.ports.catalog import Catalog
from noetl.ports.programs import ProgramStore
from noetl.runtime.program_cache import Kept
from noetl.services.register_playbook import Registered, register_playbook


class Registrar:
    """``registered``: told of each playbook that is in the catalog now (its schedules are put in force)."""

    def __init__(
        self,
        catalog: Catalog,
        programs: ProgramStore,
        registered: Callable[[Program, str, int], None] = lambda program, path, version: None,
    ) -> None:
        self._catalog = catalog
        self._programs = programs
        self.registered = registered

    def compile(self, text: str, source_name: str) -> Kept:
        """Raises InvalidPlaybookError. The compiler is loaded by the first call."""
        from noetl.dsl.compiler import compile_cached
        from noetl.kinds.registry import default_registry

        compiled = compile_cached(text, source_name=source_name, kinds=default_registry())
        return Kept(compiled.program, compiled.diagnostics)

    def keep(self, program: Program) -> None:
        """Raises InfrastructureError."""
        self._programs.put(program.hash, encode(program))

    def register(self, text: str, *, source_name: str, path: str | None = None) -> Registered:
        """Raises InvalidPlaybookError, InvalidInputError, InfrastructureError."""
        done = register_playbook(
            text,
            source_name=source_name,
            path=path,
            catalog=self._catalog,
            compile=self.compile,
            keep=self.keep,
        )
        self.registered(done.program, done.entry.path, done.entry.version)
        return done
