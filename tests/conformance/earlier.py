"""Programs that an earlier version of the compiler made: they keep the meaning with which they were compiled."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.adapters.memory.catalog import MemoryCatalog
from noetl.dsl.versions import program_hash
from noetl.runtime.programs import Programs
from noetl.testing import play_case
from noetl.testing.memory import MemoryBackend, real_worker
from noetl.testing.play_case import Cast, Observed, Scenario
from noetl.testing.scripted import ScriptedRegistry
from tests.conformance.cases import Case, sources_of


def play_with_meaning(case: Case, semantics: int, tools: Mapping[str, object] | None = None) -> Observed:
    """Play a case whose playbook was registered when programs had the meaning ``semantics``."""
    scenario = Scenario(sources_of(case), "playbook.yaml", case.spec.get("payload", {}))
    registry = ScriptedRegistry(case.spec.get("tools", {}) if tools is None else tools)
    catalog = MemoryCatalog()
    programs = Programs(catalog, registry)
    text = scenario.sources[scenario.main]
    stored = program_hash(text, semantics)
    catalog.register(path=case.name, name="t", program=stored, content=text, source_name=scenario.main)
    program = programs(stored)
    assert (program.hash, program.semantics) == (stored, semantics)
    backend = MemoryBackend()
    with real_worker(registry, backend, programs) as run:
        cast = Cast(program, programs, programs.resolve, registry, run)
        return play_case.perform(cast, scenario, backend, play_case.PICKS["forward"])
