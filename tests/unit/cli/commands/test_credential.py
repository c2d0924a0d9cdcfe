"""``noetl credential``: secrets go in, and come out only when that is asked for."""

from __future__ import annotations

import json

import pytest

SECRET = "canary-91b2-secret"
DATA = {"host": "db.example", "user": "etl", "password": SECRET}


@pytest.fixture
def kept(noetl, tmp_path):
    (tmp_path / "db.json").write_text(json.dumps(DATA))
    return noetl(
        "credential",
        "add",
        "team/db",
        "--type",
        "postgres",
        "-f",
        "db.json",
        "--description",
        "the warehouse",
    )


def test_a_credential_is_kept_shown_without_its_data_and_removed(noetl, kept):
    assert (kept.code, kept.out) == (0, "team/db is kept\n")
    header, line = noetl("credential", "list").out.splitlines()
    assert header.split() == ["CREDENTIAL", "TYPE", "VERSION", "CHANGED", "DESCRIPTION"]
    assert line.startswith("team/db     postgres  1 ") and line.endswith("the warehouse")
    (shown,) = noetl("credential", "show", "team/db", "--json").json
    assert (shown["type"], shown["version"], shown["description"]) == ("postgres", 1, "the warehouse")
    plain = noetl("credential", "show", shown["id"])
    assert SECRET not in plain.out + json.dumps(shown) and "team/db  postgres  version 1" in plain.out
    (whole,) = noetl("credential", "show", "team/db", "--reveal", "--json").json
    assert whole["data"] == DATA and SECRET in noetl("credential", "show", "team/db", "--reveal").out
    assert noetl("credential", "remove", "team/db").out == "team/db is removed\n"
    gone = noetl("credential", "show", "team/db")
    assert gone.code == 2 and "there is no credential 'team/db'" in gone.err
    assert "no credentials" in noetl("credential", "list").err


def test_it_is_replaced_from_stdin_and_single_fields_are_laid_over_it(noetl, kept):
    ran = noetl(
        *("credential", "add", "team/db", "-t", "postgres", "-f", "-", "--set", "port=0123", "--json"),
        stdin="{host: other, user: me}",
    )
    assert ran.json[0]["version"] == 2
    (shown,) = noetl("credential", "show", "team/db", "--reveal", "--json").json
    assert shown["data"] == {"host": "other", "user": "me", "port": "0123"}
    assert len(noetl("credential", "list", "--type", "bearer", "--json").json) == 0


@pytest.mark.parametrize(
    ("words", "stdin", "told"),
    [
        (("a", "-t", "generic"), "", "would hold nothing"),
        (("a", "-t", "postgresql"), "", "a postgres credential has dsn or"),
        (("a", "--set", f"k={SECRET}"), "", "types are postgres, basic"),
        (("a", "-t", "generic", "--set", SECRET), "", "not name=value"),
        (("a b", "-t", "generic", "--set", f"k={SECRET}"), "", "not a name for a credential"),
        (("a", "-t", "postgres", "--set", f"password={SECRET}"), "", "no `dsn`"),
        (("a", "-t", "generic", "-f", "-"), f"[{SECRET}]", "a mapping"),
        (("a", "-t", "generic", "-f", "-"), f'k: "{SECRET}', "<stdin>:"),
        (("a", "-t", "generic", "-f", "missing.json"), "", "cannot be read"),
    ],
)
def test_mistakes_are_explained_and_repeat_no_secret(noetl, words, stdin, told):
    ran = noetl("credential", "add", *words, stdin=stdin)
    assert ran.code == 2 and told in ran.err and SECRET not in ran.err + ran.out


def test_a_mistyped_name_is_recognised(noetl, kept):
    assert "did you mean 'team/db'?" in noetl("credential", "remove", "team/bd").err


def test_resealing_says_how_many(noetl, database, kept):
    before = database.credentials.store.get("team/db")
    assert noetl("credential", "reseal").out == "1 credential sealed with a new key\n"
    assert noetl("credential", "reseal", "--json").json == [{"resealed": 1, "unreadable": []}]
    after = database.credentials.store.get("team/db")
    assert (after.version, after.updated_at, database.credentials.cipher.rotations) == (
        1,
        before.updated_at,
        2,
    )
