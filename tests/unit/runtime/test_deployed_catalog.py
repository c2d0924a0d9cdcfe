"""What the catalog of a deployment refuses although it is a sound playbook."""

from __future__ import annotations

import pytest

from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.runtime.deployed_catalog import Registrar
from tests.doubles.programs import MemoryProgramStore
from tests.unit.services.worker.test_libraries_of_tasks import TEXT


class NoCatalog:
    """A catalog that a refused playbook never comes to."""


def test_a_playbook_with_libraries_is_refused_with_its_place_and_a_remedy() -> None:
    programs = MemoryProgramStore()
    registrar = Registrar(NoCatalog(), programs)
    with pytest.raises(InvalidPlaybookError) as refused:
        registrar.register(TEXT, source_name="t.yaml")
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.line, problem.column) == ("libraries-unavailable", 4, 35)
    assert "container" in (problem.hint or "")


def test_a_playbook_without_libraries_is_compiled() -> None:
    text = TEXT.partition("---")[0].replace("requirements: [colours]", "priority: 1")
    assert Registrar(NoCatalog(), MemoryProgramStore()).compile(text, "t.yaml").program.lock == ""
