"""Credentials: sealed where they are kept, read from the cache first, exchanged where their type says so."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from noetl.adapters.embedded.cipher import FileCipher
from noetl.adapters.embedded.credentials import FileCredentials
from noetl.domain.errors import InvalidInputError, NoetlError, NotFoundError, TaskError
from noetl.services.credentials.credentials import (
    CredentialDeps,
    CredentialRequest,
    Token,
    find_credential,
    forget_old,
    keep_credential,
    list_credentials,
    read_credential,
    remove_credential,
    reseal,
)
from noetl.services.credentials.oauth_tokens import make_exchange
from noetl.services.worker.worker_credentials import RegisteredFirst
from tests.doubles.credential_store import MemoryCredentialStore

SECRET = "canary-7f3a-secret"
DATABASE = {"host": "db.example", "user": "etl", "password": SECRET}
CLIENT = {"token_url": "https://auth.example/token", "client_id": "me", "client_secret": SECRET}


class Counting:
    """A cipher that counts."""

    def __init__(self, path: Path) -> None:
        self.inner, self.opened = FileCipher(path), 0

    def encrypt(self, plain: bytes, context: Any) -> bytes:
        return self.inner.encrypt(plain, context)

    def decrypt(self, sealed: bytes, context: Any) -> bytes:
        self.opened += 1
        return self.inner.decrypt(sealed, context)


@pytest.fixture
def now() -> list[float]:
    return [1_800_000_000.0]


@pytest.fixture
def deps(tmp_path: Path, now: list[float]) -> CredentialDeps:
    numbers = itertools.count(100)
    asked: list[str] = []

    def exchange(name: str, data: Any) -> Token:
        assert data["client_secret"] == SECRET
        asked.append(name)
        return Token(f"token-{len(asked)}", 600.0)

    return CredentialDeps(
        MemoryCredentialStore(lambda: now[0]), Counting(tmp_path / "key"), exchange, lambda: next(numbers)
    )


def test_what_is_kept_is_sealed_and_shown_without_its_data(deps):
    made, fresh = keep_credential(
        CredentialRequest("db", "postgres", DATABASE, "the warehouse", ["prod"]), "me", deps
    )
    assert fresh and (made.description, made.tags, made.created_by) == ("the warehouse", ["prod"], "me")
    assert SECRET.encode() not in deps.store.get("db").sealed
    assert SECRET not in repr([made, *list_credentials(deps, limit=10)])
    assert find_credential(made.id, deps).name == "db"
    assert read_credential("db", deps).data == DATABASE
    again, fresh = keep_credential(CredentialRequest("db", "postgres", {**DATABASE, "user": "x"}), "me", deps)
    assert not fresh and (again.id, again.version) == (made.id, 2)
    assert read_credential("db", deps).data["user"] == "x", "the cached copy went with the old data"
    remove_credential("db", "me", deps)
    with pytest.raises(NotFoundError):
        read_credential("db", deps)


@pytest.mark.parametrize(
    ("name", "kind", "data", "told"),
    [
        ("", "generic", {"a": 1}, "not a name"),
        ("a b", "generic", {"a": 1}, "not a name"),
        ("x", "generic", {}, "holds nothing"),
        ("x", "postgres", {"user": "u", "password": SECRET}, "no `dsn`"),
        ("x", "http_basic", {"username": "u"}, "no `password`"),
        ("x", "bearer", {"tokn": SECRET}, "no `token`"),
        ("x", "oauth2", {**CLIENT, "client_secret": ""}, "no `client_secret`"),
        ("x", "snowflake", {"account": "a", "user": "u"}, "no `private_key`"),
        ("x", "generic", {"a": "x" * 70_000}, "bytes"),
        ("x", "postgress", {"host": "h", "password": SECRET}, "the unknown type 'postgress'"),
        ("x", "postgres", {"host": "h", "user": "u", "pasword": SECRET}, "did you mean `password`?"),
        ("x", "postgres", {"host": "h", "port": "many", "password": SECRET}, "a `port` that is none"),
        ("x", "bearer", {"token": SECRET + "\n"}, "around its `token`"),
        ("x", "bearer", {"token": {"a": SECRET}}, "a `token` that is no text"),
        ("x", "header", {"header": "X Key", "value": SECRET}, "no name of a header"),
        ("x", "oauth2", {**CLIENT, "token_url": "auth.example"}, "no address"),
        ("x", "aws", {"access_key_id": "AKIA", "region": "x"}, "without `secret_access_key`"),
        ("x", "aws", {"role_arn": "role/me"}, "begin with arn:"),
        ("x", "gcs", {"service_account": {"private_key": SECRET}}, "`client_email`"),
    ],
)
def test_what_could_not_be_used_is_not_kept_and_never_told(deps, name, kind, data, told):
    with pytest.raises(InvalidInputError) as refused:
        keep_credential(CredentialRequest(name, kind, data), "me", deps)
    assert told in refused.value.message and SECRET not in str(refused.value)


def test_a_row_moved_to_another_name_does_not_open(deps):
    keep_credential(CredentialRequest("db", "postgres", DATABASE), "me", deps)
    stolen = replace_struct(deps.store.get("db"), name="mine", id=99)
    deps.store.put(stolen)
    with pytest.raises(NoetlError) as refused:
        read_credential("mine", deps)
    assert refused.value.code == "credential_unreadable" and "noetl credential add mine" in str(
        refused.value.hint
    )


def test_a_cached_copy_moved_to_another_key_does_not_open(deps):
    for name in ("mine", "theirs"):
        keep_credential(CredentialRequest(name, "generic", {"k": f"{SECRET}-{name}"}), "me", deps)
        read_credential(name, deps, execution_id=7)
    stolen = deps.store.cached("theirs:7")
    for key, name in (("mine:7", "mine"), ("theirs:8", "theirs"), ("mine:global", "mine")):
        deps.store.cache(replace_struct(stolen, key=key, name=name))
    assert read_credential("mine", deps, execution_id=7).data == {"k": f"{SECRET}-mine"}
    assert read_credential("mine", deps).data == {"k": f"{SECRET}-mine"}
    opened = deps.cipher.opened
    assert read_credential("theirs", deps, execution_id=8).data == {"k": f"{SECRET}-theirs"}
    assert deps.cipher.opened == opened + 2, "the copy did not open, so the credential was opened itself"


def test_a_rotation_that_dies_and_one_that_meets_a_damaged_row_lose_nothing(deps, tmp_path):
    cipher = FileCipher(tmp_path / "keys")
    rotating = replace(deps, cipher=cipher, rotation=cipher.rotation)
    for name in ("a", "b", "c"):
        keep_credential(CredentialRequest(name, "generic", {"k": SECRET + name}), "me", rotating)
    real, seals = cipher.encrypt, itertools.count()

    def dying(plain: bytes, context: Any) -> bytes:
        if next(seals) == 1:
            raise KeyboardInterrupt
        return real(plain, context)

    cipher.encrypt = dying
    with pytest.raises(KeyboardInterrupt):
        reseal("me", rotating)
    cipher.encrypt = real
    again = replace(rotating, cipher=FileCipher(tmp_path / "keys"))
    assert [read_credential(name, again).data["k"] for name in "abc"] == [SECRET + name for name in "abc"]
    damaged = deps.store.get("b")
    deps.store.reseal("b", damaged.version, damaged.sealed[:-1] + bytes([damaged.sealed[-1] ^ 1]))
    done = reseal("me", rotating)
    assert (done.resealed, done.unreadable) == (2, ["b"])
    assert len((tmp_path / "keys").read_bytes()) == 2 * 32, "the new key, and the one before"
    with pytest.raises(InvalidInputError) as refused:
        read_credential("b", rotating, execution_id=9)
    assert refused.value.code == "credential_unreadable" and SECRET not in str(refused.value)
    deps.store.put(damaged)
    assert read_credential("a", replace(again, cipher=FileCipher(tmp_path / "keys"))).data == {
        "k": SECRET + "a"
    }


def test_who_did_what_is_recorded(deps, now):
    keep_credential(CredentialRequest("db", "postgres", DATABASE), "alice", deps)
    keep_credential(CredentialRequest("db", "postgres", DATABASE), "bob", deps)
    worker = RegisteredFirst(deps, FileCredentials(None))
    for execution_id in (7, 7, 8):
        worker.get("db", execution_id)
    reseal("carol", deps)
    remove_credential("db", "dave", deps)
    found = [
        (one.action, one.principal, one.execution_id) for one in deps.store.accesses(limit=10, name="db")
    ]
    assert found == [
        ("removed", "dave", None),
        ("resealed", "carol", None),
        ("read", "worker", 8),
        ("read", "worker", 7),
        ("replaced", "bob", None),
        ("kept", "alice", None),
    ]
    now[0] += 401 * 86_400
    assert forget_old(deps.store) >= 6 and list(deps.store.accesses(limit=10)) == []


def test_a_name_that_is_not_there_tells_which_are_registered(deps):
    worker = RegisteredFirst(deps, FileCredentials(None))
    with pytest.raises(TaskError) as alone:
        worker.get("gone", 7)
    assert alone.value.message == "there is no credential 'gone'"
    keep_credential(CredentialRequest("db", "postgres", DATABASE), "me", deps)
    with pytest.raises(TaskError) as caught:
        worker.get("gone", 7)
    assert caught.value.message == "there is no credential 'gone'; registered: db"
    for number in range(20):
        keep_credential(CredentialRequest(f"e{number:02}", "postgres", DATABASE), "me", deps)
    with pytest.raises(TaskError, match=r"registered: db, e00, .*e18 …"):
        worker.get("gone", 7)


def replace_struct(value: Any, **over: Any) -> Any:
    from msgspec.structs import replace as replaced

    return replaced(value, **over)


def test_reading_asks_the_cache_first_by_execution_or_for_all(deps, now):
    keep_credential(CredentialRequest("db", "postgres", DATABASE), "me", deps)
    for _ in range(3):
        read_credential("db", deps, execution_id=12, parent_execution_id=3)
    row = deps.store.cached("db:12")
    assert (row.scope, row.execution_id, row.parent_execution_id, row.access_count) == ("execution", 12, 3, 3)
    assert deps.store.cached("db:global") is None and SECRET.encode() not in row.sealed
    read_credential("db", deps)
    assert deps.store.cached("db:global").scope == "global"
    deps.store.forget_execution(12)
    assert deps.store.cached("db:12") is None
    now[0] += 3601
    assert deps.store.cached("db:global") is None


def test_a_client_secret_stays_and_its_token_is_used_until_it_is_old(deps, now):
    keep_credential(CredentialRequest("api", "oauth2_client_credentials", CLIENT), "me", deps)
    first = read_credential("api", deps, execution_id=1)
    assert (first.type, first.data) == ("bearer", {"token": "token-1"})
    now[0] += 500
    assert read_credential("api", deps, execution_id=1).data == {"token": "token-1"}
    assert deps.store.cached("api:1").cache_type == "token"
    now[0] += 50
    assert read_credential("api", deps, execution_id=1).data == {"token": "token-2"}, "60 s before it expires"


def test_everything_is_sealed_again_with_the_new_key(deps, tmp_path):
    for name in ("a", "b"):
        keep_credential(CredentialRequest(name, "generic", {"k": SECRET}), "me", deps)

    class Rotating(Counting):
        def decrypt(self, sealed: bytes, context: Any) -> bytes:
            try:
                return super().decrypt(sealed, context)
            except InvalidInputError:
                return deps.cipher.decrypt(sealed, context)

    after = replace(deps, cipher=Rotating(tmp_path / "new"))
    after.cipher.encrypt(b"", {})
    assert reseal("me", after).resealed == 2
    assert read_credential("b", replace(deps, cipher=Counting(tmp_path / "new"))).data == {"k": SECRET}


# --- the authorisation server -----------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any], list[tuple[int, str]]]]:
    seen: list[Any] = []
    replies: list[tuple[int, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            seen.append((self.headers.get("authorization"), parse_qs(body)))
            status, text = replies.pop(0)
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words: Any) -> None:
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}/token", seen, replies
    made.shutdown()
    thread.join()
    made.server_close()


def test_the_exchange_follows_the_standard(server):
    url, seen, replies = server
    exchange = make_exchange(("127.0.0.1",))
    replies += [(200, json.dumps({"access_token": "t1", "expires_in": 120})), (200, '{"access_token": "t2"}')]
    data = {**CLIENT, "token_url": url, "client_id": "a:b", "scope": "read write", "audience": "x"}
    assert exchange("api", data) == Token("t1", 120.0)
    header, form = seen[0]
    assert header.startswith("Basic ") and SECRET not in str(form)
    assert form == {"grant_type": ["client_credentials"], "scope": ["read write"], "audience": ["x"]}
    assert exchange("api", {**data, "client_auth": "body"}) == Token("t2", 3600.0)
    header, form = seen[1]
    assert header is None and form["client_id"] == ["a:b"] and form["client_secret"] == [SECRET]


@pytest.mark.parametrize(
    ("status", "text", "kind", "retryable"),
    [
        (401, '{"error": "invalid_client"}', "auth", False),
        (400, "no json", "auth", False),
        (200, '{"token": "x"}', "auth", False),
        (503, "", "server_error", True),
        (302, "", "auth", False),
    ],
)
def test_a_refusal_says_what_to_check_and_not_the_secret(server, status, text, kind, retryable):
    url, _, replies = server
    replies.append((status, text))
    with pytest.raises(TaskError) as refused:
        make_exchange(("127.0.0.1",))("api", {**CLIENT, "token_url": url})
    assert (refused.value.kind, refused.value.retryable, refused.value.code) == (
        kind,
        retryable,
        "token_refused",
    )
    assert str(status) in refused.value.message and SECRET not in str(refused.value)
