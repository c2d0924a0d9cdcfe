"""Answers in pages: every usual shape, what ends them, what goes wrong on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential, TaskContext
from noetl.kinds.registry import default_registry
from noetl.services.results.artifacts import TaskArtifacts

ALLOW = ("127.0.0.1",)
ROWS = [{"id": number} for number in range(7)]


def read(context: TaskContext, **params: Any) -> dict[str, Any]:
    return default_registry().run("http", params, context).result


def reply(handler: Any, value: Any, status: int = 200, **headers: str) -> None:
    body = json.dumps(value).encode()
    handler.send_response(status)
    for name, text in {"Content-Type": "application/json", **headers}.items():
        handler.send_header(name.replace("_", "-"), text)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def results() -> MemoryResultStore:
    return MemoryResultStore()


@pytest.fixture
def context(make_context, results) -> TaskContext:
    made = make_context(http_allow=ALLOW, credentials={"c": Credential("c", "bearer", {"token": "t0ken"})})
    return replace(made, artifacts=TaskArtifacts(results, 1, "step", max_bytes=10_000))


@pytest.fixture
def rows(web):
    """The same seven rows in every shape: three, three, one."""

    def answer(handler: Any) -> None:
        parts = urlsplit(handler.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if handler.command == "POST":
            asked |= {name: str(value) for name, value in json.loads(web.received[-1].body).items()}
        start = int(asked.get("offset", 0)) or 3 * (int(asked.get("page", 1)) - 1)
        if "cursor" in asked:
            start = int(asked["cursor"].removeprefix("after-"))
        part, more = ROWS[start : start + 3], start + 3 < len(ROWS)
        following = f"/rows?cursor=after-{start + 3}"
        body = {
            "data": {"rows": part},
            "more": more,
            "last": not more,
            "cursor": f"after-{start + 3}" if more else None,
            "next": following if more else "",
        }
        link = (
            f'</first>; rel="first", <{following}>; title="a, b"; rel="last next"'
            if more
            else "</first>; rel=first"
        )
        reply(handler, body, Link=link)

    web.answers["/rows"] = answer
    return web


@pytest.mark.parametrize(
    ("paginate", "requests"),
    [
        ({"by": "page", "size": 3}, 3),
        ({"by": "page"}, 4),
        ({"by": "page", "more": "$.more"}, 3),
        ({"by": "page", "until": "last", "start": 1}, 3),
        ({"by": "offset", "size": 3}, 3),
        ({"by": "offset", "param": "offset"}, 4),
        ({"by": "cursor", "next": "$.cursor"}, 3),
        ({"by": "url", "next": "$.next"}, 3),
        ({"by": "link"}, 3),
    ],
    ids=str,
)
def test_every_shape_is_read_to_its_end(rows, context, paginate, requests):
    found = read(
        context, url=f"{rows.base}/rows", params={"kind": "x"}, paginate={"items": "$.data.rows", **paginate}
    )
    assert found["data"] == ROWS
    assert (found["count"], found["pages"], found["more"]) == (7, requests, False)
    assert len(rows.received) == requests
    assert all("kind=x" in one.path for one in rows.received) or paginate["by"] in ("url", "link")
    keys = [one.headers["idempotency-key"] for one in rows.received]
    assert len(set(keys)) == requests and keys[0] == "1/step/task", "each page is a request of its own"


@pytest.mark.parametrize(
    ("query", "paginate", "asked"),
    [
        ("?page=1&kind=x", {"by": "page", "size": 3}, ["1", "2", "3"]),
        ("?kind=x&pa%67e=2", {"by": "page", "size": 3}, ["2", "3"]),
        ("?page=2", {"by": "page", "size": 3, "start": 3}, ["3"]),
        ("?offset=3", {"by": "offset", "size": 3}, ["3", "6"]),
        ("?cursor=after-3", {"by": "cursor", "next": "$.cursor"}, ["after-3", "after-6"]),
    ],
)
def test_a_place_in_the_address_is_where_it_begins_and_is_sent_once(rows, context, query, paginate, asked):
    read(context, url=f"{rows.base}/rows{query}", paginate={"items": "$.data.rows", **paginate})
    sent = [parse_qs(urlsplit(one.path).query)[paginate["by"]] for one in rows.received]
    assert sent == [[one] for one in asked]


def test_nothing_at_all_is_a_page_without_items(rows, context):
    rows.answers["/rows"] = (204, {}, b"")
    for by in ({"by": "page"}, {"by": "cursor", "next": "$.next", "items": "$.rows"}, {"by": "link"}):
        found = read(context, url=f"{rows.base}/rows", paginate=by)
        assert (found["data"], found["pages"], found["more"]) == ([], 1, False)


def test_pages_without_an_end_are_told_as_that(rows, context):
    rows.answers["/rows"] = lambda handler: reply(handler, {"rows": [1]})
    with pytest.raises(TaskError) as caught:
        read(context, url=f"{rows.base}/rows", timeout=0.2, paginate={"by": "page", "items": "rows"})
    error = caught.value
    assert (error.kind, error.code, error.retryable) == ("timeout", "timeout", True)
    assert f"{error.details['page'] - 1} pages were read" in error.message and "0.2 s" in error.message
    assert error.details["page"] >= 1


def test_the_place_may_stand_in_the_body(rows, context):
    how = {"by": "cursor", "items": "data.rows", "next": "cursor", "send": "body"}
    found = read(context, method="POST", url=f"{rows.base}/rows", body={"q": 1}, paginate=how)
    assert found["count"] == 7
    assert [json.loads(one.body) for one in rows.received] == [
        {"q": 1},
        {"q": 1, "cursor": "after-3"},
        {"q": 1, "cursor": "after-6"},
    ]


def test_items_are_streamed_as_lines(rows, context, results):
    found = read(
        context, url=f"{rows.base}/rows", stream=True, paginate={"by": "link", "items": "$.data.rows"}
    )
    ref = found["data"]
    assert ref["meta"]["format"] == "jsonl" and ref["extracted"] == {"row_count": 7, "pages": 3}
    assert [json.loads(line) for line in results.get(ref["ref"]).splitlines()] == ROWS


def test_max_pages_ends_it_and_says_so(rows, context):
    found = read(
        context, url=f"{rows.base}/rows", paginate={"by": "page", "items": "data.rows", "max_pages": 2}
    )
    assert (found["count"], found["pages"], found["more"]) == (6, 2, True)


def test_a_page_is_tried_again_and_the_others_are_not(rows, context):
    good, failed = rows.answers["/rows"], []

    def moody(handler: Any) -> None:
        if "page=2" in handler.path and len(failed) < 2:
            failed.append(handler.path)
            reply(handler, {}, 429 if len(failed) == 1 else 503, Retry_After="0")
        else:
            good(handler)

    rows.answers["/rows"] = moody
    how = {"by": "page", "items": "data.rows", "size": 3, "retry": {"delay": 0.01}}
    assert read(context, url=f"{rows.base}/rows", paginate=how)["data"] == ROWS
    assert len(rows.received) == 5


@pytest.mark.parametrize(
    ("status", "wait", "retry", "requests"),
    [
        (503, "0", {"attempts": 2, "delay": 0}, 2),
        (429, "60", {}, 1),
        (429, "14", {}, 1),
        (400, "0", {}, 1),
    ],
)
def test_what_does_not_help_is_left_to_the_task(rows, context, results, status, wait, retry, requests):
    """A pause that is longer than a worker waits, or than there is time; a page that never comes."""
    good = rows.answers["/rows"]
    rows.answers["/rows"] = lambda handler: (
        reply(handler, {}, status, Retry_After=wait) if "page=2" in handler.path else good(handler)
    )
    how = {"by": "page", "items": "data.rows", "retry": retry}
    with pytest.raises(TaskError) as caught:
        read(replace(context, timeout=13.0), url=f"{rows.base}/rows", stream=True, paginate=how)
    assert (caught.value.status, caught.value.details["page"]) == (status, 2)
    assert caught.value.details["retry_after"] == float(wait)
    assert len(rows.received) == 1 + requests
    assert results.delete_execution(1) == 0


@pytest.mark.parametrize(
    ("body", "how", "code"),
    [
        ({"rows": []}, {"by": "page"}, "pagination"),
        ({"rows": 5}, {"by": "page", "items": "rows"}, "pagination"),
        ({"next": "/rows?a", "rows": [1]}, {"by": "url", "next": "next", "items": "rows"}, "pagination"),
        ({"next": ["x"], "rows": [1]}, {"by": "cursor", "next": "next", "items": "rows"}, "pagination"),
        ({"next": "http://localhost:9/", "rows": [1]}, {"by": "url", "next": "next", "items": "rows"}, "page_elsewhere"),
        ({"next": "file:///etc/passwd", "rows": [1]}, {"by": "url", "next": "next", "items": "rows"}, "url_invalid"),
    ],
)  # fmt: skip
def test_pages_that_lead_nowhere(web, context, body, how, code):
    web.answers["/rows"] = lambda handler: reply(handler, body)
    with pytest.raises(TaskError) as caught:
        read(context, url=f"{web.base}/rows", paginate=how)
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("client_error", code, False)
    assert len(web.received) <= 2


def test_another_host_has_to_be_named_and_gets_no_credentials(web, make_context, context):
    other = f"http://localhost:{web.port}/more"
    web.answers["/rows"] = lambda handler: reply(handler, {"rows": [1], "next": other})
    web.answers["/more"] = lambda handler: reply(handler, {"rows": [2]})
    how = {"by": "url", "next": "next", "items": "rows", "hosts": ["localhost"]}
    settings = replace(context.settings, http_allow=("127.0.0.1", "localhost", "::1"))
    found = read(replace(context, settings=settings), url=f"{web.base}/rows", auth="c", paginate=how)
    assert found["data"] == [1, 2]
    assert [one.headers.get("authorization") for one in web.received] == ["Bearer t0ken", None]


@pytest.mark.parametrize(
    ("paginate", "words"),
    [
        ({}, "by"),
        ({"by": "cursor"}, "next"),
        ({"by": "link", "param": "p"}, "param"),
        ({"by": "offset", "start": "x"}, "start"),
        ({"by": "page", "items": "$..x"}, "items"),
        ({"by": "page", "pages": 3}, "pages"),
    ],
)
def test_wishes_that_mean_nothing_are_refused_beforehand(paginate, words):
    (problem,) = default_registry().check("http", {"url": "http://a.example/", "paginate": paginate})
    assert words in problem.message


def test_more_than_a_result_may_have_is_refused(web, make_context):
    web.answers["/rows"] = lambda handler: reply(handler, ["x" * 1000] * 10)
    with pytest.raises(TaskError) as caught:
        read(
            make_context(http_allow=ALLOW, output_max_bytes=50_000),
            url=f"{web.base}/rows",
            paginate={"by": "page"},
        )
    assert (caught.value.kind, caught.value.code) == ("storage_quota", "result_too_large")
    assert len(web.received) < 20
