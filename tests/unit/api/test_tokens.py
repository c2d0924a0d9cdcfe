"""Tokens over the API: shown once, with at most the maker's scopes, and for a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noetl.api.browser import tokens
from noetl.api.http.exchange import Principal, Request
from noetl.api.http.local_tokens import LocalTokens
from noetl.domain.errors import ConflictError, InvalidInputError
from tests.parts import over
from tests.unit.api.ground import Ground

DAY = 86_400


def made(ground: Ground, **body):
    return ground.ask("POST", "/api/tokens", {"name": "ci", "scopes": ["read"], **body})


def kept(ground: Ground) -> LocalTokens:
    assert ground.deps.tokens is not None
    return ground.deps.tokens


def test_a_token_is_shown_once_and_ends_by_itself(ground: Ground):
    reply = made(ground, expires_in=DAY)
    assert reply.status == 201 and reply.headers["Cache-Control"] == "no-store"
    token = reply.json["token"]
    assert not any(token in line for line in ground.logs)
    listed = ground.ask("GET", "/api/tokens")
    assert token not in listed.text
    (entry,) = listed.json["tokens"]
    assert (entry["name"], entry["scopes"], entry["expired"], entry["current"]) == (
        "ci",
        ["read"],
        False,
        False,
    )
    assert entry["expires_at"] == reply.json["expires_at"] and entry["made_by"]
    found = kept(ground).principal(token)
    assert found is not None and found.scopes == {"read"}
    ground.database.now += DAY
    assert kept(ground).principal(token) is None and kept(ground).of_account("token:ci") is None
    assert ground.ask("GET", "/api/tokens").json["tokens"][0]["expired"]
    assert ground.ask("DELETE", "/api/tokens/ci").json == {"name": "ci", "deleted": True}
    assert ground.ask("GET", "/api/tokens").json == {"kept": True, "tokens": []}


@over(
    ("body", "code"),
    [
        ({"name": ""}, "invalid_token_name"),
        ({"name": "a/b"}, "invalid_token_name"),
        ({"name": "n" * 65}, "invalid_token_name"),
        ({"name": "ci\n"}, "invalid_token_name"),
        ({"scopes": []}, "unknown_scope"),
        ({"expires_in": 0}, "invalid_token"),
        ({"expires_in": -1}, "invalid_token"),
        ({"expires_in": None}, "body_invalid"),
        ({"token": "mine"}, "body_invalid"),
    ],
    ground=Ground,
)
def test_what_is_no_token_is_refused(ground: Ground, body, code):
    reply = made(ground, **body)
    assert reply.status == 422 and reply.json["code"] == code and not kept(ground).entries()


def test_a_name_is_taken_once(ground: Ground):
    assert made(ground).status == 201
    reply = made(ground)
    assert reply.status == 422 and reply.json["code"] == "token_exists"
    assert ground.ask("DELETE", "/api/tokens/none").json["code"] == "token_not_found"


def test_nobody_makes_a_token_that_may_do_more_than_its_maker():
    ground = Ground(grants={"*": "admin"})
    reply = made(ground, scopes=["read", "worker"])
    assert reply.status == 403 and reply.json["details"] == {"scope": ["worker"]}
    assert made(ground, scopes=["nonsense"]).status == 403
    assert made(ground, scopes=["admin"]).status == 201
    viewer = Ground(grants={"*": "read execute write"})
    for method, path in (("GET", "/api/tokens"), ("POST", "/api/tokens"), ("DELETE", "/api/tokens/ci")):
        assert viewer.ask(method, path, {"name": "ci", "scopes": ["read"]}).status == 403


def test_the_callers_own_token_stays(ground: Ground):
    kept(ground).add("owner", ["admin"])
    account = "token:owner"
    principal = Principal(account, "local", account, frozenset({"admin"}))
    request = Request("DELETE", "/api/tokens/owner", params={"name": "owner"}, principal=principal)
    with pytest.raises(ConflictError) as caught:
        tokens.remove(ground.deps, request)
    assert caught.value.code == "token_in_use" and kept(ground).entries()


def test_a_token_with_which_the_server_would_not_start_is_not_made(ground: Ground):
    def refuse(name: str, scopes) -> None:
        raise InvalidInputError(f"{name} may {scopes}", code="code_unconfined")

    ground.deps = replace(ground.deps, permit_token=refuse)
    assert made(ground).json["code"] == "code_unconfined" and not kept(ground).entries()


def test_a_deployment_keeps_no_tokens(ground: Ground):
    ground.deps = replace(ground.deps, tokens=None)
    assert ground.ask("GET", "/api/tokens").json == {"kept": False, "tokens": []}
    assert made(ground).status == ground.ask("DELETE", "/api/tokens/ci").status == 404


def test_a_file_of_an_earlier_server_is_read(tmp_path):
    file = tmp_path / "tokens.json"
    tokens = LocalTokens(file)
    token = tokens.add("owner", ["admin"])
    digest = tokens.entries()[0].digest
    file.write_text(f'[{{"name": "owner", "scopes": ["admin"], "digest": "{digest}"}}]')
    (entry,) = LocalTokens(file).entries()
    assert (entry.made_at, entry.expires_at, entry.made_by) == (None, None, "")
    assert LocalTokens(file).principal(token) is not None
