"""Programs of a worker: read once, and never made up."""

from __future__ import annotations

import pytest

from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import decode, encode
from noetl.dsl.versions import program_hash
from noetl.kinds.registry import default_registry
from noetl.ports.catalog import CatalogEntry
from noetl.runtime.authentic_programs import AuthenticPrograms, digest_of
from noetl.runtime.stored_compiler import Compiler
from noetl.runtime.stored_programs import Programs, StoredPrograms
from tests.doubles.programs import MemoryProgramStore


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


OLD, NEW = "the key before this one", "the key of this moment"


class One:
    """A catalog that holds this playbook."""

    def __init__(self, text: str, program: str) -> None:
        self.entry = CatalogEntry("t", 1, "t", program, text, "t.yaml")

    def by_program(self, program):
        return self.entry if program == self.entry.program else None


TEXT = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\nworkflow:\n  - step: a\n    tool: { kind: noop }\n"


def test_an_object_that_nobody_with_a_key_kept_is_compiled_again_and_replaced():
    bucket = MemoryProgramStore()
    ring = [KeyRing.of([OLD])]
    store = AuthenticPrograms(bucket, lambda fresh: ring[0])
    program = compile_playbook(TEXT, source_name="t.yaml", kinds=default_registry()).program
    Compiler(store).keep(program)
    honest = bucket.read(program.hash)
    assert decode(store.get(program.hash)) == program
    changed = honest[0].replace(b'"a"', b'"z"')
    other = compiled("other")
    Compiler(store).keep(other)
    for forged in (
        (changed, honest[1]),
        (changed, ""),
        (changed, "no token"),
        bucket.read(other.hash),
    ):
        bucket.write(program.hash, *forged, replace=True)
        with pytest.raises(InfrastructureError, match=program.hash[:12]) as caught:
            StoredPrograms(store)(program.hash)
        assert caught.value.code == "program_not_authentic" and "changed" in caught.value.hint
        lines: list[str] = []
        programs = Programs(StoredPrograms(store), One(TEXT, program.hash), Compiler(store), lines.append)
        assert programs(program.hash) == program
        assert len(lines) == 1 and "is refused" in lines[0]
        assert bucket.read(program.hash) == honest, "workers find the honest one again"
        assert programs.digest(program.hash) == digest_of(honest[0])
    ring[0] = KeyRing.of([NEW, OLD])
    assert store.get(program.hash) == honest[0], "a rotation breaks nothing"


def test_a_worker_takes_the_program_its_command_was_issued_for_and_no_other():
    bucket, program = MemoryProgramStore(), compiled("exact")
    data = encode(program)
    bucket.put(program.hash, data)
    worker = StoredPrograms(bucket)
    assert worker.exactly(program.hash, digest_of(data)) == program
    changed = data.replace(b'"a"', b'"z"')
    bucket.write(program.hash, changed, "", replace=True)
    for fresh in (worker, StoredPrograms(bucket)):
        if fresh is worker:
            assert fresh.exactly(program.hash, digest_of(data)) == program, (
                "what it has read was the right one"
            )
            continue
        with pytest.raises(InfrastructureError, match="the command was issued for") as caught:
            fresh.exactly(program.hash, digest_of(data))
        assert caught.value.code == "program_not_authentic" and caught.value.retryable
        bucket.write(program.hash, data, "", replace=True)
        assert fresh.exactly(program.hash, digest_of(data)) == program, "it was replaced meanwhile"
    assert worker.exactly(program.hash, "") == program, "of an earlier version, which says no digest"


def test_a_program_of_an_earlier_meaning_is_compiled_to_that_meaning_again():
    store, old = MemoryProgramStore(), program_hash(TEXT, 1)
    programs = Programs(StoredPrograms(store), One(TEXT, old), Compiler(store))
    assert (programs(old).hash, programs(old).semantics) == (old, 1)
    assert decode(store.get(old)).semantics == 1, "workers find it under its own hash"
