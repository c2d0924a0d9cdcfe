"""Uploads, downloads, lists, deletes and composes at a server that plays Google Cloud Storage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.kinds.registry import default_registry
from tests.google_cloud import Google, google_cloud


@pytest.fixture
def google() -> Iterator[Google]:
    with google_cloud() as played:
        yield played


@pytest.fixture
def call(google, make_context):
    def call(data: dict[str, Any] | None = None, **params: Any) -> Any:
        given = (
            {"service_account": json.dumps(google.account), "endpoint": google.base} if data is None else data
        )
        context = make_context(
            credentials={"lake": Credential("lake", "gcs", given)},
            http_allow=("127.0.0.1",),
            output_max_bytes=1000,
        )
        return default_registry().run("gcs", {"auth": "lake", "bucket": "lake", **params}, context).result

    return call


def test_what_is_uploaded_is_downloaded_listed_composed_and_deleted(google, call):
    for number in range(5):
        made = call(
            action="upload",
            object=f"in/{number % 2}/ä {number}.jsonl",
            body=[{"n": number}],
            metadata={"by": "test"},
        )
        assert (made["size"], made["content_type"]) == (8, "application/x-ndjson")
    got = call(object="in/1/ä 1.jsonl")
    assert (got["body"], got["metadata"]) == ([{"n": 1}], {"by": "test"})
    found, token = [], None
    while True:
        page = call(action="list", prefix="in/", limit=3, token=token)
        found += [one["name"] for one in page["objects"]]
        if (token := page["next"]) is None:
            break
    assert found == sorted(name for _, name in google.objects) and len(found) == 5
    assert call(action="list", prefix="in/", delimiter="/")["prefixes"] == ["in/0/", "in/1/"]
    whole = call(action="compose", object="all.jsonl", sources=found[:3], content_type="application/x-ndjson")
    assert whole["size"] == 24
    assert [row["n"] for row in call(object="all.jsonl")["body"]] == [0, 2, 4]
    assert call(action="delete", object="all.jsonl") == {"deleted": 1}
    assert call(action="delete", object="all.jsonl") == {"deleted": 0}
    assert google.tokens == 1, "a token serves until it ends"


def test_a_token_may_be_given(google, call):
    google.tokens = 7
    given = {"access_token": "token-7", "endpoint": google.base}
    call(given, action="upload", object="a.txt", body="text")
    assert call(given, object="a.txt")["body"] == "text"


def failed(call: Any, data: dict[str, Any] | None = None, **params: Any) -> TaskError:
    with pytest.raises(TaskError) as caught:
        call(data, **params)
    assert "PRIVATE KEY" not in str(caught.value) + json.dumps(caught.value.details)
    return caught.value


@pytest.mark.parametrize(
    ("params", "kind", "code", "retryable"),
    [
        ({"object": "nowhere"}, "not_found", "notFound", False),
        ({"bucket": "elsewhere", "object": "a"}, "not_found", "notFound", False),
        (
            {"action": "upload", "object": "a.txt", "body": "b", "if_absent": True},
            "client_error",
            "object_exists",
            False,
        ),
        ({"object": "large.txt"}, "storage_quota", "object_too_large", False),
        ({"object": "a.txt", "format": "json"}, "parse", "object_format", False),
        ({"action": "compose", "object": "b"}, "schema", "kind_params", False),
        ({"action": "list", "object": "b"}, "schema", "kind_params", False),
    ],
)
def test_errors(call, google, params, kind, code, retryable):
    call(action="upload", object="a.txt", body="text")
    call(action="upload", object="large.txt", body="x" * 2000)
    error = failed(call, **params)
    assert (error.kind, error.code, error.retryable) == (kind, code, retryable)


def test_too_often_and_spoilt_on_the_way(call, google):
    google.busy = 1
    error = failed(call, object="a")
    assert (error.kind, error.code, error.retryable) == ("rate_limit", "rateLimitExceeded", True)
    google.corrupts = True
    error = failed(call, action="upload", object="a", body="text")
    assert (error.code, error.retryable) == ("object_changed", True)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"client_email": "nobody@lake"}, "token_refused"),
        ({"private_key": "no key"}, "credential_shape"),
        ({"private_key": None}, "credential_shape"),
    ],
)
def test_accounts_that_google_does_not_know(call, google, changes, code):
    account = google.account | {"endpoint": google.base} | changes
    error = failed(call, account, object="a")
    assert (error.kind, error.code) == ("auth", code)
