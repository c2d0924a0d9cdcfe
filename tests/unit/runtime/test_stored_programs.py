"""Programs of a worker: read once, and never made up."""

from __future__ import annotations

import pytest

from noetl.adapters.memory.programs import MemoryProgramStore
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import encode
from noetl.kinds.registry import default_registry
from noetl.runtime.stored_programs import StoredPrograms


def compiled(name: str):
    text = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name} }}\nworkflow:\n  - step: a\n    tool: {{ kind: noop }}\n"
    return compile_playbook(text, source_name="t.yaml", kinds=default_registry()).program


class Counted(MemoryProgramStore):
    reads = 0

    def get(self, program):
        self.reads += 1
        return super().get(program)


def test_a_program_is_read_once_while_it_is_among_the_last_used():
    store, programs = Counted(), [compiled(name) for name in ("a", "b", "c")]
    for program in programs:
        store.put(program.hash, encode(program))
    find = StoredPrograms(store, size=2)
    a, b, c = (program.hash for program in programs)
    assert [find(one).name for one in (a, b, a, c, a, b)] == ["a", "b", "a", "c", "a", "b"]
    assert find(a) == programs[0]
    assert store.reads == 4, "b made room for c"


def test_a_program_that_is_not_there_may_come_and_is_asked_for_again():
    store, program = MemoryProgramStore(), compiled("late")
    find = StoredPrograms(store)
    with pytest.raises(InfrastructureError) as caught:
        find(program.hash)
    assert (caught.value.code, caught.value.retryable) == ("program_not_stored", True)
    store.put(program.hash, encode(program))
    assert find(program.hash) == program


def test_what_cannot_be_a_program():
    class Strict(MemoryProgramStore):
        def get(self, program):
            raise InvalidInputError("no hash")

    with pytest.raises(NotFoundError):
        StoredPrograms(Strict())("../secret")
    broken = MemoryProgramStore()
    broken.put("f" * 64, b'{"name": 1}')
    with pytest.raises(InfrastructureError, match="cannot be read"):
        StoredPrograms(broken)("f" * 64)
