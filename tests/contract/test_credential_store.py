"""Credentials and their cache: kept sealed, replaced with their copies, counted and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from noetl.adapters.embedded.cipher import FileCipher
from noetl.adapters.memory import MemoryExecutionStore
from noetl.domain.errors import ConflictError
from noetl.ports.credential_store import CachedCredential, CredentialAccess, CredentialStore, StoredCredential
from noetl.ports.new_ids import IdTakenError
from noetl.services.credentials.credentials import (
    CredentialDeps,
    CredentialRequest,
    Token,
    keep_credential,
    note_access,
)
from noetl.services.worker.worker_credentials import RegisteredFirst
from tests.contract.builders import EID, Make
from tests.doubles.credential_store import MemoryCredentialStore
from tests.virtual_time import DatabaseClock

BYTES = bytes(range(256))


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def made(request: pytest.FixtureRequest) -> Iterator[tuple[CredentialStore, Callable[[float], None]]]:
    if request.param == "memory":
        now = [1_800_000_000.0]

        def pass_by(seconds: float) -> None:
            now[0] += seconds

        yield MemoryCredentialStore(lambda: now[0]), pass_by
        return
    from noetl.adapters.postgres.credential_store import PostgresCredentialStore

    time: DatabaseClock = request.getfixturevalue("database_clock")
    store = PostgresCredentialStore(time.dsn)
    yield store, time.sleep
    store.close()


def credential(name: str, number: int, **over: Any) -> StoredCredential:
    return StoredCredential(number, name, **{"type": "postgres", "sealed": BYTES, "principal": "me", **over})


def row(key: str, name: str = "db", **over: Any) -> CachedCredential:
    values = {"type": "postgres", "cache_type": "secret", "scope": "global", "sealed": BYTES, **over}
    return CachedCredential(key, name, **values)


def test_a_credential_is_kept_replaced_listed_and_removed(made):
    store, pass_by = made
    first, fresh = store.put(credential("db", 7, meta={"tags": ["x"]}))
    assert fresh and (first.id, first.version, first.sealed, first.meta) == (7, 1, BYTES, {"tags": ["x"]})
    assert store.get("db") == first == store.get_by_id(7)
    pass_by(0.01)
    again, fresh = store.put(credential("db", 8, sealed=b"new", type="generic", principal="you"))
    assert not fresh and (again.id, again.version, again.created_at) == (7, 2, first.created_at)
    assert again.updated_at > first.updated_at and (again.sealed, again.type, again.principal) == (
        b"new",
        "generic",
        "you",
    )
    store.put(credential("api", 9))
    store.put(credential("Zed", 10))
    assert [one.name for one in store.entries(limit=10)] == ["Zed", "api", "db"]
    assert [one.name for one in store.entries(limit=1, after="Zed")] == ["api"]
    assert [one.name for one in store.entries(limit=10, type="generic")] == ["db"]
    assert (
        store.delete("db")
        and not store.delete("db")
        and store.get("db") is None
        and store.get_by_id(7) is None
    )


def test_a_cached_copy_is_counted_renewed_and_expires(made):
    store, pass_by = made
    store.put(credential("db", 7))
    assert store.cached("k") is None
    store.cache(row("k", expires_in=0.3, execution_id=12, parent_execution_id=3, scope="execution"))
    found = store.cached("k")
    assert (found.sealed, found.access_count, found.execution_id, found.parent_execution_id) == (
        BYTES,
        1,
        12,
        3,
    )
    assert 0 < found.expires_in <= 0.3
    assert store.cached("k", renew_seconds=3600.0).expires_in == pytest.approx(3600, abs=5)
    store.cache(row("k", sealed=b"fresh", expires_in=0.2))
    assert (store.cached("k").sealed, store.cached("k").access_count) == (b"fresh", 5)
    pass_by(0.25)
    assert store.cached("k") is None
    assert store.forget_expired() == 1 and store.forget_expired() == 0


def test_copies_go_with_what_they_are_copies_of(made):
    store, _ = made
    for name in ("replaced", "removed", "other"):
        store.put(credential(name, len(name)))
        store.cache(row(f"{name}:global", name))
    store.put(credential("replaced", 99))
    store.delete("removed")
    assert [store.cached(f"{name}:global") is None for name in ("replaced", "removed", "other")] == [
        True,
        True,
        False,
    ]
    for number in (1, 2):
        store.cache(row(f"e{number}", "other", execution_id=number, scope="execution"))
    assert store.forget_execution(1) == 1 and store.cached("e1") is None and store.cached("e2") is not None


def test_a_copy_of_what_was_replaced_or_removed_meanwhile_is_never_found(made):
    store, _ = made
    store.put(credential("db", 7))
    store.put(credential("db", 7, sealed=b"new"))
    store.cache(row("late", version=1))
    assert store.cached("late") is None, "somebody read version 1 before it was replaced"
    store.cache(row("good", version=2))
    assert store.cached("good") is not None
    store.delete("db")
    store.cache(row("gone", version=2))
    assert store.cached("good") is None and store.cached("gone") is None


def test_a_token_keeps_its_own_end(made):
    store, _ = made
    store.put(credential("db", 7))
    store.cache(row("t", cache_type="token", expires_in=30.0))
    assert store.cached("t", renew_seconds=3600.0).expires_in <= 30.0


def test_types_are_told_of_those_that_there_are(made):
    store, _ = made
    store.put(credential("db", 7))
    store.put(credential("x/y", 8, type="bearer"))
    assert store.types(["db", "x/y", "no"]) == {"db": "postgres", "x/y": "bearer"} and store.types([]) == {}


def test_only_the_version_that_was_read_is_sealed_again(made):
    store, _ = made
    first, _ = store.put(credential("db", 7))
    assert (
        store.reseal("db", 1, b"again")
        and not store.reseal("db", 2, b"x")
        and not store.reseal("no", 1, b"x")
    )
    assert store.get("db") == msgspec.structs.replace(first, sealed=b"again")


def test_what_was_done_is_told_newest_first_and_forgotten_late(made):
    store, pass_by = made
    for number, (name, action, execution_id) in enumerate(
        [("db", "kept", None), ("db", "read", 12), ("api", "read", 12), ("db", "read", 13)], start=1
    ):
        store.record(
            CredentialAccess(number, name, action, "me", execution_id, "start" if execution_id else "")
        )
    first = store.accesses(limit=10)[-1]
    assert (first.name, first.action, first.principal, first.execution_id, first.step) == (
        "db",
        "kept",
        "me",
        None,
        "",
    )
    assert first.at > 1_700_000_000
    assert [one.id for one in store.accesses(limit=2)] == [4, 3]
    assert [one.id for one in store.accesses(limit=2, before=3)] == [2, 1]
    assert [one.id for one in store.accesses(limit=9, name="db", execution_id=12)] == [2]
    pass_by(0.05)
    assert store.forget_accesses(3600.0) == 0
    assert store.forget_accesses(0.01, limit=3) == 3 and store.forget_accesses(0.01) == 1


@pytest.mark.parametrize("kind", ["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_copies_of_an_execution_go_with_its_terminal_event(kind, request):
    make, kept = Make(), MemoryCredentialStore()
    store: Any = MemoryExecutionStore(ended=kept.forget_execution)
    if kind == "postgres":
        from noetl.adapters.postgres import PostgresExecutionStore
        from noetl.adapters.postgres.credential_store import PostgresCredentialStore

        dsn = request.getfixturevalue("database")
        kept, store = PostgresCredentialStore(dsn), PostgresExecutionStore(dsn)
    kept.put(credential("db", 7))
    for number in (EID, EID + 1, None):
        kept.cache(row(f"db:{number}", execution_id=number))
    store.commit([make.change(), make.change(execution_id=EID + 1)])
    store.commit([make.change(1), make.change(1, execution_id=EID + 1, status="failed", end=True)])
    assert [kept.cached(f"db:{number}") is None for number in (EID, EID + 1, None)] == [False, True, False]
    if kind == "postgres":
        kept.close()
        store.close()


def test_an_id_that_is_taken_is_refused_and_another_is_drawn(made, tmp_path):
    """Of a credential, and of the record of who read one: two that are drawn in one millisecond may be the same."""
    store, _ = made
    store.put(credential("one", 7))
    with pytest.raises(IdTakenError):
        store.put(credential("two", 7))
    assert not store.put(credential("one", 7))[1], "it is replaced, and keeps its id"
    assert store.get("two") is None
    drawn = iter([7, 8, 5, 8, 6, 5, 9, 9, 10])
    deps = CredentialDeps(
        store, FileCipher(tmp_path / "key"), lambda name, data: Token("t", 60.0), lambda: next(drawn)
    )
    kept, fresh = keep_credential(CredentialRequest("db", "generic", {"k": "v"}), "me", deps)
    assert fresh and kept.id == "8", "7 is another's"
    other, fresh = keep_credential(CredentialRequest("api", "generic", {"k": "v"}), "me", deps)
    assert (other.id, fresh) == ("6", True)
    worker = RegisteredFirst(deps, None)  # type: ignore[arg-type]
    assert worker.get("db", 3).data == {"k": "v"}
    assert {one.id for one in store.accesses(limit=9)} == {5, 9, 10}
    with pytest.raises(ConflictError) as busy:
        note_access(replace(deps, new_id=lambda: 9), "db", "read", "me")
    assert busy.value.retryable
